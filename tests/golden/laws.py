"""Every kind of projection, a line of one table each, as exact fractions, from WIRE.md alone."""

import functools
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

from tests.oracles import naive_maps

WORDS = naive_maps.WORDS
Fields = dict[str, Any]
EVERY_KIND = ("kind", "dim", "sketch_dim", "seed", "resolution")
RANGES: dict[str, Callable[[Any], bool]] = {
    "sparsity": lambda s: 1 <= s <= 1 << 24,
    "independence": lambda t: 4 <= t <= 4096,
    "fraction_bits": lambda bits: 2 <= bits <= 12,
    "density": lambda density: 0 < density <= 1 and (density * 2**30).denominator == 1,
}
"""What the fields may be that some kinds have beside those of `EVERY_KIND`."""


class Law(NamedTuple):
    """Var⟨Sx, Sy⟩ = a‖x‖²‖y‖² + b⟨x,y⟩² + cΣx²y²."""

    a: Fraction
    b: Fraction
    c: Fraction


def padded(fields: Fields) -> int:
    """Return N, the least power of two that is at least dim."""
    return 1 << (int(fields["dim"]) - 1).bit_length()


class Kind(NamedTuple):
    """What the pure readers know of a kind of projection, but for its columns, which `naive_maps.COLUMNS` has."""

    fields: frozenset[str]
    """Beside those of `EVERY_KIND`."""
    entries: Callable[[Fields], int]
    """How many entries of a column are not 0, at most."""
    scale_squared: Callable[[Fields], Fraction]
    law: Callable[[Fields], Law]
    fits: Callable[[Fields], bool] = lambda fields: fields["sketch_dim"] <= 1 << 16
    """Whether k and the other fields keep the limits of the kind."""
    largest: Callable[[Fields], int] | None = None
    """The largest absolute entry, in grid steps; None where entries are ±1 and 0."""
    few: str = ""
    """Where the few entries of a column are: in "blocks", one each, or "anywhere"; "" where columns are full."""
    most_independence: int = 256
    behind: Callable[[Fields], Law] | None = None
    """The law of what comes behind noise before the map, if there is another place for that."""


def scale_squared(fields: Fields) -> Fraction:
    """Return scale² of a projection."""
    return KINDS[fields["kind"]].scale_squared(fields)


def law_of(fields: Fields) -> Law:
    """Return a, b, c of a projection."""
    return KINDS[fields["kind"]].law(fields)


def sparse_law(fields: Fields) -> Law:
    """Return a, b, c of an fjlt's P alone."""
    behind = KINDS[fields["kind"]].behind
    assert behind is not None
    return behind(fields)


def entries_of(fields: Fields) -> int:
    """Return how many entries of a column are not 0, at most."""
    return KINDS[fields["kind"]].entries(fields)


def few_entries(fields: Fields) -> int:
    """Return s of a map that hashes an index to few of its cells; 0 of others."""
    kind = KINDS[fields["kind"]]
    s = kind.entries(fields)
    return s if kind.few == "anywhere" or (kind.few == "blocks" and 2 * s <= fields["sketch_dim"]) else 0


def most_moved(fields: Fields) -> int:
    """Return a bound on the ℓ1 norm of a column of A."""
    largest = KINDS[fields["kind"]].largest
    return entries_of(fields) * (1 if largest is None else largest(fields))


