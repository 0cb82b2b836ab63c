"""Limits on the memory and work that readers spend on bytes of other parties.

For users: inside the package, each name is imported from its own module.
"""

from streamsketch.core.limits import Limits, reading_limits

__all__ = ["Limits", "reading_limits"]
