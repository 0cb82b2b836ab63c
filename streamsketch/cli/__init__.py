"""The command ``streamsketch``: one file a command; files that begin with an underscore serve several."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
