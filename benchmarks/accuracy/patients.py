"""Samples of patients compared: by features, by histograms, and by a classifier without privacy."""

import functools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from scipy.stats import binom, chi2

import streamsketch as ss
from benchmarks.accuracy.feature_releases import Floats, Ints, agreement_of, bits_of, cells_of, release_of, sums_of
from streamsketch.estimation import column_differences
from streamsketch.estimation.blocks import block_of
from streamsketch.features import Category, Features, Number
from streamsketch.features.features import JOINT

BINS = 8
LEVELS = (0.05, 0.01)
TESTS = ("features", "histograms", "histograms by χ²", "classifier")
TESTED = ((280, 1.0), (2800, 1.0), (28_000, 1.0), (280, 2.0), (2800, 1.2), (2800, 1.4))
WAVES = (4, 8, 16, 32)

POINTS = ((2800, 1.4, 9.0), (280, 2.0, 2.0))
"""Patients of a site, how many times as frequent a class is, and the least that is to be reached."""

_FOLDS = 5
FEWER = 5  # draws for each one that is given to the classifier, which takes longest


@functools.cache
def _patients() -> tuple[Floats, Ints]:
    """Return 30 numbers of 569 patients, in shares of their ranges, and their classes."""
    from sklearn.datasets import load_breast_cancer  # noqa: PLC0415 - takes its time to load

    values, classes = load_breast_cancer(return_X_y=True)
    low, high = values.min(axis=0), values.max(axis=0)
    return (values - low) / (high - low), classes


def sample_of(people: int, times: float, rng: np.random.Generator) -> Ints:
    """Return how often each patient was drawn, with replacement, those of class 0 so many times as often."""
    weights = np.where(_patients()[1] == 0, times, 1.0)
    return rng.multinomial(people, weights / weights.sum())


@functools.cache
def patient_table(*, binned: bool) -> pa.Table:
    """Return a row for each patient: shares of ranges, or the bins that these are in."""
    values = _patients()[0]
    held = np.minimum((values * BINS).astype(np.int64), BINS - 1) if binned else values
    return pa.table(
        {"person": np.arange(len(values)), **{f"number {place}": column for place, column in enumerate(held.T)}}
    )


class PatientMap(NamedTuple):
    """Features of the patients, and what both sites agree on."""

    agreement: ss.Agreement
    cells: Ints

    @classmethod
    def of(cls, features: Features, *, binned: bool = False) -> "PatientMap":
        """Return the features of all patients."""
        rows = patient_table(binned=binned)
        return cls(agreement_of(rows, features), cells_of(features, rows))

    def released(self, samples: tuple[Ints, Ints], what: str) -> tuple[ss.PrivateSketch, ss.PrivateSketch]:
        """Return both sites' releases."""
        bits = bits_of(what)
        x, y = (release_of(sums_of(self.cells, sample, self.agreement), bits) for sample in samples)
        return x, y


def patient_map(waves: int, seed: int) -> PatientMap:
    """Return features of all numbers together, with next to no weight of single ones."""
    columns = {f"number {place}": Number(0, 1, moments=1) for place in range(30)}
    return PatientMap.of(Features(columns, seed=seed, joint=waves, joint_weight=100 * len(columns)))


def tests_of(people: int, times: float, count: int) -> tuple[Any, ...]:
    """Return how often each test says that two samples differ, by level."""
    rng = np.random.default_rng([people, int(10 * times)])
    bins = Features(
        {f"number {place}": Category([str(number) for number in range(BINS)]) for place in range(30)}, seed=0
    )
    histograms, verdicts, guessed = PatientMap.of(bins, binned=True), [], []
    for draw in range(count):
        samples, what = (sample_of(people, 1.0, rng), sample_of(people, times, rng)), f"test {people} {times} {draw}"
        pair = histograms.released(samples, f"{what} histograms")
        p_values = [
            ss.sameness(*releases, by="mean", samples=True).p_value
            for releases in (patient_map(8, draw).released(samples, what), pair)
        ]
        verdicts.append(
            [[p_value <= level for level in LEVELS] for p_value in (*p_values, p_of_histograms(*pair, bins))]
        )
        if draw % FEWER == 0:
            guessed.append([p_of_classifier(*samples, draw) <= level for level in LEVELS])
    return people, times, count, *np.mean(verdicts, axis=0).ravel().tolist(), *np.mean(guessed, axis=0).tolist()


def p_of_histograms(x: ss.PrivateSketch, y: ss.PrivateSketch, features: Features) -> float:
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


def p_of_classifier(x: Ints, y: Ints, seed: int) -> float:
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


def points_of(waves: int, count: int) -> Iterator[tuple[Any, ...]]:
    """Yield the discrepancy of joint features, over what it varies by where only noise differs."""
    settings = [(people, own) for people, times, _ in POINTS for own in (times, 1.0)]
    ratios: dict[tuple[int, float], list[float]] = {setting: [] for setting in settings}
    for seed in range(count):
        rng, held = np.random.default_rng([waves, seed]), patient_map(waves, seed)
        features = held.agreement.features
        length = features.block(JOINT).amplitude / (1 << 15) if isinstance(features, Features) else math.nan
        for people, times in settings:
            samples = sample_of(people, 1.0, rng), sample_of(people, times, rng)
            x, y = held.released(samples, f"point {people} {times} {waves} {seed}")
            table = column_differences(x, y, held.agreement).to_pylist()
            joint = next(row["estimate"] for row in table if row["column"] == JOINT)
            noise = float((block_of([x, y]).k2 / people**2).sum()) / length**2
            ratios[people, times].append(joint / (math.sqrt(2 * 2 * waves) * noise))
    for (people, times), values in ratios.items():
        yield people, times, waves, float(np.mean(values)), float(np.std(values))
