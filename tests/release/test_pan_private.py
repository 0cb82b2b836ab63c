"""PanPrivateSketch: noise inside from the start, one intrusion and one release."""

import contextlib
import dataclasses
import gc
import os
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.privacy.gaussian import DiscreteGaussian
from streamsketch.privacy.laplace import DiscreteLaplace
from streamsketch.privacy.noise import Noise
from streamsketch.privacy.samplers import KeyedBits
from streamsketch.release.pan_private import PanPrivateSketch

SECRET = bytes(range(32))
PROJECTION = ss.SJLT(dim=1 << 40, sketch_dim=64, sparsity=4, seed=7)
STREAM = ([17, 18, 17, 1 << 39], [3, -1, 2, 40])
MARKER = 987_654_321_012_345


def pan_private(
    epsilon: float = 1.0, projection: ss.projections.Projection = PROJECTION, **options: object
) -> PanPrivateSketch:
    neighbours = options.pop("neighbours", ss.L1(1))
    return PanPrivateSketch(projection, epsilon=epsilon, neighbours=neighbours, **options)  # type: ignore[arg-type]


@pytest.fixture
def keyed(monkeypatch: pytest.MonkeyPatch) -> KeyedBits:
    """Let every pan-private sketch read one known stream instead of the operating system's; return its twin."""
    bits = KeyedBits(SECRET, b"pan-private")
    monkeypatch.setattr("streamsketch.release.ready.SystemBits", lambda: bits)
    return KeyedBits(SECRET, b"pan-private")


def exact(stream: tuple[list[int], list[int]], projection: ss.projections.Projection = PROJECTION) -> np.ndarray:  # type: ignore[type-arg]
    sketch = projection.sketch()
    sketch.update(*stream)
    return sketch.state()


def inner(counter: PanPrivateSketch) -> np.ndarray:  # type: ignore[type-arg]
    """Return the state without spending the one look."""
    return counter._state.copy()


# --- the law of what is seen ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "noise"),
    [({}, DiscreteLaplace(Fraction(4))), ({"delta": 1e-3, "mechanism": "gaussian"}, None)],
    ids=["laplace", "gaussian"],
)
def test_the_state_has_noise_inside_and_the_release_fresh_noise_on_top(
    keyed: KeyedBits, options: dict[str, object], noise: Noise | None
) -> None:
    counter = pan_private(**options)
    law = noise or counter._noisy.noise
    inside = law.sample(64, keyed)
    keyed.read(8)  # the id of what an intruder sees, which is a release that nobody publishes
    assert np.array_equal(inner(counter), inside)
    counter.update(*STREAM)
    assert np.array_equal(inner(counter), inside + exact(STREAM))
    fresh = law.sample(64, keyed)
    released = counter.release()
    assert np.array_equal(released.values, inside + exact(STREAM) + fresh)
    assert np.array_equal(inner(counter), inside + exact(STREAM))
    assert (fresh != 0).any()
    assert released.release_ids == (keyed.read(8),)


def test_the_noise_of_a_release_is_twice_that_of_a_plain_one() -> None:
    for options in ({}, {"delta": 1e-9, "mechanism": "gaussian"}):
        counter = pan_private(**options)
        plain = PROJECTION.sketch().release(epsilon=1.0, neighbours=ss.L1(1), **options)  # type: ignore[arg-type]
        released = counter.release()
        assert released.noise.k2 == pytest.approx(2 * plain.noise.k2, rel=1e-12)
        assert released.noise.k4 == pytest.approx(2 * plain.noise.k4, rel=1e-12)


@pytest.mark.parametrize("options", [{}, {"delta": 1e-3, "mechanism": "gaussian"}], ids=["laplace", "gaussian"])
def test_the_doubled_variance_is_the_one_that_is_there(keyed: KeyedBits, options: dict[str, object]) -> None:
    wide = PROJECTION.replace(sketch_dim=1 << 16)
    counter = pan_private(projection=wide, **options)
    counter.update(*STREAM)
    released = counter.release()
    assert keyed is not None  # fixed bits, so this never changes
    errors = (released.values - exact(STREAM, wide)).astype(np.float64)
    noise = released.noise
    spread = ((noise.k4 + 2 * noise.k2**2) / errors.size) ** 0.5
    assert abs((errors**2).mean() - noise.k2) < 5 * spread
    assert abs(errors.mean()) < 5 * (noise.k2 / errors.size) ** 0.5


def test_two_intrusions_would_show_the_stream_in_between_exactly() -> None:
    """Why the guarantee covers one intrusion only."""
    counter = pan_private()
    first = inner(counter)
    counter.update(*STREAM)
    assert np.array_equal(inner(counter) - first, exact(STREAM))


