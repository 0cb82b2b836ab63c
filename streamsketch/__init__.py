"""Mergeable sketches of data streams that can leave the building.

Parties turn streams of (key, index, value) events into small integer vectors by a public random projection; the
vectors add up exactly; each is published once with just enough noise for differential privacy; anyone can then
estimate distances, inner products and angles, with error bars.

Names are loaded on first use, so that ``import streamsketch`` itself is quick. The documentation begins with
docs/index.md in the repository; docs/reference/glossary.md explains its terms.
"""

from streamsketch._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
