"""The module that publishes, for what it knows and that hands data on to it."""

import functools
from types import ModuleType


@functools.cache
def publishing() -> ModuleType:
    """Return `streamsketch.release.agreed`: releases know agreements and sketches, not the reverse."""
    from streamsketch.release import agreed  # noqa: PLC0415 - loads when something is published

    return agreed
