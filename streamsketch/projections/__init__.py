"""The public maps: integer matrices, rebuilt from a public seed, times a public scale."""

import lazy_loader

import streamsketch.projections.families  # noqa: F401 - from here on every kind is known to `Projection.from_json`

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
