"""Local mean estimation: each person randomises their own unit vector, and a server averages the reports.

All mechanisms have the same interface: `Mechanism.randomize` and `randomize_many` on the device,
`Mechanism.aggregator` on the server, and `Mechanism.expected_squared_error`.
"""

import lazy_loader

import streamsketch.local.families  # noqa: F401 - registers every mechanism for `Mechanism.from_json`

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
