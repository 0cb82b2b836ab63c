from .blocks import AnySketch, Block, block_of, check_comparable
from .cosines import below_noise_floor
from .distances import MEASURES, By, check_by, compared, distances_between, pairwise
from .estimate import Estimate, Estimates, estimate_cells, interval_text, rounded
from .estimators import (
    cosine,
    inner_product,
    normalised_inner_product,
    profile_distance,
    squared_distance,
    squared_norm,
)
from .intervals import Interval
from .noise_effect import InputNoise, OutputNoise, effect_of, noise_unit

__all__ = [
    "MEASURES",
    "AnySketch",
    "Block",
    "By",
    "Estimate",
    "Estimates",
    "InputNoise",
    "Interval",
    "OutputNoise",
    "below_noise_floor",
    "block_of",
    "check_by",
    "check_comparable",
    "compared",
    "cosine",
    "distances_between",
    "effect_of",
    "estimate_cells",
    "inner_product",
    "interval_text",
    "noise_unit",
    "normalised_inner_product",
    "pairwise",
    "profile_distance",
    "rounded",
    "squared_distance",
    "squared_norm",
]
