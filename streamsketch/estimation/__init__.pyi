from .distances import Block, block_of, distances_between, pairwise
from .estimate import Estimate, Estimates, Interval, rounded
from .estimators import cosine, inner_product, normalised_inner_product, squared_distance, squared_norm
from .views import AnySketch, check_comparable

__all__ = [
    "AnySketch",
    "Block",
    "Estimate",
    "Estimates",
    "Interval",
    "block_of",
    "check_comparable",
    "cosine",
    "distances_between",
    "inner_product",
    "normalised_inner_product",
    "pairwise",
    "rounded",
    "squared_distance",
    "squared_norm",
]
