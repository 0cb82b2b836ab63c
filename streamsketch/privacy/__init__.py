"""Guarantees, calibration, exact samplers and noise. Knows nothing of projections beyond their sensitivities."""

import lazy_loader

import streamsketch.privacy.noises  # noqa: F401 - from here on every noise is known by its name

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