def test_bits_come_from_the_operating_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.urandom", KeyedBits(SECRET, b"os").read)
    bits = KeyedBits(SECRET, b"os")
    law = DiscreteLaplace(Fraction(4))
    counter = pan_private()
    bits.read(16)  # the id of the data
    assert np.array_equal(inner(counter), law.sample(64, bits))
    bits.read(8)  # of what an intruder sees, which is a release that nobody publishes
    assert np.array_equal(counter.release().values, inner(counter) + law.sample(64, bits))


# --- updates --------------------------------------------------------------------------------------------------


def test_updates_add_what_a_sketch_would() -> None:
    gridded = PROJECTION.replace(resolution="1/10")
    counter = pan_private(projection=gridded)
    before = inner(counter)
    plain = gridded.sketch()
    for sketch in (counter, plain):
        sketch.update(3)
        sketch.update(4, -0.25)
        sketch.update(np.array([5, 6]), np.array([1.99, -7.0]))
        sketch.update([8, 9, 10])
    assert np.array_equal(inner(counter) - before, plain.state())


def test_an_update_is_in_the_state_at_once() -> None:
    counter = pan_private()
    before = inner(counter)
    counter.update(17)
    assert np.abs(inner(counter) - before).sum() == 4


@pytest.mark.parametrize(
    ("indices", "values"),
    [(1 << 40, 1), (-1, 1), ([1, 2], [1]), (1, float("nan")), ([1, 2], [1.0, float("inf")]), ("key", 1), (None, 1)],
)
def test_bad_input_is_refused_and_leaves_the_state(indices: object, values: object) -> None:
    counter = pan_private()
    before = inner(counter)
    with pytest.raises(ss.InvalidInputError):
        counter.update(indices, values)
    assert np.array_equal(inner(counter), before)


def test_no_sum_is_refused_and_cells_wrap_around() -> None:
    counter, plain = pan_private(), PROJECTION.sketch()
    before = inner(counter)
    for sketch in (counter, plain):
        sketch.update(17, (1 << 62) + 1000)
        sketch.update(17, 1 << 62)
    assert np.array_equal(inner(counter) - before, plain.state())
    counter.release()


def test_the_state_is_a_copy() -> None:
    counter = pan_private()
    counter.state()[:] = 0
    assert inner(counter).any()


# --- one look, one release -------------------------------------------------------------------------------------


def test_a_second_look_is_refused() -> None:
    counter = pan_private()
    counter.update(*STREAM)
    counter.state()
    with pytest.raises(ss.InvalidInputError, match="already looked at, and its guarantee covers one look"):
        counter.state()
    counter.update(17)
    counter.release()


class Slow:
    """Noise of zeros whose draw lets other threads in: they meet at a barrier that only a race can pass."""

    cumulants = DiscreteLaplace(Fraction(4)).cumulants

    def __init__(self, threads: int) -> None:
        self.inside = threading.Barrier(threads)

    def sample(self, size: int, bits: object) -> np.ndarray:  # type: ignore[type-arg]
        del bits
        with contextlib.suppress(threading.BrokenBarrierError):
            self.inside.wait(0.05)
        return np.zeros(size, dtype=np.int64)


def test_of_many_threads_one_releases() -> None:
    counter = pan_private()
    counter._noisy = dataclasses.replace(counter._noisy, noise=Slow(4))

    def released(_: int) -> bool:
        try:
            counter.release()
        except ss.InvalidInputError:
            return False
        return True

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(released, range(4))) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_can_neither_look_nor_release(monkeypatch: pytest.MonkeyPatch) -> None:
    counter = pan_private()
    monkeypatch.setattr(os, "getpid", lambda: counter._process + 1)  # as in a child; forking under threads may hang
    for use in (counter.release, counter.state, lambda: counter.update(17)):
        with pytest.raises(ss.InvalidInputError, match="a forked process could release it"):
            use()
    monkeypatch.undo()
    counter.release()


# --- the release ----------------------------------------------------------------------------------------------


def test_one_release_closes_the_sketch() -> None:
    counter = pan_private()
    counter.update(*STREAM)
    counter.release()
    state = inner(counter)
    for again in (counter.release, lambda: counter.update(17), lambda: counter.update([1, 2], [3, 4])):
        with pytest.raises(ss.InvalidInputError, match="released and is closed; a second release would spend ε again"):
            again()
    assert np.array_equal(inner(counter), state)


def test_the_guarantee_names_both_noises() -> None:
    counter = pan_private(0.5, neighbours=ss.L1(2, unit="visit"))
    assert str(counter.guarantee) == (
        "ε = 0.5, δ = 0 for one visit of at most 2 (L1), asserted, by discrete Laplace, scale 16, inside and on release"
    )
    released = counter.release()
    assert released.guarantee == counter.guarantee
    assert released.projection == PROJECTION


