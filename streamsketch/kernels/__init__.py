"""All code for LLVM, and the Numba kernels of hashing and projections; the tests have a readable twin of each."""
