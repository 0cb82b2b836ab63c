"""Populations compared by features: bias, error and coverage, false alarms and power, beside tests of other kinds.

Discrepancies are held against the exact kernel, the expected one over seeds, in kernels of numbers, embeddings and
hashed categories, with few and many frequencies. Each trial draws a seed and noises at ε = 1, δ = 1e-6. Descriptions
are of people with one row, and of people with several, as few as three standard errors of their count. Tests and
reference points take samples of scikit-learn's table of 569 patients with 30 numbers, with replacement; one site has
more of one class. Beside them is logistic regression without privacy, whose cross-validated share of right guesses is
tested against one half, and a release of all columns as histograms of eight bins.

How it misleads: 400 distinct people stand for populations of more, each as often as is needed. Ranges of the patients'
numbers are those of the table. The guesses of one fold share a fit, so their binomial law is not exact.
"""

import functools
import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.stats import binom

import streamsketch as ss
from benchmarks import trials
from benchmarks.data import Data
from benchmarks.rows import Effort
from benchmarks.study import Study, Table
from benchmarks.verdicts import Check
from streamsketch.estimation import column_differences, describe, mmd
from streamsketch.estimation.blocks import block_of
from streamsketch.features import JOINT, Category, Embedding, Features, Number
from streamsketch.release import AdditiveNoise
from streamsketch.release.publishers import CalibratedNoise
from streamsketch.sketching.sketch import Sketch

Floats = NDArray[np.float64]

CONFIDENCES = (0.5, 0.9, 0.95, 0.99)
DELTA, ROWS, BINS = 1e-6, 400, 8
NEIGHBOURS = ss.SketchL2(1, unit="person", max_keys=1)
KINDS = (
    *(("numbers", dim, number, waves) for dim, number in ((1, 10_000), (10, 1000)) for waves in (2, 4, 8, 16, 64)),
    *(("numbers", 10, number, 16) for number in (800, 100_000, 1_000_000)),
    *(("numbers", dim, 100_000, waves) for dim in (100, 1000) for waves in (4, 16)),
    *(("embedding", dim, 100_000, waves) for dim in (10, 1000) for waves in (2, 8, 32)),
    *(("hashed", dim, 10_000, waves) for dim in (10, 1000) for waves in (2, 8, 32)),
    *(("mixed", 10, 10_000, waves) for waves in (4, 16)),
)
"""Kind of columns; how many, or coordinates, or categories; people of a site; frequencies, or half as many cells."""
LEAST_WAVES = 8
"""From which on 95 % intervals are checked."""


class Case(NamedTuple):
    """Discrepancies of one setting over seeds and noises."""

    kind: str
    dim: int
    people: int
    waves: int
    truth: float
    bias: float
    """In its standard errors."""
    error: float
    stated: float
    covered: Floats
    together: float
    """Share of trials in which the intervals of all columns hold, at 95 %."""


def run(effort: Effort, data: Data) -> Study:  # noqa: ARG001 - one shape for all studies
    """Simulate discrepancies, descriptions, tests and reference points."""
    count = effort.size(1000, 2)
    kinds = KINDS if effort.shrink < 1000 else KINDS[:1]
    cases = [_discrepancies(*kind, count) for kind in kinds]
    described = [row for case in _DESCRIBED[: effort.size(2000, 1)] for row in _descriptions(*case, count)]
    tests = [_tests(*case, effort.size(400, 2)) for case in _TESTED[: effort.size(2000, 1)]]
    points = [_point(*case, effort.size(100, 2)) for case in _POINTS[: effort.size(2000, 1)]]
    covers = tuple(f"covered by {each:.0%}" for each in CONFIDENCES)
    return Study(
        [
            Table(
                f"Discrepancies against the exact kernel, {count} seeds and noises each, ε = 1",
                (
                    *("columns", "dimension", "people", "frequencies", "exact", "bias, in its standard errors"),
                    *("root mean square error", "stated", *covers, "all columns together, 95 %"),
                ),
                [(*case[:8], *map(float, case.covered), case.together) for case in cases],
            ),
            Table(
                f"What columns hold, {count} noises each, ε = 1",
                (
                    "people",
                    "in errors of their count",
                    "rows a person",
                    "measure",
                    "largest bias, in stated errors",
                    *covers,
                ),
                described,
            ),
            Table(
                "Share of draws in which samples of patients are said to differ",
                (
                    "people",
                    "class, times as frequent",
                    "draws",
                    *(f"{name}, {level:.0%}" for name in _TESTS for level in _LEVELS),
                ),
                tests,
            ),
            Table(
                "Reference points: discrepancy over its standard deviation under noise alone",
                ("people", "class, times as frequent", "frequencies", "mean", "deviation over seeds"),
                points,
            ),
        ],
        _finding(cases, tests, points),
        checks=_checks(cases, described, tests, points, count),
        source="THEORY.md 10",
    )


