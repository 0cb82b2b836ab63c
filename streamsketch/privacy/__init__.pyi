from . import calibration
from .calibration import Mechanism, Sensitivity, candidates, gaussian_log_delta, gaussian_sigma
from .composition import Accounted, Spent, account, gaussian_epsilon
from .flips import check_rate, flips, rate_below
from .guarantee import L1, MAX_CONDITIONS, Guarantee, Neighbours, OneCoordinate, Populations, check_budget, compose
from .individual import IndividualGuarantee
from .key_selection import KeyThreshold, key_threshold
from .noise import Cumulants, DiscreteGaussian, DiscreteLaplace, Noise
from .samplers import MAX_LAPLACE_SCALE, MAX_SIGMA_SQUARED, BitSource, Bytes, KeyedBits, SystemBits

__all__ = [
    "L1",
    "MAX_CONDITIONS",
    "MAX_LAPLACE_SCALE",
    "MAX_SIGMA_SQUARED",
    "Accounted",
    "BitSource",
    "Bytes",
    "Cumulants",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Guarantee",
    "IndividualGuarantee",
    "KeyThreshold",
    "KeyedBits",
    "Mechanism",
    "Neighbours",
    "Noise",
    "OneCoordinate",
    "Populations",
    "Sensitivity",
    "Spent",
    "SystemBits",
    "account",
    "calibration",
    "candidates",
    "check_budget",
    "check_rate",
    "compose",
    "flips",
    "gaussian_epsilon",
    "gaussian_log_delta",
    "gaussian_sigma",
    "key_threshold",
    "rate_below",
]
