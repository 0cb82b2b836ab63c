"""The version, read by the build and by `streamsketch.__version__`."""

__version__ = "0.1.0"
