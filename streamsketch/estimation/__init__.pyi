from .blocks import AnySketch, Block, block_of, check_comparable, is_secret
from .changes import (
    Against,
    Changes,
    Control,
    SeriesOptions,
    changes,
    changes_of,
    check_series_options,
    typical_tolerance,
)
from .cosines import below_noise_floor, least_norm
from .counts import estimate_of_counts, published_counts, total_factors, total_of, unit_factors, units_of
from .differences import DifferenceBy, Differences, differences_from_others, differences_of_pairs, top_differences
from .distances import distances_between
from .estimate import (
    SECRECY,
    SECRET_METADATA,
    Estimate,
    Estimates,
    Level,
    SecretEstimate,
    SecretEstimates,
    estimate_cells,
    format_value,
    interval_text,
    value_text,
)
from .estimators import (
    cosine,
    inner_product,
    normalised_inner_product,
    profile_distance,
    squared_distance,
    squared_norm,
)
from .gap_law import GapLaw, gap_law
from .groups import Linkage, linkage, ordered_tree, similarity_order
from .histograms import distinct, entropy, l1_norm
from .intervals import Interval, Intervals, quantile
from .items import item_table
from .largest import Top, top
from .means import LEAST_UNITS, few_units, mean_distance, mean_norm, mean_product
from .measures import MEASURES, By, check_by, compare_blocks, pairwise
from .noise_effect import InputNoise, OutputNoise, effect_of, noise_unit
from .noise_law import NoiseTerm, noise_terms, terms_of
from .points import PointEstimator, Points, check_point_estimator, frequency, points_of
from .populations import column_differences, describe, mmd
from .ranking import Ranks
from .same import SameBy, SameTest, check_same_by, check_tolerance, same_as_zero, test_same
from .sample_law import NORMAL_KURTOSIS, SAMPLE_ERRORS, kept_share, longest_norms, samples_apart
from .sites import MOST_PAIRS, SiteComparison, compare_sites

__all__ = [
    "LEAST_UNITS",
    "MEASURES",
    "MOST_PAIRS",
    "NORMAL_KURTOSIS",
    "SAMPLE_ERRORS",
    "SECRECY",
    "SECRET_METADATA",
    "Against",
    "AnySketch",
    "Block",
    "By",
    "Changes",
    "Control",
    "DifferenceBy",
    "Differences",
    "Estimate",
    "Estimates",
    "GapLaw",
    "InputNoise",
    "Interval",
    "Intervals",
    "Level",
    "Linkage",
    "NoiseTerm",
    "OutputNoise",
    "PointEstimator",
    "Points",
    "Ranks",
    "SameBy",
    "SameTest",
    "SecretEstimate",
    "SecretEstimates",
    "SeriesOptions",
    "SiteComparison",
    "Top",
    "below_noise_floor",
    "block_of",
    "changes",
    "changes_of",
    "check_by",
    "check_comparable",
    "check_point_estimator",
    "check_same_by",
    "check_series_options",
    "check_tolerance",
    "column_differences",
    "compare_blocks",
    "compare_sites",
    "cosine",
    "describe",
    "differences_from_others",
    "differences_of_pairs",
    "distances_between",
    "distinct",
    "effect_of",
    "entropy",
    "estimate_cells",
    "estimate_of_counts",
    "few_units",
    "format_value",
    "frequency",
    "gap_law",
    "inner_product",
    "interval_text",
    "is_secret",
    "item_table",
    "kept_share",
    "l1_norm",
    "least_norm",
    "linkage",
    "longest_norms",
    "mean_distance",
    "mean_norm",
    "mean_product",
    "mmd",
    "noise_terms",
    "noise_unit",
    "normalised_inner_product",
    "ordered_tree",
    "pairwise",
    "points_of",
    "profile_distance",
    "published_counts",
    "quantile",
    "same_as_zero",
    "samples_apart",
    "similarity_order",
    "squared_distance",
    "squared_norm",
    "terms_of",
    "test_same",
    "top",
    "top_differences",
    "total_factors",
    "total_of",
    "typical_tolerance",
    "unit_factors",
    "units_of",
    "value_text",
]
