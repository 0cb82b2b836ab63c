"""The library inside other tools: scikit-learn and DuckDB."""
