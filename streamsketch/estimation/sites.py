"""Sites of a federation compared: who stands out from the others, in which columns, and what each holds."""

import dataclasses
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
from scipy.special import ndtr

from streamsketch.agreement.agreement import Agreement
from streamsketch.core.documents import Json
from streamsketch.core.numbers import Floats
from streamsketch.errors import InvalidInputError, printable
from streamsketch.estimation.blocks import block_of, check_comparable
from streamsketch.estimation.estimate import Estimate
from streamsketch.estimation.estimate_arrays import Estimates
from streamsketch.estimation.gap_law import check_level
from streamsketch.estimation.means import few_units, mean_distances_between
from streamsketch.estimation.populations import column_differences, describe, mmd
from streamsketch.estimation.same import check_tolerance, sameness
from streamsketch.release.private_sketch import PrivateSketch

MOST_PAIRS = 45
"""The most pairs of sites that are tested, which is the number of pairs of ten sites."""
_SURELY = 0.2  # of a p-value, above which it is not computed, where that is far above the level
_FAR_ABOVE = 10.0
_USUAL = 3.0  # standard errors


@dataclasses.dataclass(frozen=True, eq=False)
class SiteComparison:
    """The sites of a federation that stand out, from `compare_sites`.

    Parameters
    ----------
    sites
        One row for each site that has enough units for its noise: ``site``; ``units``, their number, with ``units_low``
        and ``units_high``; ``estimate``, the discrepancy from the others (`mmd`), with ``error``, ``low`` and ``high``;
        ``p_value``, adjusted for all sites, null if it is surely above the level; and ``stands_out``.
    unclear
        The other sites: ``site``, ``units``, ``units_low`` and ``units_high``.
    others
        The sites that no test distinguishes. Each site is compared with these, without itself. If no two sites are
        alike, all sites.
    columns
        For each site that stands out, all columns, clearest first: ``site``, ``column``, ``estimate``, ``error``,
        ``low``, ``high`` as in `column_differences` with ``samples=True``, and ``differs``, which is true if the
        interval excludes 0. All intervals hold together.
    description
        The result of `describe` for each site: ``site``, ``column``, ``measure``, ``estimate``, ``error``, ``low``,
        ``high``.
    of_others
        The result of `describe` for ``others`` together.
    pairs
        All pairs of sites, nearest first: ``first``, ``second``, ``estimate`` of their `mean_distance`, ``error``,
        ``low``, ``high``, ``p_value``, adjusted for all pairs, and ``differ``. ``p_value`` and ``differ`` are null if
        there are more than 45 pairs.
    distances
        The same distances, (n, n), with sites in the order of ``sites``.
    level, tolerance
        The arguments of `compare_sites`.
    """

    sites: pa.Table
    unclear: pa.Table
    others: tuple[str, ...]
    columns: pa.Table
    description: pa.Table
    of_others: pa.Table
    pairs: pa.Table
    distances: Estimates = dataclasses.field(repr=False)
    level: float = 0.05
    tolerance: float = 0.0

    @property
    def outstanding(self) -> list[str]:
        """The names of the sites that stand out."""
        names: list[str] = self.sites.filter(self.sites["stands_out"])["site"].to_pylist()
        return names

    def differing(self, site: str) -> list[str]:
        """Return the columns in which a site differs from the others, clearest first."""
        rows = self.columns.filter(pa.compute.equal(self.columns["site"], site))
        names: list[str] = rows.filter(rows["differs"])["column"].to_pylist()
        return names

    def to_dict(self) -> Json:
        """Return all numbers as a dict that JSON can hold, with null for those that do not exist."""
        names = ("sites", "unclear", "columns", "description", "of_others", "pairs")
        tables = {name: [_plain(row) for row in getattr(self, name).to_pylist()] for name in names}
        return {"others": list(self.others), "level": self.level, "tolerance": self.tolerance} | tables


