"""Check the privacy of any release function: of this library, of another one, or your own.

`law_of` lists every outcome of a function that takes its random choices from an argument, with exact chances;
`largest_loss` and `largest_delta` compare neighbours by them. `play` compares thousands of runs of any function: what
it rejects is wrong, but for a stated chance, and what it does not reject is not proven.
"""

from streamsketch._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
