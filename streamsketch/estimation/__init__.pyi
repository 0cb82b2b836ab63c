from .distances import MEASURES, By, check_by, compared, distances_between, pairwise
from .estimate import Estimate, Estimates, rounded
from .estimators import (
    cosine,
    inner_product,
    normalised_inner_product,
    profile_distance,
    squared_distance,
    squared_norm,
)
from .inversion import Interval
from .shapes import below_noise_floor, squared_norms
from .views import AnySketch, Block, block_of, check_comparable

__all__ = [
    "MEASURES",
    "AnySketch",
    "Block",
    "By",
    "Estimate",
    "Estimates",
    "Interval",
    "below_noise_floor",
    "block_of",
    "check_by",
    "check_comparable",
    "compared",
    "cosine",
    "distances_between",
    "inner_product",
    "normalised_inner_product",
    "pairwise",
    "profile_distance",
    "rounded",
    "squared_distance",
    "squared_norm",
    "squared_norms",
]