def compare_sites(
    releases: Mapping[str, PrivateSketch],
    agreement: Agreement,
    *,
    shares: Mapping[str, Iterable[str]] | None = None,
    tolerance: float = 0.0,
    level: float = 0.05,
) -> SiteComparison:
    """Find the sites whose populations differ from the others, and the columns in which they differ.

    Each site is tested against all other sites together (`sameness` with ``by="mean"`` and ``samples=True``). A site
    that differs would make every other site seem to differ from the rest. So the farthest site that is found is
    removed, and the remaining ones are compared again, until none differs: these are the ``others`` of the result. Each
    removed site is then compared with them once more. If no two sites are alike, all stand out, and distances are from
    all other sites.

    A p-value is multiplied by the number of remaining sites (Holm 1979), and is never below an earlier one. If
    all sites are alike, the probability that any stands out is at most ``level``. If some differ and hold most of the
    units, the other sites may stand out more often. The comparison costs no privacy beyond that of the releases.

    Parameters
    ----------
    releases
        Releases by site, under one agreement with `Features`, with independent noise. Units are disjoint and were
        counted.
    agreement
        The agreement.
    shares
        As in `describe`.
    tolerance
        The distance (not squared) up to which populations count as the same, as in `sameness`.
    level
        Probability of a false alarm, in (0, 1).

    Raises
    ------
    InvalidInputError
        If fewer than two sites have enough units, or two share data; and as in `sameness` and `describe`.
    TypeError, IncompatibleProjectionsError, IncompatibleAgreementsError, DependentNoiseError
        As in `mmd`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from streamsketch import agree, bound
    >>> from streamsketch.features import Category, Features
    >>> wards = {"north": "AB" * 2000, "south": "AB" * 1500, "east": "AAAB" * 900}
    >>> rows = {
    ...     site: pa.table({"patient": range(len(ward)), "ward": list(ward)}) for site, ward in wards.items()
    ... }
    >>> agreement = agree(rows["north"], features=Features({"ward": Category(["A", "B"])}, seed=7), unit="patient")
    >>> releases = {
    ...     site: bound(table, agreement).release(epsilon=1, delta=1e-6, neighbours=agreement.neighbours)
    ...     for site, table in rows.items()
    ... }
    >>> comparison = compare_sites(releases, agreement)
    >>> comparison.outstanding, comparison.differing("east"), comparison.others
    (['east'], ['ward'], ('north', 'south'))
    """
    check_level(level)
    check_tolerance(tolerance)
    sites = dict(releases)
    for site, release in sites.items():
        if not isinstance(release, PrivateSketch):
            raise TypeError(f"sites publish PrivateSketch objects, got a {type(release).__name__} of {site}")
        describe(release, agreement, shares=shares)  # checks agreement and shares
    check_comparable(list(sites.values()))
    few = few_units(block_of(list(sites.values()))) if sites else np.empty(0, np.bool_)
    clear = [site for site, unknown in zip(sites, few, strict=True) if not unknown]
    if len(clear) < 2:
        raise InvalidInputError(
            f"fewer than two of {len(sites)} sites have enough units to stand out from the noise, so none can be "
            "compared: release more units of a site together, or with a larger epsilon"
        )
    _check_disjoint(sites, clear)
    search = Search([sites[site] for site in clear], tolerance, level)
    p_values, stand_out, alike = search.result()
    reference = alike or list(range(len(clear)))
    pools = search.pools(reference)
    rows = [
        {"site": site, **_units(sites[site]), **_numbers(mmd(sites[site], pool, agreement)), "p_value": p_value}
        | {"stands_out": place in stand_out}
        for place, (site, pool, p_value) in enumerate(zip(clear, pools, p_values, strict=True))
    ]
    confidence = 1 - level / max(len(stand_out), 1)
    columns = [
        pa.table({"site": [clear[place]] * len(table), **{name: table[name] for name in table.column_names}})
        for place in sorted(stand_out)
        for table in [
            column_differences(sites[clear[place]], pools[place], agreement, confidence=confidence, samples=True)
        ]
    ]
    every = pa.concat_tables(columns) if columns else _EMPTY
    described = [(site, describe(sites[site], agreement, shares=shares)) for site in clear]
    whole = search.together([search.releases[place] for place in reference])
    block = block_of(search.releases)
    distances = mean_distances_between(block, block, same=True)
    return SiteComparison(
        pa.Table.from_pylist(rows, schema=_SITES),
        pa.Table.from_pylist(
            [{"site": site, **_units(sites[site])} for site in sites if site not in clear],
            schema=pa.schema(list(_SITES)[:4]),
        ),
        tuple(clear[place] for place in reference),
        every.append_column("differs", pa.compute.greater(every["low"], 0.0)),
        pa.concat_tables(
            [
                pa.table({"site": [site] * len(table), **{name: table[name] for name in table.column_names}})
                for site, table in described
            ]
        ),
        describe(whole, agreement, shares=shares),
        _pairs(clear, search, distances),
        distances,
        level,
        float(tolerance),
    )