def moments(fields: Fields) -> tuple[Fraction, Fraction]:
    """Return the exact second and fourth moment of an entry of A, of P for fjlt, in grid steps."""
    kind = fields["kind"]
    if kind in ("very-sparse", "achlioptas"):
        s = fields.get("sparsity", 3)
        share = Fraction(min(2 * ((WORDS + s) // (2 * s)), WORDS), WORDS)
        return share, share
    if kind == "uniform":
        second, fourth = _uniform_moments(2 ** fields["fraction_bits"])
        return second, fourth
    drawn = Fraction(round(fields["density"] * WORDS), WORDS) if kind == "fjlt" else Fraction(1)
    second, fourth = (drawn * moment for moment in _gaussian_moments(fields["fraction_bits"]))
    return second, fourth


@functools.cache
def _uniform_moments(n: int) -> list[Fraction]:
    return _moments(n, [-(-i * WORDS // (2 * n + 1)) for i in range(2 * n + 2)])


@functools.cache
def _gaussian_moments(fraction_bits: int) -> list[Fraction]:
    return _moments(*naive_maps.gaussian_table(fraction_bits))


def _moments(largest: int, thresholds: list[int]) -> list[Fraction]:
    """Return the second and fourth moment of entries from -largest, each from its threshold to the next."""
    counts = [after - before for before, after in pairwise(thresholds)]
    sums = (sum(n**power * count for n, count in enumerate(counts, -largest)) for power in (2, 4))
    return [Fraction(total, WORDS) for total in sums]


def independent(k: int, kurtosis: Fraction) -> Law:
    """Return the law of a map with independent entries."""
    excess = kurtosis - 3
    return Law(Fraction(1, k), Fraction(1, k), excess / k if abs(excess) > Fraction(1, 10**9) else Fraction(0))


def independent_entries(fields: Fields) -> Law:
    """Return the law of a map with independent entries of these `moments`."""
    second, fourth = moments(fields)
    return independent(fields["sketch_dim"], fourth / second**2)


def _bins(p: Fraction) -> Law:
    return Law(p, p, -2 * p)


def _oporp(fields: Fields) -> Law:
    d, k = fields["dim"], fields["sketch_dim"]
    n, m = divmod(d, k)
    return _bins(Fraction(m * (n + 1) * n + (k - m) * n * (n - 1), d * max(1, d - 1)))


def _srht(fields: Fields) -> Law:
    size, k = padded(fields), fields["sketch_dim"]
    return _bins(Fraction(size - k, k * max(1, size - 1)))


def _rotation(fields: Fields) -> Law:
    d, k = fields["dim"], fields["sketch_dim"]
    r = Fraction(1, 12 * 4 ** fields["fraction_bits"])
    h, e = Fraction(d - k, k * (d + 2) * max(1, d - 1)), (2 * r + r * r) / k
    return Law((d * h + e) / (1 + r) ** 2, ((d - 2) * h + e) / (1 + r) ** 2, -6 * r * r / (5 * k * (1 + r) ** 2))


def _fjlt(fields: Fields) -> Law:
    (second, fourth), k = moments(fields), fields["sketch_dim"]
    e = (fourth / second**2 - 3) / padded(fields)
    return Law((1 + e) / k, (1 + 2 * e) / k, -2 * e / k)


def _fjlt_fits(fields: Fields) -> bool:
    k, size = fields["sketch_dim"], fields["sketch_dim"] * padded(fields)
    return k <= 1 << 16 and size <= 1 << 35 and bool(fields["density"] * size <= 1 << 26)


def _is_power(number: int) -> bool:
    return number.bit_count() == 1


def _cells(fields: Fields) -> int:
    return int(fields["sketch_dim"])


def _sparsity(fields: Fields) -> int:
    return int(fields["sparsity"])


def _one(_: Fields) -> int:
    return 1


def _gaussian_largest(fields: Fields) -> int:
    return naive_maps.gaussian_table(fields["fraction_bits"])[0]


def _signs(fields: Fields) -> Law:
    return independent(fields["sketch_dim"], Fraction(1))


def _by_moments(fields: Fields) -> Fraction:
    return 1 / (int(fields["sketch_dim"]) * moments(fields)[0])


_T = frozenset({"independence"})
KINDS: dict[str, Kind] = {
    "sjlt-block": Kind(
        _T | {"sparsity"}, _sparsity, lambda fields: Fraction(1, fields["sparsity"]), _signs, few="blocks",
        fits=lambda fields: fields["sketch_dim"] % fields["sparsity"] == 0
        and _is_power(fields["sketch_dim"] // fields["sparsity"]),
    ),
    "sjlt-graph": Kind(
        _T | {"sparsity"}, _sparsity, lambda fields: Fraction(1, fields["sparsity"]), _signs, few="anywhere",
        fits=lambda fields: fields["sparsity"] <= min(fields["sketch_dim"], 4096),
    ),
    "count-sketch": Kind(
        _T, _one, lambda _: Fraction(1), _signs, few="blocks", fits=lambda fields: _is_power(fields["sketch_dim"])
    ),
    "rademacher": Kind(
        _T, _cells, lambda fields: Fraction(1, fields["sketch_dim"]), _signs, fits=lambda _: True
    ),
    "oporp": Kind(
        _T, _one, lambda _: Fraction(1), _oporp, few="anywhere",
        fits=lambda fields: fields["sketch_dim"] <= fields["dim"],
    ),
    "very-sparse": Kind(_T | {"sparsity"}, _cells, _by_moments, independent_entries),
    "achlioptas": Kind(_T, _cells, _by_moments, independent_entries),
    "uniform": Kind(
        _T | {"fraction_bits"}, _cells, _by_moments, independent_entries,
        largest=lambda fields: int(2 ** fields["fraction_bits"]),
    ),
    "gaussian": Kind(
        _T | {"fraction_bits"}, _cells, _by_moments, independent_entries, largest=_gaussian_largest,
        most_independence=4096,
    ),
    "srht": Kind(
        _T, _cells, lambda fields: Fraction(1, fields["sketch_dim"]), _srht,
        fits=lambda fields: fields["sketch_dim"] <= min(padded(fields), 1 << 16),
    ),
    "fjlt": Kind(
        _T | {"fraction_bits", "density"}, _cells, lambda fields: _by_moments(fields) / padded(fields), _fjlt,
        fits=_fjlt_fits, largest=lambda fields: padded(fields) * _gaussian_largest(fields), behind=independent_entries,
    ),
    "rotation": Kind(
        _T | {"fraction_bits"}, _cells,
        lambda fields: 1 / (fields["sketch_dim"] * (4 ** fields["fraction_bits"] + Fraction(1, 12))), _rotation,
        fits=lambda fields: fields["sketch_dim"] <= min(fields["dim"], 1 << 12)
        and fields["sketch_dim"] * fields["dim"] <= 1 << 30,
        largest=_gaussian_largest,
    ),
    "identity": Kind(
        frozenset(), _one, lambda _: Fraction(1), lambda _: _bins(Fraction(0)), few="anywhere",
        fits=lambda fields: fields["sketch_dim"] == fields["dim"] <= 1 << 24 and fields["seed"] == 0,
    ),
}  # fmt: skip
"""Every kind of projection."""
