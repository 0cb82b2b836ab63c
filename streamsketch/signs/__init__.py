"""Sign sketches: only the signs of a projection are published, k bits a vector, searchable by popcount.

The mechanisms of Li and Li 2023, on exact integer cells and with exact flips (Theory 6). Differentially private:
`DPSignRPRR`, `DPSignRPRRSmooth`, `DPSignOPORPRR`, `DPSignOPORPRRSmooth` and `DPSignLogistic`, which return a
`SignSketch`. **Individually** differentially private, which is **not** differential privacy: `IDPSignRPG`,
`IDPSignRPRR`, `IDPSignOPORP` and `IDPSignOPORPG`, which return an `IndividualSignSketch`.
"""

from streamsketch._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
