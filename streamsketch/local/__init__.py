"""Local mean estimation: each person randomises their own unit vector, a server averages the reports.

Every mechanism has one interface: `Mechanism.randomize` and `randomize_many` on the device, `Mechanism.aggregator` on
the server, and the squared error to expect.
"""

import lazy_loader

import streamsketch.local.families  # noqa: F401 - from here on every mechanism is known to `Mechanism.from_json`

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
