"""Guarantees, calibration, exact samplers and noise. Knows nothing of projections beyond their sensitivities."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
