"""Local mean estimation: each person randomises their own vector, and a server averages the reports.

All mechanisms have the same interface: `Mechanism.randomize` and `randomize_many` on the device, and
`Mechanism.expected_squared_error`. On the server, a `MeanAggregator` sums the reports of any of them. ``baselines/``
holds earlier mechanisms, which the others improve on.
"""

import streamsketch.local.families  # noqa: F401 - registers every mechanism for `Mechanism.from_json`
from streamsketch._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
