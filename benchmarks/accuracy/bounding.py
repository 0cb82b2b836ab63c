"""Bounding units: what clipping an aircraft's flights does to its airlines, beside the noise that it saves.

Every departure from New York in 2013, with the aircraft as privacy unit. An airline is a vector of counts, by route or
by route and hour; each aircraft keeps two airlines and is clipped to the bound in each. Computed from the exact
vectors: cosines between an airline with and without bounds, how far the cosines between airlines move, and the bias of
their squared distances. Beside them is the noise's standard error of a distance, for a release with that bound.
"""

import itertools
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.sparse import coo_array

import streamsketch as ss
from benchmarks import palette
from benchmarks.data import Data
from benchmarks.rows import Effort
from benchmarks.study import Study, Table
from streamsketch.intake.units import unit_events
from streamsketch.privacy.neighbours import Clip
from streamsketch.sketching.bounding.clip import MAX_LIMIT, Bounded, bounded
from streamsketch.sketching.bounding.contributions import Contributions
from streamsketch.sketching.bounding.digests import UnitDigests

FLIGHTS = Path(__file__).parents[2] / "pipelines" / "data" / "flights.parquet"
BOUNDS = (3, 10, 30, 100, 300)
CLIPS: tuple[Clip, ...] = ("scale", "cut")
MAX_KEYS, CELLS, EPSILON, DELTA = 2, 1024, 1.0, 1e-9

_INDICES = {"route": ["route"], "route and hour": ["route", "scheduled_hour"]}
_SECRET = bytes(range(32))  # the same in every run, so that its figures are
_PROJECTION = ss.SJLT(sketch_dim=CELLS, sparsity=4, seed=7)


@dataclass(frozen=True)
class Case:
    """One bound and way to clip, of one kind of vector; shares are of the unbounded truth."""

    index: str
    bound: int
    clip: Clip
    kept: float
    cosine: float
    least_cosine: float
    cosine_error: float
    bias: float
    noise: float

    def row(self) -> tuple[Any, ...]:
        """Return the table's row."""
        names = ("index", "bound", "clip", "kept", "cosine", "least_cosine", "cosine_error", "bias", "noise")
        return tuple(getattr(self, name) for name in names)


_COLUMNS = (
    *("index", "bound", "clip", "share of flights kept", "cosine to the unbounded airline, mean", "least"),
    *("error of a cosine between two airlines (rms)", "bias of a squared distance", "its noise (standard error)"),
)


def run(effort: Effort, data: Data) -> Study:  # noqa: ARG001 - one shape for all studies
    """Clip the flights to each bound, both ways."""
    flights = pq.read_table(FLIGHTS).slice(0, effort.size(1 << 19, 400)).combine_chunks().to_batches()[0]
    cases = [case for index in _INDICES for case in _cases(flights, index, BOUNDS[: effort.size(50, 1)])]
    title = f"ε = {EPSILON:g}, δ = {DELTA:g}, SJLT with k = {CELLS}; biases and noise over the median squared distance"
    return Study([Table(title, _COLUMNS, [case.row() for case in cases])], _finding(cases), {"bounds": _picture(cases)})


def events_of(flights: pa.RecordBatch, index: str) -> Contributions:
    """Return flights as events of aircraft; those without an aircraft are dropped."""
    columns = [flights.column(name) for name in _INDICES[index]]
    read = unit_events(_PROJECTION, flights.column("tailnum"), flights.column("carrier"), columns, None)
    return Contributions.of(read, UnitDigests(_SECRET))


def clipped(events: Contributions, limit: int, clip: Clip = "scale") -> Bounded:
    """Return events within a bound on each airline of an aircraft."""
    keys = MAX_KEYS if limit < MAX_LIMIT - 1 else 1 << 32
    return bounded(events, max_keys=keys, limit=limit, secret=_SECRET, clip=clip)


def vectors_of(events: Bounded, names: list[Any], items: NDArray[np.int64]) -> coo_array:
    """Return the vector of each airline: (airlines, items)."""
    rows = np.array([names.index(key) for key, _ in events.slots])[events.codes]
    columns = np.searchsorted(items, events.indices)
    return coo_array((events.steps.astype(np.float64), (rows, columns)), shape=(len(names), items.size)).tocsr()


