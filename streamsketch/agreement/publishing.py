"""Access to the module that makes releases, for the modules that it imports itself."""

import functools
from types import ModuleType


@functools.cache
def publishing() -> ModuleType:
    """Return `streamsketch.release.agreed`, which imports agreements and sketches: they cannot import it."""
    from streamsketch.release import agreed  # noqa: PLC0415 - loads when something is published

    return agreed
