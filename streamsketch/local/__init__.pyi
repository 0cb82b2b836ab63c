from .aggregation import MeanAggregator, step_exponent_of
from .compressed import CompPrivUnitG
from .gaussian import GaussianMechanism
from .mechanism import Mechanism, mechanism_from_fields
from .priv_hs import PrivHS, RePrivHS
from .priv_unit import PrivUnit
from .priv_unit_g import PrivUnitG
from .proj_unit import ProjUnit
from .report import Report, Reports, all_fit, implausible
from .sqkr import SQKR

__all__ = [
    "SQKR",
    "CompPrivUnitG",
    "GaussianMechanism",
    "MeanAggregator",
    "Mechanism",
    "PrivHS",
    "PrivUnit",
    "PrivUnitG",
    "ProjUnit",
    "RePrivHS",
    "Report",
    "Reports",
    "all_fit",
    "implausible",
    "mechanism_from_fields",
    "step_exponent_of",
]
