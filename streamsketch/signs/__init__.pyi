from .angles import Expected, angle, cosine, expected, needs_norms
from .flip_check import check_flips, check_individual, check_signs
from .hamming import check_comparable, distances_between, hamming_distance, hamming_distances, nearest, words_of
from .index_file import is_index
from .individual import IDPSignOPORP, IDPSignOPORPG, IDPSignRPG, IDPSignRPRR
from .publishers import (
    DPSignLogistic,
    DPSignOPORPRR,
    DPSignOPORPRRSmooth,
    DPSignRPRR,
    DPSignRPRRSmooth,
    SignMechanism,
    SignPublisher,
    SignTable,
)
from .sign_changes import FlipLaw, Shape, cell_steps
from .sign_index import Angles, SignIndex
from .sign_products import SignProducts, plain_products, shared_covariance, sign_products
from .sketch import IndividualSignSketch, Method, Signs, SignSketch

__all__ = [
    "Angles",
    "DPSignLogistic",
    "DPSignOPORPRR",
    "DPSignOPORPRRSmooth",
    "DPSignRPRR",
    "DPSignRPRRSmooth",
    "Expected",
    "FlipLaw",
    "IDPSignOPORP",
    "IDPSignOPORPG",
    "IDPSignRPG",
    "IDPSignRPRR",
    "IndividualSignSketch",
    "Method",
    "Shape",
    "SignIndex",
    "SignMechanism",
    "SignProducts",
    "SignPublisher",
    "SignSketch",
    "SignTable",
    "Signs",
    "angle",
    "cell_steps",
    "check_comparable",
    "check_flips",
    "check_individual",
    "check_signs",
    "cosine",
    "distances_between",
    "expected",
    "hamming_distance",
    "hamming_distances",
    "is_index",
    "nearest",
    "needs_norms",
    "plain_products",
    "shared_covariance",
    "sign_products",
    "words_of",
]
