"""Public hashing, compiled kernels, exact numbers, input limits and files: knows nothing of sketches."""
