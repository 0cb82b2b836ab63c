from .changes import Against, Changes, Control, changes
from .differences import DifferenceBy, Differences, top_differences
from .estimate import Estimate, SecretEstimate
from .estimate_arrays import Estimates, SecretEstimates
from .estimators import (
    cosine,
    inner_product,
    normalised_inner_product,
    profile_distance,
    squared_distance,
    squared_norm,
)
from .gap_law import GapLaw, gap_law
from .groups import Linkage, linkage
from .histograms import distinct, entropy, l1_norm
from .intervals import Interval
from .joint_estimate import (
    CosineLaw,
    JointEstimate,
    JointEstimates,
    JointModel,
    SecretJointEstimate,
    SecretJointEstimates,
)
from .largest import Top, top
from .means import mean_distance, mean_norm, mean_product
from .measures import pairwise
from .noise_law import NoiseTerm, noise_terms, terms_of
from .points import PointEstimator, Points, frequency, points_of
from .populations import column_differences, describe, mmd
from .ranking import Ranks
from .same import SameBy, SameTest, sameness
from .sites import SiteComparison, compare_sites
from .spelling import Explained, SpellingReport, SpeltOtherwise, spelling

__all__ = [
    "Against",
    "Changes",
    "Control",
    "CosineLaw",
    "DifferenceBy",
    "Differences",
    "Estimate",
    "Estimates",
    "Explained",
    "GapLaw",
    "Interval",
    "JointEstimate",
    "JointEstimates",
    "JointModel",
    "Linkage",
    "NoiseTerm",
    "PointEstimator",
    "Points",
    "Ranks",
    "SameBy",
    "SameTest",
    "SecretEstimate",
    "SecretEstimates",
    "SecretJointEstimate",
    "SecretJointEstimates",
    "SiteComparison",
    "SpellingReport",
    "SpeltOtherwise",
    "Top",
    "changes",
    "column_differences",
    "compare_sites",
    "cosine",
    "describe",
    "distinct",
    "entropy",
    "frequency",
    "gap_law",
    "inner_product",
    "l1_norm",
    "linkage",
    "mean_distance",
    "mean_norm",
    "mean_product",
    "mmd",
    "noise_terms",
    "normalised_inner_product",
    "pairwise",
    "points_of",
    "profile_distance",
    "sameness",
    "spelling",
    "squared_distance",
    "squared_norm",
    "terms_of",
    "top",
    "top_differences",
]
