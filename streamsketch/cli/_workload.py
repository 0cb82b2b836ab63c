"""A small stream through each part of the library, so that kernels are compiled for every kind of input.

The data are public and mean nothing. `STEPS` names the parts.
"""

import tempfile
import warnings
from collections import deque
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

import streamsketch as ss
from streamsketch.core.libraries import is_installed, pa, sparse
from streamsketch.data.canonical import HASHED_DIM
from streamsketch.data.readers.rows import strict_until
from streamsketch.errors import ReleasedAgainWarning, WeakGuaranteeWarning
from streamsketch.local.aggregation import MeanAggregator
from streamsketch.sketching.bounding.cells import bounded_cells
from streamsketch.sketching.bounding.contributions import WHOLE, Contributions
from streamsketch.sketching.bounding.digests import UnitDigests
from streamsketch.sketching.bounding.shards import by_shard, decoded

_DIM = 64
_SHOPS = ["north", "south"] * (_DIM // 2)
_PEOPLE = [f"person {place % 16}" for place in range(_DIM)]
_PLACES = np.arange(_DIM)
_VALUES = _PLACES % 5 + 1
_MANY = np.arange(1 << 16) % _DIM  # enough to be added tile by tile

_MAPS: list[Callable[[], ss.projections.Projection]] = [
    lambda: ss.CountSketch(sketch_dim=32, seed=1),
    lambda: ss.SJLT(dim=_DIM, sketch_dim=32, sparsity=4, seed=1),
    lambda: ss.SJLT(dim=_DIM, sketch_dim=64, sparsity=8, seed=1),
    lambda: ss.SJLT(dim=_DIM, sketch_dim=96, sparsity=3, seed=1),
    lambda: ss.SJLT(dim=_DIM, sketch_dim=3 << 15, sparsity=3, seed=1),  # cell numbers of more than 16 bits
    lambda: ss.SJLT(dim=_DIM, sketch_dim=13, sparsity=5, seed=1, construction="graph"),
    lambda: ss.projections.Rademacher(dim=_DIM, sketch_dim=70, seed=1),
    lambda: ss.projections.OPORP(dim=_DIM, sketch_dim=16, seed=1),
    lambda: ss.projections.VerySparse(dim=_DIM, sketch_dim=30, sparsity=4, seed=1),
    lambda: ss.projections.Achlioptas(dim=_DIM, sketch_dim=9, seed=1),
    lambda: ss.projections.UniformProjection(dim=_DIM, sketch_dim=9, seed=1),
    lambda: ss.projections.GaussianProjection(dim=_DIM, sketch_dim=9, seed=1),
    lambda: ss.projections.SRHT(dim=_DIM, sketch_dim=20, seed=1),
    lambda: ss.projections.FJLT(dim=_DIM, sketch_dim=9, seed=1, density="1/8"),
    lambda: ss.projections.Rotation(dim=_DIM, sketch_dim=9, seed=1),
    lambda: ss.projections.Identity(dim=_DIM),
]


def _project() -> None:
    """Add events, counts and keyed events, by each family of projections."""
    for make in _MAPS:
        projection = make()
        sketch, table = projection.sketch(), projection.table()
        for places in (_PLACES, pa.array(_PLACES), _MANY):
            sketch.update(places)
            table.update(np.resize(_SHOPS, len(places)), places)
        sketch.update(_PLACES, _VALUES)
        table.update(_SHOPS, _PLACES, _VALUES)
        ss.top(sketch, _PLACES, 2)
        if projection.dim == _DIM:
            _ = projection.l1_sensitivity
    many = _MAPS[0]().table()
    many.update(np.arange(1 << 16) % 300, _MANY)  # of so many keys that they are added part by part


def _transform() -> None:
    """Map rows of a matrix, dense and sparse, and a vector to which noise was added first."""
    for make in _MAPS[1:]:
        projection = make()
        for rows in (np.eye(4, _DIM), np.eye(4, _DIM, dtype=np.float32)):
            projection.transform(rows)
            projection.transform(sparse.csr_array(rows))
        ss.release.release_vector(
            projection, _VALUES, epsilon=1.0, neighbours=ss.L1(1), noise_place="input", mechanism="laplace"
        )


def _hash() -> None:
    """Add items that are text or bytes, and items of several columns."""
    words = [f"item {place}" + "…" * (40 * (place == 0)) for place in range(_DIM)]
    projection = ss.CountSketch(sketch_dim=32, seed=1)
    for items in (words, pa.array(words), np.array(words), [word.encode() for word in words]):
        projection.sketch().update(items)
    projection.sketch().update(projection.indices_of(words, _PLACES.tolist(), _PEOPLE))
    ss.frequency(_sketch(projection).release(epsilon=1.0, neighbours=ss.L1(1)), words[:2])
    projection.sketch().data_ids.published_of_keys(words)


def _sketch(projection: ss.projections.Projection, least: int = 0) -> ss.Sketch:
    sketch = projection.sketch()
    sketch.update(_PLACES[least:])
    return sketch


def _draw() -> None:
    """Draw noise of each distribution, small and large."""
    sketch = _sketch(ss.SJLT(dim=_DIM, sketch_dim=32, sparsity=4, seed=1))
    for epsilon in (0.01, 1.0, 30.0):
        for bound in (1, 1000):
            terms: dict[str, Any] = {"epsilon": epsilon, "neighbours": ss.L1(bound), "assert_bounds": True}
            sketch.release(**terms, mechanism="laplace")
            sketch.release(**terms, mechanism="gaussian", delta=1e-6)


def _bound() -> None:
    """Clip contributions, by each relation and rule, in memory, on disk and as in workers."""
    rows = pa.table(
        {
            "shop": _SHOPS,
            "person": _PEOPLE,
            "number": _PLACES // 4,
            "place": _PLACES,
            "item": [f"item {place}" for place in _PLACES],
            "amount": _VALUES * 100,
        }
    )
    whole, fine = Fraction(1), Fraction(1, 1 << 20)
    rules: list[tuple[Any, Fraction, tuple[Any, ...]]] = [
        (ss.L1, whole, ("scale", "cut")),
        (ss.L2, whole, ("scale",)),
        (ss.SketchL2, fine, ("scale", "equal")),
    ]
    for relation, resolution, clips in rules:
        for unit, index, value, dim in (("person", "place", "amount", _DIM), ("number", "item", None, HASHED_DIM)):
            maps: list[ss.projections.Projection] = [
                ss.CountSketch(dim=dim, sketch_dim=32, seed=1, resolution=resolution)
            ]
            if dim == _DIM:
                maps.append(ss.projections.Identity(dim=dim, resolution=resolution))
                maps.append(ss.projections.OPORP(dim=dim, sketch_dim=32, seed=1, resolution=resolution))
            elif relation is ss.L2:
                continue  # whose sensitivity is not known for so many indices
            if relation is ss.SketchL2:
                maps.append(ss.projections.Rademacher(dim=dim, sketch_dim=32, seed=1, resolution=resolution))
            for projection in maps:
                neighbours = relation(2, unit="person", max_keys=1)
                agreement = ss.Agreement(
                    projection, key="shop", index=index, value=value, unit=unit, neighbours=neighbours
                )
                ss.sketch(rows, agreement)
                for clip in clips:
                    ss.bound(rows, agreement, clip=clip)
                with tempfile.TemporaryDirectory() as folder:
                    ss.bound(rows, agreement, folder=folder)
    of_units = UnitDigests(bytes(32))
    of_units.of(rows["person"].combine_chunks())
    digests = of_units.of(rows["place"].combine_chunks())
    read = _PLACES.copy()
    read.flags.writeable = False  # as what Arrow reads
    for codes in (_PLACES % 2, _PLACES, read):
        slots: list[Any] = [(str(code), WHOLE) for code in range(int(codes.max()) + 1)]
        decoded(part for _, part in by_shard([Contributions(digests, slots, codes, _PLACES, _VALUES)], 4))
    projection = ss.projections.Identity(dim=2)
    rows_alone = np.full_like(_PLACES, projection.sketch_dim), np.ones_like(_PLACES)  # without features that are not 0
    events = Contributions(digests, [("north", WHOLE)], np.zeros_like(_PLACES), *rows_alone)
    averages = bounded_cells(
        events, projection=projection, max_keys=1, limit=1, secret=bytes(32), equal=False, averaged=True
    )
    deque(averages, 0)


def _describe() -> None:
    """Make features of people's columns."""
    features = ss.Features(
        {
            "amount": ss.features.Number(0, 600),
            "kind": ss.features.Category(["a", "b"]),
            "city": ss.features.Category(hashed=16),
            "picture": ss.features.Embedding(size=4),
        },
        seed=1,
        joint=16,
    )
    rows = pa.table(
        {
            "person": _PEOPLE,
            "shop": _SHOPS,
            "amount": _VALUES.astype(np.float64),
            "kind": ["a", "b"] * (_DIM // 2),
            "city": ["x", "y"] * (_DIM // 2),
            "picture": [[0.0, 0.5, 0.5, 1.0]] * _DIM,
        }
    )
    averages = ss.SketchL2.of_averages("person", 2)
    for key in ("shop", None):
        for neighbours in (ss.L2(1, unit="person"), ss.SketchL2(1, unit="person"), averages):
            agreement = ss.Agreement(
                features=features,
                unit="person",
                neighbours=neighbours,
                key=key,
                rows_of_unit="mean" if neighbours is averages else "all",
            )
            ss.bound(rows, agreement)
            if neighbours is not averages:
                ss.sketch(rows, agreement)
                continue
            with tempfile.TemporaryDirectory() as folder:
                ss.bound(rows, agreement, folder=folder)


def _read() -> None:
    """Look for the first row that strict CSV refuses, in enough bytes."""
    strict_until(b'"north",1\n' * (1 << 17))


def _sign() -> None:
    """Publish signs and find the nearest."""
    projection = ss.projections.Rademacher(dim=_DIM, sketch_dim=256, seed=1)
    publisher = ss.signs.DPSignLogistic(epsilon=1.0, neighbours=ss.L1(1))
    published = [publisher.release(_sketch(projection, least)) for least in range(8)]
    ss.signs.hamming_distances(published)
    ss.signs.hamming_distances(published[:4], published[4:])
    ss.signs.nearest(published[:4], published[4:], 2)


def _report() -> None:
    """Make local reports of vectors and average them, by each mechanism."""
    vectors = np.eye(8, 16)
    local = ss.local
    mechanisms: list[ss.local.Mechanism] = [
        *(
            local.ProjUnit(dim=16, sketch_dim=4, epsilon=2.0, rotation=rotation, compressed=compressed, precision=kind)
            for rotation in ("hadamard", "gaussian")
            for compressed in (False, True)
            for kind in ("float32", "float16")
        ),
        local.ProjUnit(dim=16, sketch_dim=4, epsilon=2.0, shared=True),
        local.SQKR(dim=16, epsilon=2.0),
        local.SQKR(dim=16, epsilon=2.0, rotation="hadamard"),
        local.CompPrivUnitG(dim=16, epsilon=2.0),
        local.GaussianMechanism(dim=16, epsilon=1.0, delta=1e-6),
        local.PrivHS(dim=16, epsilon=2.0),
        local.RePrivHS(dim=16, epsilon=2.0),
        local.PrivUnit(dim=16, epsilon=2.0),
        local.PrivUnitG(dim=16, epsilon=2.0),
    ]
    for mechanism in mechanisms:
        total = MeanAggregator(mechanism)
        report = mechanism.randomize(vectors[0])
        total.add(report)
        total.add(local.Report.from_bytes(report.to_bytes(), mechanism))
        total.add(mechanism.randomize_many(vectors))
        total.mean()


def _schedule() -> None:
    """Publish windows by each kind of schedule, and read a range of them."""
    projection, continual = ss.CountSketch(sketch_dim=32, seed=1), ss.continual
    for schedule in (
        continual.Factorisation(horizon=64),
        continual.Factorisation(horizon=64, max_windows=4),
        continual.Tree(horizon=16),
    ):
        publisher = ss.AdditiveNoise(epsilon=1.0, delta=1e-6, neighbours=ss.L1(1), schedule=schedule)
        releaser = continual.Releaser(publisher, projection)
        continual.History([releaser.add(_sketch(projection)) for _ in range(8)]).range(2, 6)


def _share() -> None:
    """Draw a party's share of noise, as rounds do."""
    if not is_installed("cryptography"):  # without which there are no rounds
        return
    keys = [ss.parties.Key.generate(name) for name in "ab"]
    sketch = _sketch(ss.CountSketch(sketch_dim=32, seed=1))
    for epsilon in (0.01, 1.0, 8.0):
        for mechanism, delta in (("laplace", 0.0), ("gaussian", 1e-6)):
            agreed = ss.parties.Round(
                sketch.projection,
                epsilon=epsilon,
                delta=delta,
                mechanism=mechanism,
                neighbours=ss.L1(1),
                parties=[key.public for key in keys],
            )
            for key in keys:
                agreed = agreed.signed(key)
            agreed.contribute(sketch, keys[0])


STEPS: dict[str, Callable[[], None]] = {
    "projections": _project,
    "matrices": _transform,
    "hashing": _hash,
    "noise": _draw,
    "bounds": _bound,
    "features": _describe,
    "rows": _read,
    "signs": _sign,
    "local reports": _report,
    "schedules": _schedule,
    "rounds": _share,
}


def run(step: str) -> None:
    """Run one of `STEPS`."""
    with warnings.catch_warnings():
        for category in (ReleasedAgainWarning, WeakGuaranteeWarning):
            warnings.simplefilter("ignore", category)  # nothing of it is published
        STEPS[step]()
