"""The same inside other libraries: scikit-learn, DuckDB, Flower and NVIDIA FLARE."""
