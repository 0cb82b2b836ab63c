"""Mergeable sketches of data streams that can leave the building.

Parties turn streams of (key, index, value) events into small integer vectors by a public random projection; the
vectors add up exactly; each is published once with just enough noise for differential privacy; anyone can then
estimate distances, inner products and angles, with error bars.

Names are loaded on first use, so that ``import streamsketch`` itself is quick. The documentation begins with
docs/index.md in the repository; docs/reference/glossary.md explains its terms.

Examples
--------
>>> import streamsketch as ss
>>> north = ss.CountSketch(sketch_dim=256, seed=7).sketch()
>>> north.update(["tea", "milk", "tea"])
>>> released = north.release(epsilon=1.0, neighbours=ss.L1(1, unit="sale"))
>>> print(released.guarantee)
ε = 1, δ = 0 for one sale of at most 1 (L1), asserted, by discrete Laplace, scale 1
"""

from streamsketch._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
