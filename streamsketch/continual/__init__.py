"""Any range of time of a stream, at about the noise of one window: schedules, and the histories they make."""

from streamsketch._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
