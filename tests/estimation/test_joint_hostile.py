"""Joint estimates of keys that a hostile reader would choose, and of ranges of histories.

Coverage and errors are in ``statistical/test_joint.py`` and ``benchmarks/accuracy/joint_coverage.py``.
"""

import functools
from typing import Any

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.continual import Factorisation, History, Schedule, Separate, Tree
from streamsketch.errors import DependentNoiseError, InvalidInputError
from streamsketch.estimation.joint_estimate import JointEstimates
from streamsketch.privacy.samplers import KeyedBits
from streamsketch.projections import CountSketch
from streamsketch.schedules.releaser import Releaser
from tests.crossed import crossed

PROJECTION = ss.SJLT(dim=4000, sketch_dim=32, sparsity=4, seed=7)
WINDOWS = 12
SCHEDULES: tuple[Schedule, ...] = (Separate(horizon=WINDOWS), Tree(horizon=WINDOWS), Factorisation(horizon=WINDOWS))


def released(
    sizes: tuple[int, ...], epsilon: float = 1.0, projection: ss.projections.Projection = PROJECTION
) -> list[ss.PrivateSketch]:
    """Return releases of streams of 40 items, most of them shared with the next one; a size of 0 is an empty stream."""
    found = []
    for place, size in enumerate(sizes):
        sketch = projection.sketch()
        sketch.update(np.arange(40) + 3 * place, np.full(40, size))
        found.append(sketch.release(epsilon=epsilon, neighbours=ss.L1(5)))
    return found


HOSTILE: dict[str, list[Any]] = {
    "all empty": released((0,) * 6),
    "one that is not empty": released((0, 0, 5, 0, 0)),
    "two, of which one is empty": released((5, 0)),
    "sizes 10^12 apart": released((5, 10**12, 5, 5 * 10**11)),
    "more keys than cells": released((5,) * 40),
    "four cells": released((5, 4, 3, 5), projection=CountSketch(dim=4000, sketch_dim=4, seed=7)),
    "empty raw sketches": [PROJECTION.sketch() for _ in range(4)],
    "empty raw sketches beside a release": [*(PROJECTION.sketch() for _ in range(3)), *released((5,))],
    "noises 10^5 apart": [*released((5, 5), 1e-4), *released((5, 5), 10.0)],
}


@pytest.mark.filterwarnings("ignore::streamsketch.errors.BoundExceededWarning")
@crossed(name=HOSTILE, by=["cosine", "profile", "distance", "product"], order=[None, "time"])
def test_no_keys_make_joint_estimates_undefined_or_leave_their_range(name: str, by: Any, order: Any) -> None:
    found = ss.pairwise(HOSTILE[name], by=by, together=True, order=order)
    assert isinstance(found, JointEstimates)
    low, high = found.interval()
    for array in (found.value, found.standard_error):
        assert np.isfinite(array).all()
    for end in (low, high):
        assert not np.isnan(end).any()
    assert (found.lowest <= found.value).all()
    assert (found.value <= found.highest).all()
    assert ((low <= found.value) & (found.value <= high)).all()
    if by == "cosine":
        assert np.linalg.eigvalsh(found.value)[0] > -1e-9


@pytest.mark.parametrize("name", HOSTILE)
def test_the_interval_of_a_pair_without_a_cosine_of_its_own_is_the_whole_range(name: str) -> None:
    found = ss.pairwise(HOSTILE[name], by="cosine", together=True)
    assert isinstance(found, JointEstimates)
    hidden = np.isnan(found.alone.value)
    low, high = found.interval()
    assert (low[hidden] == -1).all()
    assert (high[hidden] == 1).all()


@pytest.mark.parametrize("name", HOSTILE)
def test_the_intervals_do_not_depend_on_the_other_keys(name: str) -> None:
    """But for what extends them to the joint estimate: whoever adds keys cannot make an interval narrower."""
    pair = HOSTILE[name][:2]
    among, two = (ss.pairwise(keys, by="cosine", together=True)[0, 1] for keys in (HOSTILE[name], pair))
    alone = ss.pairwise(pair, by="cosine")[0, 1].interval()
    for one in (among, two):
        inside = one.interval()
        if not np.isnan(alone.low):
            assert inside.low >= min(alone.low, one.value) - 1e-9
            assert inside.high <= max(alone.high, one.value) + 1e-9
    narrowest = [min(one.interval().high, 1.0) - max(one.interval().low, -1.0) for one in (among, two)]
    extended = max(abs(among.value - two.value), 0.0)
    assert abs(narrowest[0] - narrowest[1]) <= extended + 1e-9