_SITES = pa.schema(
    [
        ("site", pa.string()),
        *((name, pa.float64()) for name in ("units", "units_low", "units_high", "estimate", "error", "low", "high")),
        ("p_value", pa.float64()),
        ("stands_out", pa.bool_()),
    ]
)
_EMPTY = pa.schema(
    [(name, pa.string()) for name in ("site", "column")]
    + [(name, pa.float64()) for name in ("estimate", "error", "low", "high")]
).empty_table()
_PAIRS = pa.schema(
    [(name, pa.string()) for name in ("first", "second")]
    + [(name, pa.float64()) for name in ("estimate", "error", "low", "high", "p_value")]
    + [("differ", pa.bool_())]
)


class Search:
    """Tests of sites against the others, of n releases."""

    def __init__(self, releases: Sequence[PrivateSketch], tolerance: float, level: float) -> None:
        self.releases = list(releases)
        self.level = level
        self._tolerance = tolerance
        block = block_of(self.releases)
        if block.units is None:  # as describe has refused
            raise AssertionError
        self._values, self._k2, self._numbers = block.values, block.k2, block.units.number
        self._tests: dict[tuple[int, frozenset[int]], float] = {}

    def result(self) -> tuple[list[float | None], set[int], list[int]]:
        """Return adjusted p-values, the places of those that stand out, and of those that are alike."""
        inside, out = list(range(len(self.releases))), []
        p_values: list[float | None] = [None] * len(inside)
        least = 0.0
        while len(inside) > 1:
            tests = len(inside) if len(inside) > 2 else 1  # of two sites, both tests are one
            alarm = None
            for place in self._farthest_first(inside):
                p_value = self._test(place, inside, tests)
                p_values[place] = None if p_value is None else max(least, min(p_value * tests, 1.0))
                if p_value is not None and p_value * tests <= self.level:
                    alarm = place
                    break
            if alarm is None:
                break
            least = max(least, p_values[alarm] or 0.0)
            places = inside if tests == 1 else [alarm]
            out += places
            for place in places:
                p_values[place] = least
            inside = [place for place in inside if place not in places]
        for place in out if inside else ():
            again = self._test(place, [*inside, place], len(self.releases))
            first = p_values[place] or 0.0
            p_values[place] = None if again is None else max(first, min(again * len(self.releases), 1.0))
        stand_out = {place for place in out for value in [p_values[place]] if value is not None and value <= self.level}
        return p_values, stand_out, inside

    def pools(self, among: Sequence[int]) -> list[PrivateSketch]:
        """Return, for each site, the release of some sites together, without this one."""
        releases = [self.releases[place] for place in among]
        first, last = _running(releases), _running(releases[::-1])
        pools = [first[-1]] * len(self.releases)
        for rank, place in enumerate(among):
            before, after = first[:rank][-1:], last[: len(releases) - 1 - rank][-1:]
            pools[place] = self.together([*before, *after])
        return pools

    @staticmethod
    def together(releases: Sequence[PrivateSketch]) -> PrivateSketch:
        """Return the release of all of some sites, by halves."""
        if len(releases) == 1:
            return releases[0]
        half = len(releases) // 2
        first, second = Search.together(releases[:half]), Search.together(releases[half:])
        return first.combine(second, populations="disjoint")

    def pair(self, first: int, second: int, tests: int) -> float | None:
        """Return the p-value of two sites, or None if it is far above the level."""
        return self._test(first, [first, second], tests)

    def _test(self, place: int, among: Iterable[int], tests: int) -> float | None:
        """Return the p-value of a site against others of some, or None if it is far above the level for this many."""
        rest = [other for other in among if other != place]
        if self._is_surely_above(place, rest, self.level / tests):
            return None
        key = place, frozenset(rest)
        if key not in self._tests:
            pool = self.together([self.releases[other] for other in rest])
            test = sameness(self.releases[place], pool, self._tolerance, by="mean", samples=True)
            self._tests[key] = test.p_value
        return self._tests[key]

    def _averages(self, place: int, rest: Sequence[int]) -> tuple[Floats, Floats, Floats, Floats]:
        """Return the averages of a site and of others together, (2, D), with the variances of noise and numbers."""
        sums = np.stack([self._values[place], self._values[rest].sum(axis=0)])
        numbers = np.array([self._numbers[place], self._numbers[rest].sum()])
        k2 = np.array([self._k2[place], self._k2[rest].sum()]) / numbers**2
        return sums[0] / numbers[0], sums[1] / numbers[1], k2, numbers

    def _is_surely_above(self, place: int, rest: Sequence[int], level: float) -> bool:
        """Return whether a p-value is far above a level: by first moments, which leave out errors that make it larger.

        Two samples of one population are at most (1 - ‖μ‖²)(1/n + 1/m) apart on average; here with a larger ‖μ‖.
        """
        own, others, k2, numbers = self._averages(place, rest)
        cells, noise = own.size, float(k2.sum())
        apart = float(((own - others) ** 2).sum()) - cells * noise
        alike = float(own @ others)
        error = math.sqrt(cells * float(k2.prod()) + float(((own**2).sum() * k2[1]) + ((others**2).sum() * k2[0])))
        of_samples = (1 - min(max(alike + _USUAL * error, 0.0), 1.0)) * float((1 / numbers).sum())
        spread = math.sqrt(2 * cells * noise**2 + 2 * of_samples**2 + 4 * of_samples * noise)
        z = (apart - of_samples) / spread if spread else math.inf
        single = 2 * float(ndtr(-math.sqrt(max(1 + math.sqrt(2) * z, 0.0))))  # a single direction
        return min(float(ndtr(-z)), single) > min(_SURELY, _FAR_ABOVE * level)

    def _farthest_first(self, inside: Sequence[int]) -> list[int]:
        """Return sites by how far they are from the others at least, so that few units do not come first by noise."""

        def least(place: int) -> float:
            own, others, k2, numbers = self._averages(place, [other for other in inside if other != place])
            noise = float(k2.sum())
            apart = float(((own - others) ** 2).sum()) - own.size * noise - float((1 / numbers).sum())
            return apart - _USUAL * math.sqrt(2 * own.size * noise**2)

        return sorted(inside, key=lambda place: -least(place))