def _cases(flights: pa.RecordBatch, index: str, bounds: tuple[int, ...]) -> list[Case]:
    events = events_of(flights, index)
    names, items = sorted({key for key, _ in events.slots}), np.unique(events.indices)
    truth = vectors_of(clipped(events, MAX_LIMIT - 1), names, items)
    gram = (truth @ truth.T).toarray()
    median = float(np.median(_distances(gram)))
    cases = []
    for bound, clip in itertools.product(bounds, CLIPS):
        left = vectors_of(clipped(events, bound, clip), names, items)
        inner = (left @ left.T).toarray()
        across = np.asarray(left.multiply(truth).sum(axis=1)).ravel()
        norms = np.sqrt(np.diag(gram) * np.diag(inner))
        cosines = np.divide(across, norms, out=np.zeros_like(across), where=norms > 0)
        moved = _cosines(inner) - _cosines(gram)
        cases.append(
            Case(
                index,
                bound,
                clip,
                kept=float(left.sum() / truth.sum()),
                cosine=float(cosines.mean()),
                least_cosine=float(cosines.min()),
                cosine_error=float(np.sqrt((moved**2).mean())),
                bias=float(np.median(_distances(inner) - _distances(gram)) / median),
                noise=noise_of(bound) / median,
            )
        )
    return cases


def noise_of(bound: int) -> float:
    """Return the noise's standard error of a squared distance between close airlines."""
    neighbours = ss.L1(Fraction(bound), unit="aircraft", max_keys=MAX_KEYS)
    options = ss.accounting.mechanisms(_PROJECTION, epsilon=EPSILON, delta=DELTA, neighbours=neighbours)
    return float(min(option.variance for option in options) ** 0.5)


def _distances(gram: NDArray[np.float64]) -> NDArray[np.float64]:
    squares = np.diag(gram)
    return (squares[:, None] + squares - 2 * gram)[np.triu_indices(len(gram), 1)]


def _cosines(gram: NDArray[np.float64]) -> NDArray[np.float64]:
    lengths = np.sqrt(np.outer(np.diag(gram), np.diag(gram)))
    return np.divide(gram, lengths, out=np.zeros_like(gram), where=lengths > 0)[np.triu_indices(len(gram), 1)]


def _finding(cases: list[Case]) -> str:
    parts = []
    for index in _INDICES:
        own = [case for case in cases if case.index == index]
        pairs = {(case.bound, case.clip): case for case in own}
        told = "; ".join(
            f"at {bound}, {pairs[bound, 'scale'].cosine:.4f} (scale) and {pairs[bound, 'cut'].cosine:.4f} (cut), with "
            f"{pairs[bound, 'scale'].kept:.0%} of the flights kept and a noise of {pairs[bound, 'scale'].noise:.2g}"
            for bound in sorted({case.bound for case in own})
        )
        parts.append(f"By {index}, an airline's mean cosine to itself without bounds is: {told}.")
    return (
        "\n\n".join(parts)
        + "\n\nAn aircraft's flights on many routes keep their proportions when they are scaled; cut, "
        "it keeps some of its routes whole. By route and hour nearly all counts are 1, so that scaling can only choose "
        "which of them to keep, as cutting does. The noise is over the median squared distance of the unbounded "
        "airlines: where it is above 1, distances are below the noise floor."
    )


def _picture(cases: list[Case]) -> Figure:
    figure, axes = palette.panels(1, len(_INDICES), width=5.2, height=4.0, sharey=True)
    for panel, index in zip(axes[0], _INDICES, strict=True):
        for place, clip in enumerate(CLIPS):
            own = [case for case in cases if (case.index, case.clip) == (index, clip)]
            panel.errorbar(
                [case.bound for case in own], [1 - case.cosine for case in own], **palette.points(place), label=clip
            )
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_xlabel("bound of one aircraft in one airline")
        panel.set_title(f"by {index}", loc="left", fontsize=10)
    axes[0][0].set_ylabel("1 - cosine to the unbounded airline")
    palette.legend_below(figure, axes[0][0])
    return figure