# --- histories ----------------------------------------------------------------------------------------------------


@functools.cache
def rows(schedule: Schedule) -> tuple[list[ss.PrivateSketch], ...]:
    """Return the rows of four histories, whose tastes drift from stream to stream."""
    delta, mechanism = (1e-6, "gaussian") if isinstance(schedule, Factorisation) else (0.0, "laplace")
    publish = ss.AdditiveNoise(
        epsilon=1.0, delta=delta, neighbours=ss.L1(5), mechanism=mechanism, schedule=schedule
    ).calibrated(PROJECTION)
    found: list[list[ss.PrivateSketch]] = []
    for stream in range(4):
        name = b"stream %d" % stream
        releaser, bits = Releaser(publish, PROJECTION, history=name[:8]), KeyedBits(bytes(32), name)
        found.append([])
        for _ in range(WINDOWS):
            sketch = PROJECTION.sketch()
            for _ in range(4):
                sketch.update(np.arange(40) + 5 * stream, 5)
            found[-1].append(releaser.add(sketch, bits=lambda *_, bits=bits: bits))  # type: ignore[arg-type]
    return tuple(found)


def histories(schedule: Schedule) -> list[History]:
    return list(map(History, rows(schedule)))


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_ranges_of_different_histories_are_keys_like_others(schedule: Schedule) -> None:
    """Whatever their lengths, and so their noise."""
    streams = histories(schedule)
    spans = [(0, 12), (0, 6), (3, 12), (6, 7)]
    ranges = [history.range(*span) for history, span in zip(streams, spans, strict=True)]
    found = ss.pairwise(ranges, by="cosine", together=True)
    assert isinstance(found, JointEstimates)
    assert np.isfinite(found.value).all()
    for i, j in ((0, 1), (0, 2)):
        assert found.alone.value[i, j] == pytest.approx(ss.cosine(ranges[i], ranges[j]).value)
    again = ss.pairwise(dict(zip("abcd", ranges, strict=True)), by="cosine", together=True)
    assert (again.value == found.value).all()
    back = ss.pairwise(ranges[::-1], by="cosine", together=True)
    assert np.allclose(back.value[::-1, ::-1], found.value)
    differences = [history.difference((0, 9), (9, 12)) for history in streams]
    assert np.isfinite(ss.pairwise(differences, by="cosine", together=True).value).all()


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_ranges_of_one_history_are_refused(schedule: Schedule, together: bool) -> None:  # noqa: FBT001 - a parameter
    """They share the noise of its rows, even if they have no window in common."""
    first, second, *_ = histories(schedule)
    for ranges in (
        [first.range(0, 6), first.range(6, 12)],
        [first.range(0, 6), second.range(0, 6), first.range(6, 12)],
        [first.range(0, 6), first.range(0, 6)],
    ):
        with pytest.raises(DependentNoiseError, match=r"two ranges of one history\).*use its squared_distance"):
            ss.pairwise(ranges, by="cosine", together=together)


@pytest.mark.parametrize("together", [False, True])
def test_what_is_no_range_is_refused_with_a_remedy(together: bool) -> None:  # noqa: FBT001 - a parameter
    streams: list[Any] = list(histories(SCHEDULES[0]))
    with pytest.raises(TypeError, match=r"a History: choose a range of its windows: history\.range\(start, stop\)"):
        ss.pairwise(streams, together=together)
    with pytest.raises(TypeError, match=r"a History: its ranges share noise.*history\.squared_distance"):
        ss.pairwise(streams[0], together=together)
    with pytest.raises(TypeError, match="a Table"):
        ss.pairwise([history.series(6) for history in streams], together=together)
    with pytest.raises(InvalidInputError, match="a weighted sum of windows up to 3; read ranges"):
        ss.pairwise([several[3] for several in rows(SCHEDULES[0])], together=together)
