from .angles import angle, cosine
from .hamming import hamming_distance, hamming_distances, nearest
from .individual import IDPSignOPORP, IDPSignOPORPG, IDPSignRPG, IDPSignRPRR
from .publishers import (
    DPSignLogistic,
    DPSignOPORPRR,
    DPSignOPORPRRSmooth,
    DPSignRPRR,
    DPSignRPRRSmooth,
    SignMechanism,
    SignTable,
)
from .sign_index import Angles, SignIndex
from .sketch import IndividualSignSketch, SignSketch

__all__ = [
    "Angles",
    "DPSignLogistic",
    "DPSignOPORPRR",
    "DPSignOPORPRRSmooth",
    "DPSignRPRR",
    "DPSignRPRRSmooth",
    "IDPSignOPORP",
    "IDPSignOPORPG",
    "IDPSignRPG",
    "IDPSignRPRR",
    "IndividualSignSketch",
    "SignIndex",
    "SignMechanism",
    "SignSketch",
    "SignTable",
    "angle",
    "cosine",
    "hamming_distance",
    "hamming_distances",
    "nearest",
]
