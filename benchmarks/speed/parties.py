"""A round of ten parties, k = 2^16, beside ten releases that are merged, ms.

A contribution holds one party's cells, its share of the noise and its masks, and is signed; the round is made anew for
each, since a key contributes once. To combine is to check ten signatures and to add ten vectors up. *Release* is one
party's release as bytes, unsigned. *Merging* reads ten of them and adds them up in pairs; the sum holds ten noises.
"""

import dataclasses
import functools
import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np

import streamsketch as ss
from benchmarks.rows import MILLISECONDS, Effort, Row, Target, compare
from benchmarks.timing import Work
from streamsketch.parties import Key, Round

PARTIES = 10
NOISES: dict[str, dict[str, Any]] = {
    name: {"epsilon": 1.0, "delta": delta, "neighbours": ss.L1(1, unit="visit"), "mechanism": name}
    for name, delta in (("laplace", 0.0), ("gaussian", 1e-9))
}


def run(effort: Effort) -> list[Row]:
    """Measure what a party does and what the combiner does, with both noises."""
    cells = 1 << effort.size(1 << 16, least=64).bit_length() - 1  # a power of two, however shrunk
    projection = ss.SJLT(dim=1 << 40, sketch_dim=cells, sparsity=4, seed=2024)
    keys = [Key.generate(f"party {place}") for place in range(PARTIES)]
    sketches = [a_sketch(projection, place) for place in range(PARTIES)]
    rows = []
    for name, privacy in NOISES.items():
        agreed = Round(projection, parties=[key.public for key in keys], **privacy)
        sent = [agreed.contribute(sketch, key) for sketch, key in zip(sketches, keys, strict=True)]
        released = [sketch.release(**privacy).to_bytes() for sketch in sketches]
        contribute = {
            "streamsketch": Work(functools.partial(contributed, agreed, sketches[0], keys[0])),
            "release": Work(functools.partial(released_bytes, sketches[0], privacy)),
        }
        combine = {
            "streamsketch": Work(functools.partial(agreed.combine, sent)),
            "merging": Work(functools.partial(merged, released)),
        }
        rows += [
            compare(f"contribute, {name}", contribute, effort, MILLISECONDS, Target("ours", 60.0)),
            compare(f"combine, {name}", combine, effort, MILLISECONDS, Target("ours", 20.0)),
        ]
    return rows


def a_sketch(projection: ss.projections.Projection, place: int) -> ss.Sketch:
    """Return a party's data: a thousand visits."""
    sketch = projection.sketch()
    sketch.update(np.arange(1000) + 1000 * place, 1)
    return sketch


def contributed(agreed: Round, sketch: ss.Sketch, key: Key) -> bytes:
    """Return a contribution to a round of the same parties with an id of its own."""
    return dataclasses.replace(agreed, round_id=secrets.token_bytes(16)).contribute(sketch, key)


def released_bytes(sketch: ss.Sketch, privacy: dict[str, Any]) -> bytes:
    """Return one party's release."""
    return sketch.release(**privacy).to_bytes()


def merged(released: Sequence[bytes]) -> ss.PrivateSketch:
    """Return the sum of releases, which holds the noise of each."""
    releases = [ss.PrivateSketch.from_bytes(data) for data in released]
    return functools.reduce(lambda total, release: total.combine(release, populations="disjoint"), releases)
