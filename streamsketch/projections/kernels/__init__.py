"""Kernels in Numba and LLVM, over plain arrays; each has a slow, readable twin in the tests."""
