from .aggregation import MeanAggregator
from .baselines.priv_hs import PrivHS, RePrivHS
from .baselines.priv_unit import PrivUnit
from .baselines.sqkr import SQKR
from .compressed import CompPrivUnitG
from .gaussian import GaussianMechanism
from .mechanism import Mechanism
from .priv_unit_g import PrivUnitG
from .proj_unit import ProjUnit
from .report import Report, Reports
from .updates import ModelUpdates, is_reported

__all__ = [
    "SQKR",
    "CompPrivUnitG",
    "GaussianMechanism",
    "MeanAggregator",
    "Mechanism",
    "ModelUpdates",
    "PrivHS",
    "PrivUnit",
    "PrivUnitG",
    "ProjUnit",
    "RePrivHS",
    "Report",
    "Reports",
    "is_reported",
]
