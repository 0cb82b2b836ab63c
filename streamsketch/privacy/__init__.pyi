from . import calibration
from .assertions import (
    KEYS_AND_WINDOWS_ARE_PUBLIC,
    KEYS_ARE_PUBLIC,
    apart_in_merge,
    apart_in_streams,
    apart_in_tables,
    with_conditions,
)
from .bound_choice import ChosenBound, choose_bound
from .bounds import NO_DATA, UNKNOWN, Basis, Bounds
from .budget import Budget, exact_text, least, less, rounded_down, rounded_up, written
from .calibration import Candidate, candidates, mechanism_names
from .claims import Claim
from .composition import Accounted, PrivacyCost, account
from .counting import Counting, check_counted
from .exact_coins import Bytes
from .flip_sampler import flips
from .gaussian import DiscreteGaussian, gaussian_epsilon, gaussian_log_delta, gaussian_sigma
from .guarantee import MAX_CONDITIONS, Guarantee, Populations, compose
from .individual import IndividualGuarantee
from .key_selection import KeyThreshold, key_threshold
from .l1 import L1
from .l2 import L2
from .laplace import DiscreteLaplace
from .mechanism import (
    MAX_STEPS,
    AddedNoise,
    FlippedSigns,
    KeySelection,
    Mechanism,
    NoisePlace,
    Shares,
    StatedInText,
    Step,
)
from .neighbours import MOST_KEYS, NEIGHBOURS, Clip, Neighbours, check_neighbours, register_relation
from .noise import NOISES, Loss, Noise, NoiseMoments, Sensitivity, register, squared_distance_variance
from .one_coordinate import OneCoordinate
from .redundancy import non_redundant, sharing_data
from .samplers import MAX_SIGMA_SQUARED, BitSource, KeyedBits, SystemBits
from .sign_flips import FlipLaw, Shape, check_rate, rate_below, sign_margin
from .sketch_l2 import SketchL2
from .zcdp import epsilon_to_rho, pure_rho, rho_to_epsilon

__all__ = [
    "KEYS_AND_WINDOWS_ARE_PUBLIC",
    "KEYS_ARE_PUBLIC",
    "L1",
    "L2",
    "MAX_CONDITIONS",
    "MAX_SIGMA_SQUARED",
    "MAX_STEPS",
    "MOST_KEYS",
    "NEIGHBOURS",
    "NOISES",
    "NO_DATA",
    "UNKNOWN",
    "Accounted",
    "AddedNoise",
    "Basis",
    "BitSource",
    "Bounds",
    "Budget",
    "Bytes",
    "Candidate",
    "ChosenBound",
    "Claim",
    "Clip",
    "Counting",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "FlipLaw",
    "FlippedSigns",
    "Guarantee",
    "IndividualGuarantee",
    "KeySelection",
    "KeyThreshold",
    "KeyedBits",
    "Loss",
    "Mechanism",
    "Neighbours",
    "Noise",
    "NoiseMoments",
    "NoisePlace",
    "OneCoordinate",
    "Populations",
    "PrivacyCost",
    "Sensitivity",
    "Shape",
    "Shares",
    "SketchL2",
    "StatedInText",
    "Step",
    "SystemBits",
    "account",
    "apart_in_merge",
    "apart_in_streams",
    "apart_in_tables",
    "calibration",
    "candidates",
    "check_counted",
    "check_neighbours",
    "check_rate",
    "choose_bound",
    "compose",
    "epsilon_to_rho",
    "exact_text",
    "flips",
    "gaussian_epsilon",
    "gaussian_log_delta",
    "gaussian_sigma",
    "key_threshold",
    "least",
    "less",
    "mechanism_names",
    "non_redundant",
    "pure_rho",
    "rate_below",
    "register",
    "register_relation",
    "rho_to_epsilon",
    "rounded_down",
    "rounded_up",
    "sharing_data",
    "sign_margin",
    "squared_distance_variance",
    "with_conditions",
    "written",
]
