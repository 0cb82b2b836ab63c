"""The exchange format, µs per release of 1024 cells, beside pickle.

Reading a release checks everything a stranger could have changed; pickle checks nothing, and runs what the
stranger wrote. What is pickled is a tuple of the release's fields: a release itself pickles through its own
format, so that would be no comparison. The size is a property of the format, not a time.
"""

import pickle

import numpy as np

import streamsketch as ss
from benchmarks.rows import MICROSECONDS, Effort, Row, compare
from benchmarks.timing import Work


def run(effort: Effort) -> list[Row]:
    """Measure writing and reading, and compare the sizes."""
    rng = np.random.default_rng(5)
    n = effort.size(100_000)
    sketch = ss.SJLT(dim=1 << 40, sketch_dim=1024, sparsity=8, seed=2024).sketch()
    sketch.update(rng.integers(0, 1 << 40, n), rng.integers(-9, 10, n))
    release = sketch.release(epsilon=1.0, neighbours=ss.L1(1))
    fields = (
        release.projection,
        release.values,
        release.noise,
        release.guarantee,
        release.multiplier,
        release.release_ids,
    )
    data, pickled = release.to_bytes(), pickle.dumps(fields)
    return [
        compare(
            "to_bytes",
            {"streamsketch": Work(release.to_bytes), "pickle": Work(lambda: pickle.dumps(fields))},
            effort,
            MICROSECONDS,
        ),
        compare(
            "from_bytes",
            {
                "streamsketch": Work(lambda: ss.PrivateSketch.from_bytes(data)),
                "pickle": Work(lambda: pickle.loads(pickled)),  # noqa: S301 - our own bytes, a line above
            },
            effort,
            MICROSECONDS,
        ),
        Row("size", "bytes", len(data), {"pickle": len(pickled)}, len(data) / len(pickled)),
    ]
