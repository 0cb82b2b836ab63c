"""How far a bounded unit moves a table, by relation, clip, keys together or not, and map: never beyond D1 and D2.

Every unit of small boxes, and units whose keys are all alike, the worst for sums of absolute values. Each has keys of
its own, so that one table shows what is left of each.
"""

import functools
import itertools
from fractions import Fraction

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.accounting.sensitivity import sensitivity_of
from streamsketch.agreement import fine_enough
from streamsketch.privacy import Neighbours
from streamsketch.privacy.laplace import DiscreteLaplace
from streamsketch.privacy.neighbours import Clip
from streamsketch.release import AdditiveNoise
from streamsketch.signs import DPSignLogistic
from streamsketch.sketching.bounding.clip import bounded
from tests.audit.record import judged
from tests.sketching.bounding.test_clip import SECRET, UNITS, columns

KEYS, DIM, BOUND = 4, 2, 4
MAPS: list[ss.projections.Projection] = [
    ss.projections.Identity(dim=DIM),
    ss.CountSketch(dim=DIM, sketch_dim=2, seed=1),
    ss.SJLT(dim=DIM, sketch_dim=4, sparsity=2, seed=2),
    ss.SJLT(dim=DIM, sketch_dim=3, sparsity=2, seed=2, construction="graph"),
    ss.projections.OPORP(dim=DIM, sketch_dim=2, seed=3),
    ss.projections.SRHT(dim=DIM, sketch_dim=2, seed=4),
    ss.projections.Rademacher(dim=DIM, sketch_dim=3, seed=5),
    ss.projections.GaussianProjection(dim=DIM, sketch_dim=3, seed=6, fraction_bits=2),
]
RELATIONS: list[type[Neighbours]] = [ss.L1, ss.L2, ss.SketchL2, ss.OneCoordinate]
CLIPS: list[Clip] = ["scale", "cut", "equal"]
WAYS = list(itertools.product(RELATIONS, CLIPS, [False, True]))
REFUSED: dict[str, set[tuple[type[Neighbours], Clip, bool]]] = {
    "clipped to L1 by clip='scale' or clip='cut'": {(ss.L1, "equal", together) for together in (False, True)},
    "clipped to L2 by clip='scale'": {
        (ss.L2, clip, together) for clip, together in itertools.product(("cut", "equal"), (False, True))
    },
    "clipped to SketchL2 by clip='scale', clip='equal' or clip='average'": {
        (ss.SketchL2, "cut", together) for together in (False, True)
    },
    "bounds all keys of a unit together": {(ss.SketchL2, clip, True) for clip in ("scale", "equal")},
    "only L1 clips several keys together": {(ss.L2, "scale", True)},
    "does not bound the total of a unit": {way for way in WAYS if way[0] is ss.OneCoordinate},
}


def units() -> np.ndarray:
    """Return vectors of units, (n, keys, dim): a box in two keys, one in one key, and that in all keys alike."""
    box = np.array(list(itertools.product(range(-2, 3), repeat=2 * DIM))).reshape(-1, 2, DIM)
    one = np.array(list(itertools.product(range(-5, 6), repeat=DIM))).reshape(-1, 1, DIM)
    padded = [np.pad(some, ((0, 0), (0, KEYS - some.shape[1]), (0, 0))) for some in (box, one)]
    return np.concatenate([*padded, np.tile(one, (1, KEYS, 1))])


@functools.cache
def left_of(
    neighbours: Neighbours,
    clip: Clip,
    projection: ss.projections.Projection = MAPS[0],
) -> np.ndarray:
    """Return what the bounds leave of each unit: (units, keys, cells), by default those of the data themselves."""
    vectors = units()
    unit, key, index = (places.reshape(-1) for places in np.indices(vectors.shape))
    rows = (unit * KEYS + key, index, vectors.reshape(-1), unit)
    table = ss.bounding.bound_units([rows], projection, neighbours=neighbours, max_keys=KEYS, clip=clip)
    left = np.zeros((len(vectors) * KEYS, projection.sketch_dim), dtype=np.int64)
    for name, sketch in table.items():
        left[name] = sketch.state()
    return left.reshape(len(vectors), KEYS, -1)


@pytest.mark.parametrize(("relation", "clip", "together"), WAYS)
def test_no_unit_moves_a_table_further_than_a_release_hides(
    relation: type[Neighbours],
    clip: Clip,
    together: bool,  # noqa: FBT001
) -> None:
    neighbours = relation(BOUND, max_keys=1 if together else KEYS)
    refusal = next((text for text, ways in REFUSED.items() if (relation, clip, together) in ways), None)
    if refusal is not None:
        with pytest.raises(ss.InvalidInputError, match=refusal):
            left_of(neighbours, clip, fine_enough(MAPS[0], neighbours))
        return
    for coarse in MAPS:
        projection = fine_enough(coarse, neighbours)
        if relation is ss.L2 and projection.spectral_bound is None:
            continue
        stated = sensitivity_of(projection, neighbours)
        if relation is ss.SketchL2:
            moved = left_of(neighbours, clip, projection)
        else:
            moved = left_of(neighbours, clip) @ projection.columns(np.arange(DIM)).T
        l1, l2_squared = int(np.abs(moved).sum(axis=(1, 2)).max()), int((moved**2).sum(axis=(1, 2)).max())
        judged(1 - l1 / stated.l1, len(moved))
        assert l1 <= stated.l1, projection
        assert l2_squared <= stated.l2_squared, projection
        if relation is ss.SketchL2:  # but for rounding
            assert l2_squared >= 0.999 * stated.l2_squared
        elif isinstance(projection, ss.projections.Identity):  # no less would do
            assert (l1, l2_squared) == (stated.l1, stated.l2_squared)
        # what rests on D1: the farthest unit spends ε, and no more
        law = DPSignLogistic(epsilon=1.0, neighbours=neighbours).law(projection)
        assert law.rate * l1 <= 1
        noise = AdditiveNoise(epsilon=1.0, neighbours=neighbours, mechanism="laplace").calibrated(projection).noise
        assert isinstance(noise, DiscreteLaplace)
        assert l1 / noise.scale <= 1


@pytest.mark.parametrize("keys", [4, 16, 64])
def test_a_ball_split_over_keys_has_the_noise_of_one_ball(keys: int) -> None:
    """What is refused as ``L2(B)`` over m keys together is ``L2(B/√m, max_keys=m)``."""
    projection = ss.projections.SRHT(dim=8, sketch_dim=4, seed=1)
    ball = sensitivity_of(projection, ss.L2(64))
    split = sensitivity_of(projection, ss.L2(64 / Fraction(int(keys**0.5)), max_keys=keys))
    assert split.l2_squared == ball.l2_squared
    assert split.l1**2 <= keys * ball.cells * ball.l2_squared < (split.l1 + keys) ** 2


def test_keys_in_one_ball_are_caught() -> None:
    """Four keys of (2, 0) are in the ball of (4, 0), but sum to 8 where one key of the ball sums to 5 at most."""
    vectors = columns([(UNITS[0], (key, 0), 0, 9) for key in "abcd"])
    left = bounded(vectors, max_keys=4, limit=BOUND**2, secret=SECRET, together=True, squared=True).steps
    stated = sensitivity_of(ss.projections.Identity(dim=DIM), ss.L2(BOUND))
    assert left.tolist() == [2] * 4
    assert (left**2).sum() <= stated.l2_squared
    assert left.sum() > stated.l1 == 5
