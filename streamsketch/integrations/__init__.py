"""The same inside other libraries: scikit-learn and DuckDB."""