# --- discrepancies ------------------------------------------------------------------------------------------


def _features(kind: str, dim: int, waves: int, seed: int) -> Features:
    columns: dict[str, Any] = {}
    if kind in ("numbers", "mixed"):
        columns = {f"number {place}": Number(0, 1) for place in range(dim)}
    if kind in ("embedding", "mixed"):
        columns["embedding"] = Embedding(dim, waves=waves)
    if kind in ("hashed", "mixed"):
        columns["hashed"] = Category(hashed=2 * waves)
    return Features(columns, seed=seed, joint=waves if kind in ("numbers", "mixed") else 0)


@functools.cache
def _sites(kind: str, dim: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what each column holds at two sites, the second one shifted: arrays of `ROWS` people."""
    rng = np.random.default_rng([dim, 5])
    found: list[dict[str, Any]] = []
    for shift in (0.0, 0.7):
        held: dict[str, Any] = {}
        if kind in ("numbers", "mixed"):
            own = rng.standard_normal((ROWS, dim))
            own[:, : -(-dim // 10)] += shift
            held["numbers"] = np.clip(0.5 + 0.15 * own, 0, 1)
        if kind in ("embedding", "mixed"):
            vectors = rng.standard_normal((ROWS, dim))
            vectors[:, 0] += shift * math.sqrt(dim) / 3
            held["embedding"] = vectors / np.linalg.norm(vectors, axis=1)[:, None]
        if kind in ("hashed", "mixed"):
            shares = np.arange(1, dim + 1) ** -1.0 * np.exp(shift * rng.standard_normal(dim))
            held["hashed"] = rng.choice(dim, ROWS, p=shares / shares.sum())
        found.append(held)
    return found[0], found[1]


def _table(held: Mapping[str, Any]) -> pa.Table:
    columns: dict[str, Any] = {}
    if "numbers" in held:
        columns = {f"number {place}": one for place, one in enumerate(held["numbers"].T)}
    if "embedding" in held:
        flat = pa.array(held["embedding"].ravel())
        columns["embedding"] = pa.FixedSizeListArray.from_arrays(flat, held["embedding"].shape[1])
    if "hashed" in held:
        columns["hashed"] = [f"value {one}" for one in held["hashed"]]
    return pa.table(columns | {"person": np.arange(ROWS)})


def _exact(features: Features, sites: tuple[dict[str, Any], dict[str, Any]]) -> dict[str, float]:
    """Return the expected squared distance in each block over seeds, over its squared length."""
    tables = [_table(held) for held in sites]
    gaps = np.subtract(*(features.transform(one).mean(axis=0) for one in tables))
    found = {}
    for block in features.blocks:
        found[block.name] = float(gaps[block.places] @ gaps[block.places]) * (1 << 30) / block.amplitude**2
    if features.joint and features.width:
        found[JOINT] = _discrepancy(sites[0]["numbers"], sites[1]["numbers"], features.width)
    if "embedding" in found:
        width = next(one.width for one in features.columns.values() if isinstance(one, Embedding))
        found["embedding"] = _discrepancy(sites[0]["embedding"], sites[1]["embedding"], width)
    if "hashed" in found:
        most = 1 + max(int(held["hashed"].max()) for held in sites)
        shares = [np.bincount(held["hashed"], minlength=most) / ROWS for held in sites]
        found["hashed"] = float(((shares[0] - shares[1]) ** 2).sum())
    return found


def _discrepancy(x: Floats, y: Floats, width: float) -> float:
    def product(first: Floats, second: Floats) -> float:
        return float(np.exp(-cdist(first, second, "sqeuclidean") / (2 * width**2)).mean())

    return product(x, x) + product(y, y) - 2 * product(x, y)


@functools.cache
def _publisher(dim: int) -> CalibratedNoise:
    """Return noise for so many features, which is the same for every seed."""
    projection = Features({"any": Category(hashed=dim - 1)}, seed=0).projection
    counting = ss.Counting.of(projection, NEIGHBOURS, delta=DELTA, epsilon=1.0)
    return AdditiveNoise(epsilon=1.0, delta=DELTA, neighbours=NEIGHBOURS, counting=counting).calibrated(projection)


def _bound(rows: pa.Table, agreement: ss.Agreement) -> Sketch:
    found: Any = ss.bound(rows, agreement)  # no table, as there are no keys
    return found  # type: ignore[no-any-return]


def _sketch(rows: pa.Table, agreement: ss.Agreement, times: int = 1) -> Sketch:
    """Return the sums of people with one row each, so many times."""
    if times == 1 or agreement.features is None:
        return _bound(rows, agreement)
    template = _bound(rows.slice(0, 1), agreement)
    columns = {name: rows.column(name).combine_chunks() for name in agreement.features.columns}
    cells = agreement.features.cells(columns).sum(axis=0, dtype=np.int64) * times
    counts = np.array([rows.num_rows * times, 0], dtype=np.int64)
    return Sketch.from_state(
        template.projection, cells, int(np.abs(cells).sum()), largest=1 << 15, agreement=agreement,
        bounds=template.bounds, counts=counts,
    )  # fmt: skip


def _release(sketch: Sketch, bits: Any) -> ss.PrivateSketch:
    return _publisher(sketch.projection.dim).release(sketch, bits).with_clip("equal")


def _agreement(rows: pa.Table, features: Features) -> ss.Agreement:
    return ss.agree(rows.slice(0, 1), features=features, unit="person")


def _discrepancies(kind: str, dim: int, people: int, waves: int, count: int) -> Case:
    sites = _sites(kind, dim)
    tables = [_table(held) for held in sites]
    first = _features(kind, dim, waves, 0)
    exact = _exact(first, sites)
    truth = sum(exact[block.name] * block.amplitude**2 for block in first.blocks) / (1 << 30)
    values, stated, covered, together = [], [], [], 0
    for seed in range(count):
        agreement = _agreement(tables[0], _features(kind, dim, waves, seed))
        bits = trials.keyed(f"populations {kind} {dim} {people} {waves} {seed}".encode())
        x, y = (_release(_sketch(one, agreement, max(people // ROWS, 2)), bits) for one in tables)
        found = mmd(x, y, agreement)
        values.append(found.value)
        stated.append(found.variance)
        covered.append([low <= truth <= high for low, high in map(found.interval, CONFIDENCES)])
        columns = column_differences(x, y, agreement).to_pylist()
        together += all(row["low"] <= exact[row["column"]] <= row["high"] for row in columns)
    errors = np.array(values) - truth
    bias = float(errors.mean() / max(errors.std(), 1e-300)) * math.sqrt(count)
    return Case(
        *(kind, dim, people, waves, truth, bias, math.sqrt(float((errors**2).mean()))),
        *(math.sqrt(float(np.mean(stated))), np.mean(covered, axis=0), together / count),
    )


# --- descriptions -------------------------------------------------------------------------------------------

_DESCRIBED = ((3.0, 1), (5.0, 1), (10.0, 1), (100.0, 1), (100.0, 3))
"""People, in standard errors of their count; rows of each."""
_DESCRIBED_FEATURES = Features(
    {
        "age": Number(0, 110),
        "height": Number(1.2, 2.2, moments=1),
        "ward": Category(["A", "B"]),
        "code": Category(hashed=16),
    },
    seed=7,
)
_CODES = ("E11", "I10", "J45")


def _descriptions(errors: float, rows: int, count: int) -> Iterator[tuple[Any, ...]]:
    """Yield coverage by kind of measure: of people with several rows, against what raw sketches say."""
    rng = np.random.default_rng([int(errors), rows])
    probe = _release(_bound(_people(1, 1, rng), _agreement(_people(1, 1, rng), _DESCRIBED_FEATURES)), _bits("probe"))
    units = block_of([probe]).units
    people = math.ceil(errors * math.sqrt(float(units.variance[0]))) if units else 0
    held = _people(people, rows, rng)
    agreement = _agreement(held, _DESCRIBED_FEATURES)
    sketch = _bound(held, agreement)
    asked = {"code": list(_CODES)}
    exact = describe(sketch, agreement, shares=asked)
    truth, names = (
        exact["estimate"].to_numpy(),
        list(zip(exact["column"].to_pylist(), exact["measure"].to_pylist(), strict=True)),
    )
    if rows == 1:  # the shares of hashed values, without those that share a cell
        codes = held["code"].to_pylist()
        truth = np.array(
            [
                codes.count(what[9:]) / people if name == "code" and what[:5] == "share" else own
                for (name, what), own in zip(names, truth, strict=True)
            ]
        )
    covered, missed, defined = [], [], []
    for draw in range(count):
        release = _release(sketch, _bits(f"describe {errors} {rows} {draw}"))
        tables = [describe(release, agreement, shares=asked, confidence=one) for one in CONFIDENCES]
        if np.isnan(tables[0]["estimate"].to_numpy()).all():
            continue
        covered.append(
            [(one["low"].to_numpy() <= truth + 1e-9) & (truth - 1e-9 <= one["high"].to_numpy()) for one in tables]
        )
        values = tables[0]["estimate"].to_numpy()
        missed.append((values - truth) / tables[0]["error"].to_numpy())
        defined.append(~np.isnan(values))
    kinds = [
        f"share, {'hashed' if name == 'code' and what.startswith('share') else 'listed'}"
        if what.startswith(("share", "others", "missing"))
        else what
        for name, what in names
    ]
    for kind in dict.fromkeys(kinds):
        own = [place for place, one in enumerate(kinds) if one == kind]
        known = np.array(defined)[:, own] if defined else np.zeros((0, len(own)), dtype=np.bool_)
        gone = np.nan_to_num(np.array(missed)[:, own]) if missed else np.zeros((0, len(own)))
        biases = gone.sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        holds = np.array(covered)[:, :, own].transpose(1, 0, 2)[:, known] if covered else np.zeros((4, 0))
        shares = holds.mean(axis=1) if holds.size else np.full(4, math.nan)
        yield people, errors, rows, kind, float(np.abs(biases).max()), *map(float, shares)


def _bits(what: str) -> Any:
    return trials.keyed(f"populations {what}".encode())


def _people(count: int, rows: int, rng: np.random.Generator) -> pa.Table:
    size = count * rows
    ages = np.where(rng.random(size) < 0.2, np.nan, rng.normal(50, 15, size))
    return pa.table(
        {
            "person": np.repeat(np.arange(count), rows),
            "age": pa.array(ages, from_pandas=True),
            "height": rng.normal(1.7, 0.1, size),
            "ward": rng.choice(["A", "B", "C"], size, p=[0.6, 0.3, 0.1]),
            "code": rng.choice([*_CODES, *(f"X{one}" for one in range(50))], size, p=[0.2, 0.2, 0.1, *[0.01] * 50]),
        }
    )


# --- tests and reference points -----------------------------------------------------------------------------

_LEVELS = (0.05, 0.01)
_TESTS = ("features", "histograms", "classifier")
_TESTED = ((280, 1.0), (2800, 1.0), (280, 2.0), (2800, 1.4), (2800, 1.2))
_POINTS = tuple(
    (people, times, waves)
    for people, most in ((2800, 1.4), (280, 2.0))
    for times in (most, 1.0)
    for waves in (4, 8, 16, 32)
)
"""Patients of a site, how many times as frequent a class is, and frequencies."""


@functools.cache
def _patients() -> tuple[Floats, NDArray[np.int64]]:
    """Return 30 numbers of 569 patients, in shares of their ranges, and their classes."""
    from sklearn.datasets import load_breast_cancer  # noqa: PLC0415 - takes its time to load

    values, classes = load_breast_cancer(return_X_y=True)
    low, high = values.min(axis=0), values.max(axis=0)
    return (values - low) / (high - low), classes


def _sample(people: int, times: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return patients drawn with replacement, those of class 0 so many times as often; places in the table."""
    values, classes = _patients()
    weights = np.where(classes == 0, times, 1.0)
    return rng.choice(len(values), people, p=weights / weights.sum())


def _patient_table(places: NDArray[np.int64], *, binned: bool) -> pa.Table:
    values = _patients()[0][places]
    held = np.minimum((values * BINS).astype(np.int64), BINS - 1) if binned else values
    columns = {f"number {place}": one for place, one in enumerate(held.T)}
    return pa.table({"person": np.arange(len(values)), **columns})


def _patient_features(waves: int, seed: int) -> Features:
    """Return features of all numbers together, with next to no weight of single ones."""
    columns = {f"number {place}": Number(0, 1, moments=1) for place in range(30)}
    return Features(columns, seed=seed, joint=waves, joint_weight=100 * len(columns))


def _tests(people: int, times: float, count: int) -> tuple[Any, ...]:
    """Return how often each test says that two samples differ, by level."""
    rng = np.random.default_rng([people, int(10 * times)])
    found = []
    bins = Features({f"number {place}": Category([str(one) for one in range(BINS)]) for place in range(30)}, seed=0)
    for draw in range(count):
        samples = _sample(people, 1.0, rng), _sample(people, times, rng)
        p_values = []
        for binned, features in ((False, _patient_features(8, draw)), (True, bins)):
            tables = [_patient_table(one, binned=binned) for one in samples]
            agreement, bits = _agreement(tables[0], features), _bits(f"test {people} {times} {draw} {binned}")
            x, y = (_release(_bound(one, agreement), bits) for one in tables)
            p_values.append(ss.test_same(x, y, by="mean", samples=True).p_value)
        p_values.append(_classified(*samples))
        found.append([[one <= level for level in _LEVELS] for one in p_values])
    return people, times, count, *np.mean(found, axis=0).ravel().tolist()


def _classified(x: NDArray[np.int64], y: NDArray[np.int64]) -> float:
    """Return the p-value of the share of people whose site logistic regression guesses right, in five folds.

    A patient that was drawn twice is in one fold.
    """
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415 - takes its time to load
    from sklearn.model_selection import StratifiedGroupKFold, cross_val_predict  # noqa: PLC0415 - as above

    patients, sites = np.concatenate([x, y]), np.repeat([0, 1], [len(x), len(y)])
    folds, values = StratifiedGroupKFold(5, shuffle=True, random_state=0), _patients()[0][patients]
    guesses = cross_val_predict(LogisticRegression(), values, sites, groups=patients, cv=folds)
    right = int((guesses == sites).sum())
    return float(binom.sf(right - 1, len(sites), 0.5))


def _point(people: int, times: float, waves: int, count: int) -> tuple[Any, ...]:
    """Return the discrepancy of joint features, over what it varies by where only noise differs."""
    rng = np.random.default_rng([people, waves])
    found = []
    for seed in range(count):
        features = _patient_features(waves, seed)
        tables = [_patient_table(_sample(people, one, rng), binned=False) for one in (1.0, times)]
        agreement, bits = _agreement(tables[0], features), _bits(f"point {people} {times} {waves} {seed}")
        x, y = (_release(_bound(one, agreement), bits) for one in tables)
        joint = next(row for row in column_differences(x, y, agreement).to_pylist() if row["column"] == JOINT)
        block, length = block_of([x, y]), features.block(JOINT).amplitude / (1 << 15)
        noise = float((block.k2 / people**2).sum()) / length**2
        found.append(joint["estimate"] / (math.sqrt(2 * 2 * waves) * noise))
    return people, times, waves, float(np.mean(found)), float(np.std(found))


# --- what was found -----------------------------------------------------------------------------------------


def _checks(cases: list[Case], described: list[Any], tests: list[Any], points: list[Any], count: int) -> list[Check]:
    fair = [case for case in cases if case.waves >= LEAST_WAVES] or cases
    draws = min(row[2] for row in tests)
    z = trials.simultaneous_z(2 * len(tests), 0.99)
    return [
        Check(
            "no discrepancy is biased; the largest bias, in its standard errors",
            max(abs(case.bias) for case in cases),
            0.0,
            trials.simultaneous_z(len(cases), 0.99),
        ),
        Check(
            f"95 % intervals cover 90 % and more from {LEAST_WAVES} frequencies; the least",
            min(float(case.covered[2]) for case in fair),
            0.9 - 3 * math.sqrt(0.09 / count),
            1.0,
        ),
        Check(
            "95 % intervals of what columns hold cover, of standard deviations from 10 errors of the count; the least",
            min(row[-2] for row in described if row[3] != "standard deviation" or row[1] >= 10),
            0.93,
            1.0,
        ),
        *(
            Check(
                f"no more than {level:.0%} false alarms of samples of one population",
                max(row[3 + place] for row in tests if row[1] == 1),
                0.0,
                level + z * math.sqrt(level / draws) + z**2 / draws,
            )
            for place, level in enumerate(_LEVELS)
        ),
        *(
            Check(
                f"{people:,} patients a site, one class times {times:g}: z",
                max((row[3] for row in points if row[:2] == (people, times)), default=math.nan),
                least,
                math.inf,
            )
            for people, times, least in ((2800, 1.4, 9.0), (280, 2.0, 2.0))
        ),
    ]


def _finding(cases: list[Case], tests: list[Any], points: list[Any]) -> str:
    parts = []
    for says, own in (
        (f"from {LEAST_WAVES} frequencies", [one for one in cases if one.waves >= LEAST_WAVES]),
        ("with fewer", [one for one in cases if one.waves < LEAST_WAVES]),
    ):
        shares = [float(one.covered[2]) for one in own]
        if shares:
            parts.append(f"{min(shares):.1%} to {max(shares):.1%} {says}")
    alike = ", ".join(f"{row[3]:.1%} of {row[0]:,}" for row in tests if row[1] == 1)
    reached = ", ".join(f"{row[3]:.1f} ({row[0]:,}, times {row[1]:g}, {row[2]} frequencies)" for row in points)
    return (
        f"95 % intervals of discrepancies hold the exact kernel's in {' and '.join(parts)}. Samples of one population "
        f"are said to differ at 5 % in {alike}. Discrepancies over the deviation of noise: {reached}."
    )
