"""Apache Beam transforms that sketch, release and compare data that does not fit one machine.

The merged sketches have the same bits as one loop over the data, on any runner, with any bundling and any
retries; releases carry noise that is drawn once (Theory 4.2).
"""

from streamsketch._lazy import attach
from streamsketch.beam.run import coders as _coders

__getattr__, __dir__, __all__ = attach(__name__, __file__)

_coders.register_coders()  # whichever module is imported first
