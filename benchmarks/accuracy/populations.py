"""Populations compared by features: bias, error and coverage, false alarms and power, beside tests of other kinds.

Discrepancies are held against the exact kernel, the expected one over seeds, in kernels of numbers, embeddings and
hashed categories, with few and many frequencies. Each trial draws a seed, and for each size of population noises at
ε = 1, δ = 1e-6. Descriptions are of people with one row, against what their rows hold, and of people with several, as
few as three standard errors of their count. Tests and reference points take samples of scikit-learn's table of 569
patients with 30 numbers, with replacement; one site has more of one class. Beside them are logistic regression without
privacy, whose cross-validated share of right guesses is tested against one half, and a release of all columns as
histograms of eight bins at the same ε and δ: by the same test, and by χ² of each column, the least p-value times 30.

How it misleads: 100 distinct people stand for populations of more, each as often as is needed, and sizes share seeds.
Ranges of the patients' numbers are those of the table. The guesses of one fold share a fit, so their binomial law is
not exact. χ² of histograms takes noise and sampling as normal.
"""

import functools
import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.stats import binom, chi2

import streamsketch as ss
from benchmarks import palette, trials
from benchmarks.accuracy.intervals import COLUMNS, CONFIDENCES
from benchmarks.data import Data
from benchmarks.rows import Effort
from benchmarks.study import Study, Table
from benchmarks.verdicts import Check
from streamsketch.estimation import column_differences, describe, mmd
from streamsketch.estimation.blocks import block_of
from streamsketch.features import Category, Embedding, Features, Number
from streamsketch.features.features import JOINT
from streamsketch.release import AdditiveNoise
from streamsketch.release.additive_noise import CalibratedNoise
from streamsketch.sketching.exact import ExactSums
from streamsketch.sketching.sketch import Sketch

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DELTA, ROWS, BINS = 1e-6, 100, 8
NEIGHBOURS = ss.SketchL2(1, unit="person", max_keys=1)
PEOPLE = (100, 10_000, 1_000_000)
KINDS = (
    *(("numbers", 1, waves) for waves in (2, 4, 8, 16, 64)),
    *(("numbers", 10, waves) for waves in (2, 4, 8, 16)),
    *(("numbers", 100, waves) for waves in (4, 16)),
    ("numbers", 1000, 16),
    *(("embedding", dim, waves) for dim in (10, 1000) for waves in (2, 8, 32)),
    *(("hashed", dim, waves) for dim in (10, 1000) for waves in (2, 8, 32)),
    ("mixed", 10, 16),
)
"""Kind of columns; how many, or coordinates, or categories; frequencies, or half as many cells."""
LEAST_WAVES = 8
"""From which on 95 % intervals are checked."""


_ANY = pa.table({"any": ["A"], "person": [0]})


class Case(NamedTuple):
    """Discrepancies of one setting over seeds and noises."""

    kind: str
    dim: int
    waves: int
    people: int
    truth: float
    refused: int
    """How often people were too few for their noise; such draws do not count."""
    bias: float
    """In its standard errors."""
    error: float
    stated: float
    covered: Floats
    together: float
    """Share of trials in which the intervals of all columns hold, at 95 %."""

    @property
    def few(self) -> bool:
        """Whether there are fewer frequencies than are checked."""
        return self.waves < LEAST_WAVES


