"""What a release guarantees, to whom, and what it does not, in words a person can check."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
