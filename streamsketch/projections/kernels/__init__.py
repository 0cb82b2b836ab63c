"""Kernels in Numba and LLVM over plain arrays; the tests have a readable reference implementation of each."""