def test_a_gaussian_is_calibrated_to_the_budget_as_for_one_view() -> None:
    counter = pan_private(delta=1e-9, mechanism="gaussian")
    plain = PROJECTION.sketch().release(epsilon=1.0, delta=1e-9, neighbours=ss.L1(1), mechanism="gaussian")
    assert isinstance(counter._noisy.noise, DiscreteGaussian)
    assert str(counter.guarantee.mechanism) == f"{plain.guarantee.mechanism}, inside and on release"
    assert counter.guarantee.delta == 1e-9


def test_releases_are_ordinary_private_sketches() -> None:
    counters = [pan_private() for _ in range(2)]
    for counter in counters:
        counter.update(*STREAM)
    one, other = (counter.release() for counter in counters)
    assert ss.squared_distance(one, other).noise_variance > 0
    assert ss.PrivateSketch.from_bytes(one.to_bytes()) == one
    assert one.combine(other, populations="disjoint").guarantee.epsilon == 1.0


# --- nothing exact in memory ----------------------------------------------------------------------------------


def reachable(root: object) -> list[object]:
    """Everything an object holds, however deep; types and modules aside."""
    seen: dict[int, object] = {}
    stack = [root]
    while stack:
        one = stack.pop()
        if type(one) in weakref.ProxyTypes:  # which hold nothing, and fail once it is gone
            continue
        if id(one) not in seen and not isinstance(one, type) and type(one).__name__ not in ("module", "function"):
            seen[id(one)] = one
            stack += gc.get_referents(one)
    return list(seen.values())


@pytest.mark.usefixtures("keyed")
def test_memory_holds_no_exact_counter_and_no_raw_event() -> None:
    projection = ss.SJLT(dim=1 << 40, sketch_dim=64, sparsity=4, seed=11)
    counter = pan_private(1e-6, projection=projection)
    events = [(1 << 39) + 12345, (1 << 38) + 999]
    for event in events:
        counter.update(event, MARKER)
    assert "_mass" not in PanPrivateSketch.__slots__
    assert not hasattr(counter, "__dict__")
    held = reachable(counter)
    assert not {one for one in held if isinstance(one, int)} & {*events, MARKER, 2 * MARKER}
    state = exact((events, [MARKER, MARKER]), projection)
    public = {id(one) for one in reachable(projection)}  # tables of the map, for one
    every = [one for one in held if isinstance(one, np.ndarray)]
    arrays = [one for one in every if one.shape == (64,) and id(one) not in public]
    assert len(arrays) == 1
    assert (arrays[0] != state).mean() > 0.9
    assert not any((one == MARKER).any() for one in every)
    assert MARKER.to_bytes(8, "little") not in arrays[0].tobytes()


def test_no_text_shows_cells(keyed: KeyedBits) -> None:
    counter = pan_private(1e-6)
    assert keyed is not None  # fixed cells, which share no digits with the texts by chance
    counter.update(17, MARKER)
    texts = [repr(counter), str(counter)]
    for fail in (lambda: counter.update(1 << 41, MARKER), lambda: counter.update(17, 1 << 63)):
        with pytest.raises(ss.StreamsketchError) as refused:
            fail()
        texts.append(str(refused.value))
    cells = {str(abs(cell)) for cell in inner(counter).tolist() if abs(cell) > 9999}
    assert cells
    for text in texts:
        assert "PanPrivateSketch" in text or "must lie in" in text or "63 bits" in text or "2**63" in text
        assert not any(cell in text for cell in cells)


# --- errors ---------------------------------------------------------------------------------------------------


def test_other_neighbour_relations_are_refused() -> None:
    with pytest.raises(ss.InvalidInputError, match=r"which is L1\(bound\); got OneCoordinate\(1"):
        pan_private(neighbours=ss.OneCoordinate(1))
    with pytest.raises(ss.InvalidInputError, match="got 1"):
        pan_private(neighbours=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"mechanism": "gaussian"}, "set delta"),
        ({"mechanism": "other"}, "mechanism must be one of"),
        ({"projection": PROJECTION.replace(resolution="1/1000000000000")}, "coarser resolution"),
        ({"projection": PROJECTION.replace(resolution=3)}, "below one grid step"),
    ],
)
def test_bad_budgets_and_grids_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ss.InvalidInputError, match=message):
        pan_private(**options)  # type: ignore[arg-type]


def test_a_pan_private_sketch_has_no_hash() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(pan_private())


def test_any_real_number_is_an_epsilon() -> None:
    projection = ss.SJLT(dim=100, sketch_dim=8, sparsity=2, seed=1)
    for epsilon in (1, np.float32(1), Fraction(1)):
        counter = PanPrivateSketch(projection, epsilon=epsilon, neighbours=ss.L1(1))
        assert counter.release().guarantee.epsilon == 1.0
