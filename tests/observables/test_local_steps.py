"""Local mechanisms do the same work for every vector, and whatever their secret coins say: counted, never timed."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from scipy.special import betaincinv

from streamsketch.local import Mechanism, ModelUpdates, PrivUnit, compressed, priv_unit_g
from streamsketch.local import random_words as streams
from streamsketch.local.baselines import priv_unit
from streamsketch.local.baselines.kashin import KashinFrame
from streamsketch.local.compressed import Compression
from streamsketch.local.rotations import RandomMap
from tests.local.directions import directions as unit_vectors
from tests.local.zoo import DIM, zoo
from tests.observables.steps import Steps, Tape, interpret, steps_of
from tests.oracles import naive_local

SEED = 77
"""The public seed of every report here: whoever gets the report knows it, so work may depend on it."""
NOISE_ALONE = ["Gaussian"]
"""The discrete Gaussian's exact sampler: its loops have a random length, and never see the vector (Theory 7.5)."""


@pytest.fixture(autouse=True)
def _kernels_as_python(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    interpret(monkeypatch, "streamsketch.local", "streamsketch.kernels.permutation")
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # words wrap around, as compiled ones do
        yield


def adversarial() -> dict[str, np.ndarray]:
    """Return unit vectors on which something is special: sparse, dense, on a frame's vector, in a map's kernel."""
    found = unit_vectors(DIM)
    frame = KashinFrame(DIM, seed=7)
    found["of the frame"] = frame.synthesise(np.eye(frame.size)[:1])[0]
    for shared in (False, True):
        hadamard = naive_local.hadamard_map(DIM, 6, 7, SEED, shared=shared)
        found[f"nothing is left of it, {shared}"] = np.linalg.svd(hadamard)[2][-1]
    return {name: vector / np.linalg.norm(vector) for name, vector in found.items()}


VECTORS = adversarial()


def steps(mechanism: Mechanism, vector: np.ndarray, coins: int) -> Steps:
    """Return what randomising does with the seed's word and then the words of ``coins``."""
    first = [SEED] if mechanism.layout.seeded else []
    return steps_of(lambda tape: mechanism.randomize(vector, bits=tape), Tape(first, coins), __file__)


def alike(mechanism: Mechanism, vectors: list[np.ndarray], coins: list[int]) -> bool:
    """Return whether one way to compute is seen, and no other."""
    mechanism.randomize(vectors[0], bits=Tape([SEED], 0))  # what is public and computed once
    first = steps(mechanism, vectors[0], coins[0])
    return all(steps(mechanism, vector, each) == first for vector in vectors for each in coins)


@pytest.mark.parametrize("name", zoo())
def test_the_steps_do_not_depend_on_the_vector(name: str) -> None:
    assert alike(zoo()[name], list(VECTORS.values()), [1])


@pytest.mark.parametrize("name", [name for name in zoo() if name not in NOISE_ALONE])
def test_the_steps_do_not_depend_on_secret_coins_either(name: str) -> None:
    """Coins decide how far a report lies along the vector: steps that follow from them would tell it."""
    assert alike(zoo()[name], [VECTORS["gaussian"], VECTORS["basis"]], [1, 2])


@pytest.mark.parametrize("name", zoo(ball=True))
def test_the_steps_do_not_depend_on_the_length_in_the_ball(name: str) -> None:
    vector = VECTORS["gaussian"]
    assert alike(zoo(ball=True)[name], [0 * vector, 0.5 * vector, vector], [1])


def test_the_steps_do_not_depend_on_what_is_wrong_with_an_update() -> None:
    updates, usual = ModelUpdates(mechanism=zoo(ball=True)["PrivUnitG"], clip=0.5), VECTORS["gaussian"]
    wrong = [0 * usual, 0.1 * usual, 1e300 * usual, np.full(DIM, np.nan), np.where(usual > 0, np.inf, usual)]
    updates.report(usual)  # what is public and computed once
    first, *others = [
        steps_of(lambda tape, one=one: updates.report(one, bits=tape), Tape([], 1), __file__) for one in [usual, *wrong]
    ]
    assert others == [first] * len(others)


@pytest.mark.parametrize(
    ("name", "loop"),
    [
        ("PrivUnit", "_magnitudes"),
        ("PrivUnitG", "_magnitudes"),
        ("CompPrivUnitG", "candidates_along"),
        ("CompPrivUnitG", "keep_last"),
        ("PrivHS", "sides"),
        ("ProjUnit, Hadamard", "sample_rows"),
        ("SQKR, Hadamard", "_relax"),
    ],
)
def test_loops_of_kernels_are_seen(name: str, loop: str) -> None:
    mechanism = zoo()[name]
    mechanism.randomize(VECTORS["basis"], bits=Tape([SEED], 0))
    lines = steps(mechanism, VECTORS["basis"], 1).lines
    assert [where for where, _ in lines].count(loop) > len({line for where, line in lines if where == loop})


@pytest.mark.parametrize("name", ["ProjUnit, Hadamard", "ProjUnit, shared Hadamard"])
def test_a_vector_of_which_nothing_is_left_is_among_the_vectors(name: str) -> None:
    """Else the check of the replaced direction would be empty."""
    mechanism: Any = zoo()[name]
    seeds = np.full(len(VECTORS), SEED, dtype=np.uint64)
    lengths = mechanism.map.directions(np.stack(list(VECTORS.values())), seeds)[1]
    assert (lengths == 0).any()
    assert (lengths > 0.1).any()


def test_no_solver_runs_for_a_height(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = PrivUnit(dim=DIM, epsilon=4.0)
    mechanism.randomize(VECTORS["basis"])

    def refuse(*_: Any) -> Any:
        raise AssertionError("an iterative solver saw a secret word")

    monkeypatch.setattr(priv_unit.scipy_special, "betaincinv", refuse)
    mechanism.randomize(VECTORS["basis"])


@pytest.mark.parametrize("name", ["CompPrivUnitG", "ProjUnit, compressed"])
def test_every_report_computes_the_same_number_of_inner_products(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism: Any = zoo()[name]
    counts = []
    whole = compressed.candidates_along

    def counted(units: Any, seeds: Any, salted: Any, out: Any) -> None:
        out[...] = np.nan
        whole(units, seeds, salted, out)
        counts.append(int(np.isfinite(out).sum()))

    monkeypatch.setattr(compressed, "candidates_along", counted)
    for vector in VECTORS.values():
        for coins in range(4):
            mechanism.randomize(vector, bits=Tape([], coins))
    assert set(counts) == {mechanism.compression.trials}


# --- each fault put back makes the steps differ ------------------------------------------------------------------


def until_accepted(self: Compression, units: Any, bits: Any) -> Any:
    """Draw until a candidate is accepted, without an inner product where the coin accepts."""
    accepting = math.ceil(2.0**64 * math.exp(-4.0))
    found = []
    for unit in units:
        while True:
            seed, coin = streams.secret_words(bits, 2)
            if coin < accepting:
                break
            if self.vectors(np.array([seed], dtype=np.uint64))[0] @ unit >= self.cap.threshold * self.cap.scale:
                break
        found.append(seed)
    return np.array(found, dtype=np.uint64)


def until_below(self: KashinFrame, vectors: Any) -> Any:
    coefficients = self.analyse(vectors)
    while np.abs(coefficients).max() > self.limit:
        moved = coefficients + 1.9 * (np.clip(coefficients, -0.98 * self.limit, 0.98 * self.limit) - coefficients)
        coefficients = moved + self.analyse(vectors - self.synthesise(moved))
    return coefficients


def where_needed(self: RandomMap, units: Any, seeds: Any) -> Any:
    projected = self.project(units, seeds)
    lengths = np.linalg.norm(projected, axis=1)
    for i in np.flatnonzero(lengths < 1e-12):
        projected[i] = streams.sign_vectors(seeds[i : i + 1], np.uint64(1), self.size)[0]
    return projected / np.linalg.norm(projected, axis=1, keepdims=True), lengths


def tails_alone(words: Any, out: Any) -> None:
    for i in range(words.size):
        p = ((int(words[i]) >> 1) + 0.5) / 2.0**64
        if p < 0.075:
            out[i] = naive_local.NORMAL.inv_cdf(p)
        else:
            out[i] = -naive_local.NORMAL.inv_cdf(1 - p)


def by_bisection(self: PrivUnit, coins: Any, places: Any) -> Any:
    """Solve for one side of the cap alone."""
    half, mass = (self.sphere_dim - 1) / 2, self.cap.mass
    if coins[0] < self.cap.inside:
        return betaincinv(half, half, mass * places)
    return 1 - betaincinv(half, half, (1 - mass) * places)


@pytest.mark.parametrize(
    ("name", "place", "attribute", "broken"),
    [
        ("CompPrivUnitG", Compression, "seeds", until_accepted),
        ("ProjUnit, compressed", Compression, "seeds", until_accepted),
        ("SQKR, Hadamard", KashinFrame, "spread", until_below),
        ("ProjUnit, Hadamard", RandomMap, "directions", where_needed),
        ("ProjUnit, Alg. 6", RandomMap, "directions", where_needed),
        ("PrivUnitG", priv_unit_g, "standard_normals", tails_alone),
        ("PrivUnit", PrivUnit, "_below", by_bisection),
    ],
)
def test_work_that_depends_on_what_is_private_is_seen(
    name: str, place: Any, attribute: str, broken: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, attribute, broken)
    assert not alike(zoo()[name], list(VECTORS.values()), list(range(8)))
