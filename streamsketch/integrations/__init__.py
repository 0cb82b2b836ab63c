"""Integrations with other libraries: scikit-learn and DuckDB."""
