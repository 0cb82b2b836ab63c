"""Sketches, releases and reports inside other libraries: scikit-learn, DuckDB, Flower and NVIDIA FLARE."""
