"""Local mean estimation: each person randomises their own unit vector, a server averages the reports.

Every mechanism has one interface: `Mechanism.randomize` and `randomize_many` on the device, `Mechanism.aggregator` on
the server, and the squared error to expect.
"""

from streamsketch.local.aggregation import MeanAggregator
from streamsketch.local.compressed import CompPrivUnitG
from streamsketch.local.gaussian import GaussianMechanism
from streamsketch.local.mechanism import Mechanism
from streamsketch.local.priv_hs import PrivHS, RePrivHS
from streamsketch.local.priv_unit import PrivUnit
from streamsketch.local.priv_unit_g import PrivUnitG
from streamsketch.local.proj_unit import ProjUnit
from streamsketch.local.report import Report, Reports
from streamsketch.local.sqkr import SQKR

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
]