def _running(releases: Sequence[PrivateSketch]) -> list[PrivateSketch]:
    """Return the release of the first, of the first two together, and so on."""
    return list(itertools.accumulate(releases, lambda total, release: total.combine(release, populations="disjoint")))


def _check_disjoint(releases: Mapping[str, PrivateSketch], sites: Sequence[str]) -> None:
    """Raise `InvalidInputError` if two sites share data."""
    owner: dict[bytes, str] = {}
    for site in sites:
        for data_id in releases[site].data_ids:
            first = owner.setdefault(data_id, site)
            if first != site:
                raise InvalidInputError(
                    f"{printable(first)} and {printable(site)} share data, so they are not two sites: pass only one of "
                    f"them"
                )


def _pairs(sites: Sequence[str], search: Search, distances: Estimates) -> pa.Table:
    """Return all pairs, nearest first, tested if they are few."""
    first, second = np.triu_indices(len(sites), 1)
    count = first.size
    tested = count <= MOST_PAIRS
    p_values = [
        search.pair(i, j, count) if tested else None for i, j in zip(first.tolist(), second.tolist(), strict=True)
    ]
    adjusted = _holm([1.0 if value is None else value for value in p_values])
    low, high = distances.interval(0.95)
    rows: list[Json] = [
        {
            "first": sites[i],
            "second": sites[j],
            "estimate": float(distances.value[i, j]),
            "error": float(distances.standard_error[i, j]),
            "low": float(low[i, j]),
            "high": float(high[i, j]),
            "p_value": None if p_values[place] is None else adjusted[place],
            "differ": adjusted[place] <= search.level if tested else None,
        }
        for place, (i, j) in enumerate(zip(first.tolist(), second.tolist(), strict=True))
    ]
    return pa.Table.from_pylist(sorted(rows, key=lambda row: row["estimate"]), schema=_PAIRS)


def _holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for all of them."""
    order = np.argsort(p_values, kind="stable")
    adjusted, least = [1.0] * len(p_values), 0.0
    for rank, place in enumerate(order.tolist()):
        least = max(least, min(p_values[place] * (len(p_values) - rank), 1.0))
        adjusted[place] = least
    return adjusted


def _units(release: PrivateSketch) -> dict[str, float]:
    """Return the number of units with its interval."""
    estimate = release.units
    low, high = estimate.interval(0.95)
    return {"units": estimate.value, "units_low": low, "units_high": high}


def _numbers(estimate: Estimate) -> dict[str, float]:
    low, high = estimate.interval(0.95)
    return {"estimate": estimate.value, "error": estimate.standard_error, "low": low, "high": high}


def _plain(row: Mapping[str, object]) -> Json:
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in row.items()
    }