def run(effort: Effort, data: Data) -> Study:  # noqa: ARG001 - one shape for all studies
    """Simulate discrepancies, descriptions, tests and reference points."""
    count, kept = effort.size(1000, 2), effort.size(2000, 1)
    cases = [case for kind in KINDS[:kept] for case in _discrepancies(*kind, count)]
    described = [row for case in _DESCRIBED[:kept] for row in _descriptions(*case, count)]
    tests = [_tests(*case, count) for case in _TESTED[:kept]]
    points = [row for waves in _WAVES[:kept] for row in _points(waves, count)]
    return Study(
        [
            Table(
                f"Discrepancies against the exact kernel, {count} seeds and noises each, ε = 1",
                (
                    *("columns", "dimension", "frequencies", "people", "exact", "refused"),
                    *("bias, in its standard errors", "root mean square error", "stated", *COLUMNS),
                    "all columns together, 95 %",
                ),
                [(*case[:9], *map(float, case.covered), case.together) for case in cases],
            ),
            Table(
                f"What columns hold, {count} noises each, ε = 1",
                (
                    *("people", "rows a person", "measure", "share undefined", "largest bias, in stated errors"),
                    *COLUMNS,
                ),
                described,
            ),
            Table(
                f"Share of draws in which samples of patients are said to differ, by the classifier of one in {_FEWER}",
                (
                    *("people", "class, times as frequent", "draws"),
                    *(f"{name}, {level:.0%}" for name in _TESTS for level in _LEVELS),
                ),
                tests,
                shown=True,
            ),
            Table(
                "Reference points: discrepancy over its standard deviation under noise alone",
                ("people", "class, times as frequent", "frequencies", "mean", "deviation over seeds"),
                points,
            ),
        ],
        _finding(cases, tests, points),
        {"coverage": _picture(cases)},
        checks=_checks(cases, described, tests, points),
        source="Theory 10",
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
    return pa.table(columns)


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
    agreement = _agreement(_ANY, Features({"any": Category(hashed=dim - 1)}, seed=0))
    publisher = AdditiveNoise(epsilon=1.0, delta=DELTA, neighbours=NEIGHBOURS, counting=agreement.counting)
    return publisher.calibrated(agreement.projection)


@functools.cache
def _bounds() -> Any:
    """Return what is known of sums of people's features."""
    return _bound(_ANY, _agreement(_ANY, Features({"any": Category(["A"])}, seed=0))).bounds


def _bound(rows: pa.Table, agreement: ss.Agreement) -> Sketch:
    found: Any = ss.bound(rows, agreement)  # no table, as there are no keys
    return found  # type: ignore[no-any-return]


def _agreement(rows: pa.Table, features: Features) -> ss.Agreement:
    return ss.agree(rows.slice(0, 1), features=features, unit="person")


def cells_of(features: Features, rows: pa.Table) -> Ints:
    """Return the features of each row, in grid steps."""
    columns = {name: rows.column(name).combine_chunks() for name in features.columns}
    return features.cells(columns).astype(np.int64)


def sums_of(cells: Ints, times: Ints, agreement: ss.Agreement) -> Sketch:
    """Return the sums of people with one row each, each row so many times, as `streamsketch.bound` but for rounding.

    That lengthens each row to 1, by less than 1e-4.
    """
    return _summed(times @ cells, int(times.sum()), agreement)


def _summed(sums: Ints, people: int, agreement: ss.Agreement) -> Sketch:
    counts = np.array([people, 0], dtype=np.int64)
    return Sketch.from_state(
        agreement.projection,
        ExactSums.of(sums, counts),
        int(np.abs(sums).sum()),
        largest=1 << 15,
        agreement=agreement,
        bounds=_bounds(),
    )


def _release(sketch: Sketch, bits: Any) -> ss.PrivateSketch:
    return _publisher(sketch.projection.dim).for_data(sketch).draw(bits).with_clip("equal")


def _lists() -> dict[int, list[Any]]:
    return {people: [] for people in PEOPLE}


def _discrepancies(kind: str, dim: int, waves: int, count: int) -> Iterator[Case]:
    sites = _sites(kind, dim)
    rows = pa.concat_tables([_table(held) for held in sites])
    named = rows.slice(0, 1).append_column("person", pa.array([0]))
    first = _features(kind, dim, waves, 0)
    exact = _exact(first, sites)
    truth = sum(exact[block.name] * block.amplitude**2 for block in first.blocks) / (1 << 30)
    values, stated, covered, together = (_lists() for _ in range(4))
    for seed in range(count):
        features = _features(kind, dim, waves, seed)
        agreement, cells = _agreement(named, features), cells_of(features, rows)
        bits = trials.keyed(f"populations {kind} {dim} {waves} {seed}".encode())
        for people in PEOPLE:
            times = np.full(ROWS, people // ROWS)
            x, y = (_release(sums_of(own, times, agreement), bits) for own in (cells[:ROWS], cells[ROWS:]))
            try:
                found = mmd(x, y, agreement)
            except ss.InvalidInputError:
                continue
            values[people].append(found.value)
            stated[people].append(found.variance)
            covered[people].append([low <= truth <= high for low, high in map(found.interval, CONFIDENCES)])
            columns = column_differences(x, y, agreement).to_pylist()
            together[people].append(all(row["low"] <= exact[row["column"]] <= row["high"] for row in columns))
    for people in PEOPLE:
        errors = np.array(values[people]) - truth
        yield Case(
            *(kind, dim, waves, people, truth, count - errors.size),
            float(errors.mean() / max(errors.std(), 1e-300)) * math.sqrt(errors.size),
            *(math.sqrt(float((errors**2).mean())), math.sqrt(float(np.mean(stated[people])))),
            *(np.mean(covered[people], axis=0), float(np.mean(together[people]))),
        )


# --- descriptions -------------------------------------------------------------------------------------------

_DESCRIBED = (*((people, 1) for people in (53, 100, 1000, 10_000, 1_000_000)), (1000, 3), (1_000_000, 3))
"""People, the least three standard errors of their count; rows of each."""
_DESCRIBED_FEATURES = Features(
    {
        "age": Number(0, 110),
        "height": Number(1.2, 2.2, moments=1),
        "ward": Category(["A", "B"]),
        "code": Category(hashed=16),
        "scan": Embedding(3, waves=32),
    },
    seed=7,
    joint=16,
)
_CODES = ("E11", "I10", "J45")
_MOST_DISTINCT = 1000


def _descriptions(people: int, rows: int, count: int) -> Iterator[tuple[Any, ...]]:
    """Yield coverage by kind of measure: of people with several rows, against what raw sketches say."""
    held = _people(min(people, _MOST_DISTINCT), rows, np.random.default_rng([people, rows]))
    agreement, asked = _agreement(held, _DESCRIBED_FEATURES), {"code": list(_CODES)}
    sums = _bound(held, agreement).state() * max(people // _MOST_DISTINCT, 1)
    sketch = _summed(sums, people, agreement)
    exact = describe(sketch, agreement, shares=asked)
    names = list(zip(exact["column"].to_pylist(), exact["measure"].to_pylist(), strict=True))
    of_rows = _truths(held)
    truth = np.array([of_rows[name] for name in names]) if rows == 1 else exact["estimate"].to_numpy()
    covered, missed = [], []
    for draw in range(count):
        release = _release(sketch, _bits(f"describe {people} {rows} {draw}"))
        tables = [describe(release, agreement, shares=asked, confidence=one) for one in CONFIDENCES]
        ends = [(one["low"].to_numpy(), one["high"].to_numpy()) for one in tables]
        covered.append([(low <= truth + 1e-9) & (truth - 1e-9 <= high) for low, high in ends])
        missed.append((tables[0]["estimate"].to_numpy() - truth) / tables[0]["error"].to_numpy())
    kinds = [
        f"share, {'hashed' if name == 'code' and what.startswith('share') else 'listed'}"
        if what.startswith(("share", "others", "missing"))
        else what
        for name, what in names
    ]
    gaps, holds = np.array(missed), np.array(covered)
    for kind in dict.fromkeys(kinds):
        own = [place for place, one in enumerate(kinds) if one == kind]
        known = ~np.isnan(gaps[:, own])
        biases = np.nan_to_num(gaps[:, own]).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        shares = holds[:, :, own].transpose(1, 0, 2)[:, known].mean(axis=1) if known.any() else np.full(4, math.nan)
        bias = float(np.abs(biases).max()) if known.any() else math.nan
        yield people, rows, kind, float(1 - known.mean()), bias, *map(float, shares)


def _truths(held: pa.Table) -> dict[tuple[str, str], float]:
    """Return what the rows hold, by column and measure."""
    ages = np.clip(held["age"].drop_null().to_numpy(), 0, 110)
    wards, codes = held["ward"].to_numpy(zero_copy_only=False), held["code"].to_numpy(zero_copy_only=False)
    return {
        ("age", "mean"): float(ages.mean()),
        ("age", "standard deviation"): float(ages.std()),
        ("height", "mean"): float(np.clip(held["height"].to_numpy(), 1.2, 2.2).mean()),
        **{(name, "missing"): held[name].null_count / held.num_rows for name in held.column_names},
        **{("ward", f"share of {one}"): float((wards == one).mean()) for one in ("A", "B")},
        ("ward", "others"): float((wards == "C").mean()),
        **{("code", f"share of {one}"): float((codes == one).mean()) for one in _CODES},
    }


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
            "scan": pa.FixedSizeListArray.from_arrays(pa.array(rng.standard_normal(3 * size)), 3),
        }
    )


# --- tests and reference points -----------------------------------------------------------------------------

_LEVELS = (0.05, 0.01)
_TESTS = ("features", "histograms", "histograms by χ²", "classifier")
_TESTED = ((280, 1.0), (2800, 1.0), (28_000, 1.0), (280, 2.0), (2800, 1.2), (2800, 1.4))
_WAVES = (4, 8, 16, 32)
_POINTS = ((2800, 1.4, 9.0), (280, 2.0, 2.0))
"""Patients of a site, how many times as frequent a class is, and the least that is to be reached."""
_FOLDS = 5
_FEWER = 5  # draws for each one that is given to the classifier, which takes longest


@functools.cache
def _patients() -> tuple[Floats, Ints]:
    """Return 30 numbers of 569 patients, in shares of their ranges, and their classes."""
    from sklearn.datasets import load_breast_cancer  # noqa: PLC0415 - takes its time to load

    values, classes = load_breast_cancer(return_X_y=True)
    low, high = values.min(axis=0), values.max(axis=0)
    return (values - low) / (high - low), classes


def _sample(people: int, times: float, rng: np.random.Generator) -> Ints:
    """Return how often each patient was drawn, with replacement, those of class 0 so many times as often."""
    weights = np.where(_patients()[1] == 0, times, 1.0)
    return rng.multinomial(people, weights / weights.sum())


@functools.cache
def _patient_table(*, binned: bool) -> pa.Table:
    values = _patients()[0]
    held = np.minimum((values * BINS).astype(np.int64), BINS - 1) if binned else values
    return pa.table({"person": np.arange(len(values)), **{f"number {place}": one for place, one in enumerate(held.T)}})


class _Map(NamedTuple):
    """Features of the patients, and what both sites agree on."""

    agreement: ss.Agreement
    cells: Ints

    @classmethod
    def of(cls, features: Features, *, binned: bool = False) -> "_Map":
        rows = _patient_table(binned=binned)
        return cls(_agreement(rows, features), cells_of(features, rows))

    def released(self, samples: tuple[Ints, Ints], what: str) -> tuple[ss.PrivateSketch, ss.PrivateSketch]:
        """Return both sites' releases."""
        bits = _bits(what)
        x, y = (_release(sums_of(self.cells, one, self.agreement), bits) for one in samples)
        return x, y


def _patient_map(waves: int, seed: int) -> _Map:
    """Return features of all numbers together, with next to no weight of single ones."""
    columns = {f"number {place}": Number(0, 1, moments=1) for place in range(30)}
    return _Map.of(Features(columns, seed=seed, joint=waves, joint_weight=100 * len(columns)))


def _tests(people: int, times: float, count: int) -> tuple[Any, ...]:
    """Return how often each test says that two samples differ, by level."""
    rng = np.random.default_rng([people, int(10 * times)])
    bins = Features({f"number {place}": Category([str(one) for one in range(BINS)]) for place in range(30)}, seed=0)
    histograms, found, guessed = _Map.of(bins, binned=True), [], []
    for draw in range(count):
        samples, what = (_sample(people, 1.0, rng), _sample(people, times, rng)), f"test {people} {times} {draw}"
        pair = histograms.released(samples, f"{what} histograms")
        p_values = [
            ss.sameness(*one, by="mean", samples=True).p_value
            for one in (_patient_map(8, draw).released(samples, what), pair)
        ]
        found.append([[one <= level for level in _LEVELS] for one in (*p_values, _of_histograms(*pair, bins))])
        if draw % _FEWER == 0:
            guessed.append([_classified(*samples, draw) <= level for level in _LEVELS])
    return people, times, count, *np.mean(found, axis=0).ravel().tolist(), *np.mean(guessed, axis=0).tolist()


def _of_histograms(x: ss.PrivateSketch, y: ss.PrivateSketch, features: Features) -> float:
    """Return the least p-value of χ² of a column's shares of bins, with noise and sampling, times the columns."""
    both, first = block_of([x, y]), features.blocks[0]
    if both.units is None:
        return math.nan
    length, number = first.amplitude / (1 << 15), both.units.number
    counts = (both.values / length).reshape(2, len(features.columns), -1)[:, :, :BINS]
    gaps = np.subtract(*(counts / number[:, None, None]))
    pooled = np.clip(counts.sum(axis=0) / number.sum(), 0.0, 1.0)
    products = pooled[:, :, None] * pooled[:, None, :]
    sampling = (1 / number).sum() * (np.eye(BINS) * pooled[:, None, :] - products)
    noise = (both.k2 / (length * number) ** 2).sum() * np.eye(BINS)
    noise = noise + (both.units.variance / number**2).sum() * products
    sizes = np.einsum("ci,ci->c", gaps, np.linalg.solve(sampling + noise, gaps[:, :, None])[:, :, 0])
    return float(min(chi2.sf(sizes.max(), BINS) * sizes.size, 1.0))


def _classified(x: Ints, y: Ints, seed: int) -> float:
    """Return the p-value of the share of people whose site logistic regression guesses right, in five folds.

    A patient that was drawn several times is in one fold.
    """
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415 - takes its time to load

    values = np.tile(_patients()[0], (2, 1))
    times, sites = np.concatenate([x, y]), np.repeat([0, 1], len(x))
    folds, right = np.tile(np.random.default_rng(seed).permutation(len(x)) % _FOLDS, 2), 0
    for fold in range(_FOLDS):
        learned, asked = (folds != fold) & (times > 0), (folds == fold) & (times > 0)
        model = LogisticRegression().fit(values[learned], sites[learned], sample_weight=times[learned])
        right += int(times[asked][model.predict(values[asked]) == sites[asked]].sum())
    return float(binom.sf(right - 1, times.sum(), 0.5))


def _points(waves: int, count: int) -> Iterator[tuple[Any, ...]]:
    """Yield the discrepancy of joint features, over what it varies by where only noise differs."""
    settings = [(people, own) for people, times, _ in _POINTS for own in (times, 1.0)]
    found: dict[tuple[int, float], list[float]] = {one: [] for one in settings}
    for seed in range(count):
        rng, held = np.random.default_rng([waves, seed]), _patient_map(waves, seed)
        features = held.agreement.features
        length = features.block(JOINT).amplitude / (1 << 15) if isinstance(features, Features) else math.nan
        for people, times in settings:
            samples = _sample(people, 1.0, rng), _sample(people, times, rng)
            x, y = held.released(samples, f"point {people} {times} {waves} {seed}")
            table = column_differences(x, y, held.agreement).to_pylist()
            joint = next(row["estimate"] for row in table if row["column"] == JOINT)
            noise = float((block_of([x, y]).k2 / people**2).sum()) / length**2
            found[people, times].append(joint / (math.sqrt(2 * 2 * waves) * noise))
    for (people, times), values in found.items():
        yield people, times, waves, float(np.mean(values)), float(np.std(values))


# --- what was found -----------------------------------------------------------------------------------------


def _checks(cases: list[Case], described: list[Any], tests: list[Any], points: list[Any]) -> list[Check]:
    fair = [case for case in cases if not case.few] or cases
    many = [case for case in cases if case.people > PEOPLE[0]] or cases
    draws = min(row[2] for row in tests)
    z = trials.simultaneous_z(2 * len(tests), 0.99)
    return [
        Check(
            f"no discrepancy of {PEOPLE[1]:,} people and more is biased; the largest bias, in its standard errors",
            max(abs(case.bias) for case in many),
            0.0,
            trials.simultaneous_z(len(many), 0.99),
        ),
        Check(
            f"the bias for {PEOPLE[0]} people, some six errors of their count, in root mean square errors",
            max(
                abs(case.bias) / math.sqrt(max(tests[0][2] - case.refused, 1))
                for case in cases
                if case.people == PEOPLE[0]
            ),
            0.0,
            0.2,
        ),
        Check(
            f"95 % intervals cover 90 % and more from {LEAST_WAVES} frequencies; the least",
            min(float(case.covered[2]) for case in fair),
            0.9,
            1.0,
        ),
        Check(
            "95 % intervals of what columns hold cover, of standard deviations from 1,000 people; the least",
            min(row[-2] for row in described if not math.isnan(row[-2]) and (row[2][:8] != "standard" or row[0] > 999)),
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
            for people, times, least in _POINTS
        ),
    ]


def _finding(cases: list[Case], tests: list[Any], points: list[Any]) -> str:
    parts = []
    for says, few in ((f"from {LEAST_WAVES} frequencies", False), ("with fewer", True)):
        shares = [float(one.covered[2]) for one in cases if one.few is few]
        if shares:
            parts.append(f"{min(shares):.1%} to {max(shares):.1%} {says}")
    alike = ", ".join(f"{row[3]:.1%} of {row[0]:,}" for row in tests if row[1] == 1)
    reached = ", ".join(f"{row[3]:.1f} ({row[0]:,}, times {row[1]:g}, {row[2]} frequencies)" for row in points)
    return (
        f"95 % intervals of discrepancies hold the exact kernel's in {' and '.join(parts)}. Samples of one population "
        f"are said to differ at 5 % in {alike}. Discrepancies over the deviation of noise: {reached}."
    )


def _picture(cases: list[Case]) -> Figure:
    figure, axes = palette.panels(1, len(CONFIDENCES), width=3.0, height=6.0, sharey=True)
    names = list(dict.fromkeys((case.kind, case.dim, case.waves) for case in cases))
    for place, (confidence, panel) in enumerate(zip(CONFIDENCES, axes[0], strict=True)):
        for number, people in enumerate(PEOPLE):
            own = [case for case in cases if case.people == people]
            panel.plot(
                [100 * case.covered[place] for case in own],
                [names.index((case.kind, case.dim, case.waves)) for case in own],
                linestyle="",
                marker=palette.MARKERS[number],
                markersize=4,
                color=palette.COLOURS[number],
                label=f"{people:,} people",
            )
        panel.axvline(100 * confidence, color=palette.BLACK, lw=0.8)
        panel.set_yticks(range(len(names)), [f"{kind}, {dim}; {waves}" for kind, dim, waves in names], fontsize=7)
        panel.set_xlabel(f"% covered at {100 * confidence:g} %")
    axes[0][0].invert_yaxis()
    palette.legend_below(figure, axes[0][0])
    return figure
