"""How costs grow: with the batch, k, s, dim, the stream's length, the number of keys, and a matrix's nonzeros.

Each line varies one quantity and times the same call at every size, in turn; its slope is that of the least-squares
line through the logarithms of sizes and times: 1 is proportional, 0 independent. Theory counts operations. Times add
what a call costs by itself, which flattens a line at small sizes, and caches, which steepen it at large ones; so the
largest time over the smallest stands beside the slope. A time here is the least of all rounds, not their median: other
work on the machine only adds to it, and would bend a line.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import sparse

import streamsketch as ss
from benchmarks.rows import Effort
from benchmarks.study import Study, Table
from benchmarks.timing import Work, interleave
from streamsketch.core.numbers import Ints

_DIM = 1 << 32


@dataclass(frozen=True)
class Line:
    """One quantity that varies, and what is timed at each of its sizes."""

    name: str
    against: str
    expected: float
    unit: str
    works: Mapping[int, Work]


@dataclass(frozen=True)
class Fitted:
    """A line with its times, ns for each of ``unit``, and its slope."""

    line: Line
    times: Mapping[int, float]

    @property
    def slope(self) -> float:
        """The exponent of the fitted power law."""
        sizes, times = np.log2(list(self.times)), np.log2(list(self.times.values()))
        return float(np.polyfit(sizes, times, 1)[0])

    @property
    def spread(self) -> float:
        """The largest time over the smallest."""
        return max(self.times.values()) / min(self.times.values())


def run(effort: Effort) -> Study:
    """Measure every line."""
    fitted = [_fit(make(effort), effort) for make in _LINES]
    slopes = [
        (
            fit.line.name,
            fit.line.against,
            _told(min(fit.times)),
            _told(max(fit.times)),
            fit.line.expected,
            round(fit.slope, 3),
            fit.spread,
        )
        for fit in fitted
    ]
    times = [
        (fit.line.name, fit.line.against, _told(size), time, fit.line.unit)
        for fit in fitted
        for size, time in fit.times.items()
    ]
    return Study(
        [
            Table(
                "Fitted slopes",
                ("what", "grows", "from", "to", "expected slope", "slope", "largest / smallest time"),
                slopes,
            ),
            Table("Times", ("what", "grows", "size", "ns", "for each"), times),
        ],
        _finding(fitted),
        {"lines": _picture(fitted)},
    )


def _fit(line: Line, effort: Effort) -> Fitted:
    named = {str(size): work for size, work in line.works.items()}
    timings = interleave(named, effort.rounds, sample=effort.sample / 4)
    return Fitted(line, {size: 1e9 * min(timings.seconds[str(size)]) for size in line.works})


def _events(n: int, dim: int = _DIM) -> tuple[Ints, Ints]:
    rng = np.random.default_rng(6)
    return rng.integers(0, dim, n), rng.integers(-9, 10, n)


def _sjlt(*, dim: int = _DIM, sketch_dim: int = 1024, sparsity: int = 8) -> ss.SJLT:
    return ss.SJLT(dim=dim, sketch_dim=sketch_dim, sparsity=sparsity, seed=2024)


def _update(projection: ss.SJLT, n: int, *, per_item: bool = True) -> Work:
    sketch, (indices, values) = projection.sketch(), _events(n, projection.dim)
    return Work(lambda: sketch.update(indices, values), n if per_item else 1)


def _by_batch(effort: Effort) -> Line:
    most = effort.size(1 << 20, least=64)
    sizes = _powers(min(1 << 12, most), most, 4)
    works = {n: _update(_sjlt(), n, per_item=False) for n in sizes}
    return Line("batch update", "items in the batch", 1, "batch", works)


def _by_sparsity(effort: Effort) -> Line:
    n = _items(effort)
    works = {s: _update(_sjlt(sketch_dim=128 * s, sparsity=s), n) for s in _powers(2, 64, 2)}
    return Line("batch update", "s (k = 128 s)", 1, "item", works)


def _by_sketch_dim(effort: Effort) -> Line:
    n = _items(effort)
    works = {k: _update(_sjlt(sketch_dim=k), n) for k in _powers(256, 16384, 2)}
    return Line("batch update", "k", 0, "item", works)


def _by_dim(effort: Effort) -> Line:
    n = _items(effort)
    works = {1 << bits: _update(_sjlt(dim=1 << bits), n) for bits in (12, 20, 28, 36, 44, 52, 60)}
    return Line("batch update", "dim", 0, "item", works)


def _by_length(effort: Effort) -> Line:
    """Time whole streams, in batches of at most a million events."""
    longest = effort.size(1 << 27, least=1 << 10)
    chunk = min(1 << 20, longest)
    indices, values = _events(chunk)
    sketch = _sjlt().sketch()

    def whole(length: int) -> None:
        for _ in range(max(1, length // chunk)):
            sketch.update(indices[:length], values[:length])

    works = {n: Work(functools.partial(whole, n), 1) for n in _powers(min(1 << 13, longest // 2), longest, 4)}
    return Line("a whole stream", "its events", 1, "stream", works)


def _by_stream(effort: Effort) -> Line:
    """Time a batch after ever more have gone before: the sketch's state is all that could remember them."""
    n, batch = effort.size(1 << 14, least=16), _events(effort.size(1 << 14, least=16))

    def after(length: int) -> Work:
        sketch = _sjlt().sketch()
        for _ in range(length // n):
            sketch.update(*batch)
        return Work(lambda: sketch.update(*batch), n)

    works = {length: after(length) for length in _powers(n, n << 12, 4)}
    return Line("batch update", "items before", 0, "item", works)


def _by_keys(effort: Effort) -> Line:
    n = effort.size(1 << 19, least=64)
    indices, values = _events(n)
    rng = np.random.default_rng(7)

    def keyed(keys: int) -> Work:
        codes = pa.array(rng.integers(0, keys, n).astype(np.int32))
        column = pa.DictionaryArray.from_arrays(codes, pa.array([f"key {key}" for key in range(keys)]))
        table = _sjlt().table()
        return Work(lambda: table.update(column, indices, values), n)

    works = {
        keys: keyed(keys) for keys in (1, 10, 100, 1000, 10_000, 100_000) if keys <= effort.size(100_000, least=10)
    }
    return Line("SketchTable.update", "number of keys", 0, "event", works)


def _by_nonzeros(effort: Effort) -> Line:
    rows, dim = effort.size(200, least=2), 1 << 20
    projection, rng = _sjlt(dim=dim), np.random.default_rng(8)

    def matrix(nonzeros: int) -> Work:
        columns = np.sort(rng.integers(0, dim, (rows, nonzeros)), axis=1).ravel()
        ends = np.arange(0, rows * nonzeros + 1, nonzeros)
        csr = sparse.csr_array((rng.normal(size=columns.size), columns, ends), shape=(rows, dim))
        csr.sum_duplicates()
        return Work(lambda: projection.transform(csr), rows)

    works = {nonzeros: matrix(nonzeros) for nonzeros in _powers(512, 32768, 4)}
    return Line("CSR transform", "nonzeros of a row", 1, "row", works)


def _by_columns(effort: Effort) -> Line:
    rows = effort.size(64, least=2)
    rng = np.random.default_rng(9)

    def matrix(dim: int) -> Work:
        dense, projection = rng.normal(size=(rows, dim)), _sjlt(dim=dim)
        return Work(lambda: projection.transform(dense), rows)

    works = {dim: matrix(dim) for dim in _powers(2048, 32768, 2)}
    return Line("dense transform", "dim", 1, "row", works)


def _by_merge(_: Effort) -> Line:
    def merge(k: int) -> Work:
        sketch, other = _sjlt(sketch_dim=k).sketch(), _sjlt(sketch_dim=k).sketch()
        return Work(lambda: sketch.merge(other))

    works = {k: merge(k) for k in _powers(1 << 14, 1 << 20, 4)}
    return Line("merge", "k", 1, "merge", works)


def _by_release(effort: Effort) -> Line:
    def release(k: int) -> Work:
        projection = _sjlt(sketch_dim=k)

        def fresh() -> ss.PrivateSketch:
            return projection.sketch().release(epsilon=1.0, neighbours=ss.L1(1))

        return Work(fresh)

    works = {k: release(k) for k in _powers(1024, effort.size(1 << 16, least=4096), 2)}
    return Line("release with Laplace noise", "k", 1, "release", works)


def _by_pan_private(effort: Effort) -> Line:
    """Time single events, whose cost may not depend on k: Stausholm 2021, Theorem 3, part 4."""

    def update(k: int) -> Work:
        sketch = ss.release.PanPrivateSketch(_sjlt(sketch_dim=k), epsilon=1.0, neighbours=ss.L1(1))
        return Work(lambda: sketch.update(7, 3))

    works = {k: update(k) for k in _powers(1 << 14, effort.size(1 << 21, least=1 << 15), 2)}
    return Line("PanPrivateSketch.update", "k", 0, "event", works)


def _items(effort: Effort) -> int:
    return effort.size(1 << 18, least=64)


def _told(size: int) -> str:
    """Return a size as people write it: powers of two and of ten."""
    power = size.bit_length() - 1
    return f"2^{power}" if size == 1 << power and size > 64 else f"{size:,}"


def _powers(first: int, last: int, factor: int) -> list[int]:
    """Return powers of ``factor`` times the power of two at or below ``first``, up to ``last``: at least two."""
    sizes = [1 << (first.bit_length() - 1)]
    while sizes[-1] * factor <= last or len(sizes) < 2:
        sizes.append(sizes[-1] * factor)
    return sizes


_LINES: Sequence[Callable[[Effort], Line]] = (
    _by_batch,
    _by_length,
    _by_sparsity,
    _by_sketch_dim,
    _by_dim,
    _by_stream,
    _by_keys,
    _by_nonzeros,
    _by_columns,
    _by_merge,
    _by_release,
    _by_pan_private,
)


def _finding(fitted: Sequence[Fitted]) -> str:
    by = {(fit.line.name, fit.line.against): fit for fit in fitted}
    s, k = by["batch update", "s (k = 128 s)"], by["batch update", "k"]
    dim, before = by["batch update", "dim"], by["batch update", "items before"]
    length = by["a whole stream", "its events"]
    keys, pan = by["SketchTable.update", "number of keys"], by["PanPrivateSketch.update", "k"]
    return (
        f"A batch update should cost O(s) an item and not depend on dim, k or the stream's length. Its time grows as "
        f"s^{s.slope:.2f}, dim^{dim.slope:.3f}, k^{k.slope:.3f} and (items before)^{before.slope:.3f}. Over all k the "
        f"largest time is {k.spread:.2f} times the smallest: no operation is added to an item, but wider fields need a "
        f"second hash word, and the scratch of 16 k bytes outgrows the first cache. Streams "
        f"of 2^13 to 2^27 events take (events)^{length.slope:.3f}. One event of a pan-private sketch takes "
        f"k^{pan.slope:.3f}. Keys cost (keys)^{keys.slope:.2f}, up to {keys.spread:.1f} times: one key is a "
        f"plain sketch, and many have 8 k bytes of cells each, which outgrow all caches."
    )


def _picture(fitted: Sequence[Fitted]) -> Figure:
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    growing, flat = figure.subplots(1, 2)
    for axes, expected, title in ((growing, 1, "should grow in proportion"), (flat, 0, "should not grow")):
        for place, fit in enumerate(fit for fit in fitted if fit.line.expected == expected):
            _draw(axes, fit, f"C{place}")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.set_xlabel("size, over the least")
        axes.set_ylabel("time, over that at the least size")
        axes.set_title(f"What {title}", fontsize=10, loc="left")
        axes.grid(visible=True, linewidth=0.3)
        axes.legend(frameon=False, fontsize=7)
    growing.set_aspect("auto")
    flat.set_ylim(0.25, max(16.0, *flat.get_ylim()))
    return figure


def _draw(axes: Axes, fit: Fitted, colour: str) -> None:
    sizes, times = np.array(list(fit.times)), np.array(list(fit.times.values()))
    label = f"{fit.line.name}, {fit.line.against}: {fit.slope:.2f}"
    axes.plot(sizes / sizes[0], times / times[0], "o-", color=colour, label=label, markersize=3, linewidth=1)
