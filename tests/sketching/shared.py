"""Projections, streams of events and the twin that sketches are held against."""

from typing import Any

from hypothesis import strategies as st

from streamsketch import SJLT, CountSketch, Sketch
from streamsketch.projections import Projection
from tests.oracles import naive

WIDE = SJLT(dim=2**60, sketch_dim=64, sparsity=4, seed=7)
NARROW = SJLT(dim=1000, sketch_dim=1024, sparsity=8, seed=8)
CENTS = SJLT(dim=2**60, sketch_dim=64, sparsity=4, seed=7, resolution="1/100")
COUNT = CountSketch(dim=2**33, sketch_dim=32, seed=9)

LARGEST = 2**63 - 1
Event = tuple[int, int]
events = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 2**32 - 1, 2**32, 2**60 - 1]) | st.integers(0, 2**60 - 1),
        st.integers(-5, 5) | st.integers(-(2**31) - 1, 2**31 + 1) | st.integers(-(2**50), 2**50),
    ),
    max_size=60,
)


def twin(projection: Projection) -> naive.Map:
    return naive.Map.from_json(projection.to_json())


def sketch_of(projection: Projection, stream: list[Event]) -> Sketch:
    sketch = projection.sketch()
    sketch.update([index for index, _ in stream], [value for _, value in stream])
    return sketch


def check(sketch: Sketch, stream: list[Any]) -> None:
    """Assert that the cells and the mass are those of one loop over the stream."""
    expected = twin(sketch.projection)
    assert sketch.state().tolist() == expected.sketch(stream)
    assert sketch.mass == expected.mass(value for _, value in stream)
