"""Sign sketches: only the signs of a projection are published, k bits a vector, searchable by popcount.

The mechanisms of Li and Li 2023, on exact integer cells and with exact flips (THEORY.md 6). Differentially private:
`DPSignRPRR`, `DPSignRPRRSmooth`, `DPSignOPORPRR`, `DPSignOPORPRRSmooth` and `DPSignLogistic`, which return a
`SignSketch`. **Individually** differentially private, which is **not** differential privacy: `IDPSignRPG`,
`IDPSignRPRR` and `IDPSignOPORP`, which return an `IndividualSignSketch`.
"""

from streamsketch.privacy.individual import IndividualGuarantee
from streamsketch.signs.angles import angle, cosine
from streamsketch.signs.hamming import hamming_distance, hamming_distances
from streamsketch.signs.individual import IDPSignOPORP, IDPSignRPG, IDPSignRPRR
from streamsketch.signs.laws import FlipLaw
from streamsketch.signs.mechanisms import (
    DPSignLogistic,
    DPSignOPORPRR,
    DPSignOPORPRRSmooth,
    DPSignRPRR,
    DPSignRPRRSmooth,
)
from streamsketch.signs.retrieval import nearest
from streamsketch.signs.sketch import IndividualSignSketch, SignSketch
from streamsketch.wire.sign_tables import load_table, save_table
from streamsketch.wire.signs import load

__all__ = [
    "DPSignLogistic",
    "DPSignOPORPRR",
    "DPSignOPORPRRSmooth",
    "DPSignRPRR",
    "DPSignRPRRSmooth",
    "FlipLaw",
    "IDPSignOPORP",
    "IDPSignRPG",
    "IDPSignRPRR",
    "IndividualGuarantee",
    "IndividualSignSketch",
    "SignSketch",
    "angle",
    "cosine",
    "hamming_distance",
    "hamming_distances",
    "load",
    "load_table",
    "nearest",
    "save_table",
]
