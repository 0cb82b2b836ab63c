"""The findings of a federation's report: sites that stand out, in which columns, since when; from releases alone."""

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import pyarrow.compute as pc

from streamsketch.agreement.agreement import Agreement
from streamsketch.core.documents import Json
from streamsketch.errors import InvalidInputError
from streamsketch.estimation.blocks import block_of, check_comparable
from streamsketch.estimation.changes import Changes, changes
from streamsketch.estimation.means import few_units
from streamsketch.estimation.populations import column_differences
from streamsketch.estimation.sites import MOST_PAIRS, SiteComparison, compare_sites
from streamsketch.features.columns import Category
from streamsketch.features.features import JOINT
from streamsketch.release.private_sketch import PrivateSketch
from streamsketch.report.series import series_in
from streamsketch.report.text import shorten

_MOST_SITES = 400
_MOST_STEPS = 240  # windows that are tested, all sites together
_NAMES = 6  # in a sentence
_EXPLAINED = 4  # sites of which a sentence says in what they differ
_COLUMNS = 4
_TOGETHER = "how numbers go together"


@dataclasses.dataclass(frozen=True, eq=False)
class Drift:
    """How a site differs from its first window.

    Parameters
    ----------
    changes
        Each window against the first, by `streamsketch.changes`.
    since
        The window since which it has differed without a break until now; None if the last window does not differ.
    columns
        In which the last window differs from the first, clearest first, if it does.
    """

    changes: Changes
    since: str | None
    columns: tuple[str, ...]

    def to_dict(self) -> Json:
        """Return the result as what JSON can hold."""
        fields = self.changes.to_dict()
        windows = [
            {
                name: None if isinstance(value, float) and not math.isfinite(value) else value
                for name, value in row.items()
            }
            for row in fields["windows"]
        ]
        return fields | {"windows": windows, "since": self.since, "columns": list(self.columns)}


@dataclasses.dataclass(frozen=True, eq=False)
class Federation:
    """What the releases of a federation's sites show, as `federation_of` finds it.

    Parameters
    ----------
    answer
        One or more short sentences: who stands out, in what, and since when.
    unit
        What is counted, in the plural, such as patients.
    sites
        The releases that are compared, by site: of windows, the last with enough units.
    windows
        The window of each site, if releases are of windows.
    comparison
        Of the sites; None of one site alone.
    drifts
        Of each site with two windows or more.
    absent
        What was not computed, and why, by section.
    releases
        All releases, by name.
    """

    answer: str
    unit: str
    sites: dict[str, PrivateSketch]
    windows: dict[str, str]
    comparison: SiteComparison | None
    drifts: dict[str, Drift]
    absent: dict[str, str]
    releases: dict[str, PrivateSketch]

    def to_dict(self) -> Json:
        """Return all facts as what JSON can hold: numbers as numbers, null where there is none."""
        return {
            "answer": self.answer,
            "unit": self.unit,
            "stand_out": None if self.comparison is None else self.comparison.outstanding,
            "windows": self.windows,
            "comparison": None if self.comparison is None else self.comparison.to_dict(),
            "changes": {site: drift.to_dict() for site, drift in self.drifts.items()},
            "absent": self.absent,
            "guarantees": {name: release.guarantee.to_dict() for name, release in self.releases.items()},
        }


def federation_of(
    releases: Mapping[str, PrivateSketch],
    agreement: Agreement,
    *,
    shares: Mapping[str, Iterable[str]] | None = None,
    tolerance: float = 0.0,
    level: float = 0.05,
) -> Federation:
    """Compare the sites of a federation, and each with itself over time.

    Sites are compared by `streamsketch.estimation.compare_sites`. If all names are of windows, ``SITE 2024-05``, the
    last window of each site that has enough units is compared, and each site's windows are tested against its first by
    `streamsketch.changes` with ``by="mean", samples=True``. ``level`` is then the probability of any false alarm in
    the series of all sites. It costs no privacy beyond that of the releases.

    Parameters
    ----------
    releases
        At most 400 releases by site, or by site and window, of one agreement with `streamsketch.Features`, whose units
        were counted.
    agreement
        That agreement.
    shares, tolerance, level
        As `streamsketch.estimation.compare_sites`.

    Raises
    ------
    InvalidInputError
        For more than 400 releases; for a single site with fewer than two windows; as
        `streamsketch.estimation.compare_sites`.
    TypeError, IncompatibleProjectionsError, IncompatibleAgreementsError, DependentNoiseError
        As `streamsketch.estimation.mmd`.
    """
    releases = dict(releases)
    if not 2 <= len(releases) <= _MOST_SITES:
        raise InvalidInputError(f"a report of a federation needs 2 to {_MOST_SITES} releases, got {len(releases)}")
    if agreement.features is None:
        raise InvalidInputError("the agreement has no features, so its releases are of items: report them without it")
    check_comparable(list(releases.values()))
    series = series_in(releases)
    few = dict(zip(releases, few_units(block_of(list(releases.values()))).tolist(), strict=True))
    sites, windows = dict(releases), {}
    if series:
        sites = {}
        for site, names in series.items():
            clear = [window for window, name in names.items() if not few[name]] or list(names)
            windows[site] = clear[-1]
            sites[site] = releases[names[clear[-1]]]
    comparison = (
        compare_sites(sites, agreement, shares=shares, tolerance=tolerance, level=level) if len(sites) > 1 else None
    )
    drifts, absent = _drifts(series, releases, agreement, tolerance, level) if series else ({}, {})
    if not series:
        absent["Since when"] = (
            "The releases are not of windows of time. Windows have names such as “north 2024-05” and “north 2024-06”."
        )
    if comparison is None:
        absent["Who stands out"] = "There is one site, and so no other to compare it with."
    else:
        absent |= _absent_of_sites(comparison, agreement, shares)
    unit = unit_words(next(iter(releases.values())).guarantee.neighbours.units)
    sentences = [*([] if comparison is None else [_who(comparison)]), *_since(drifts)]
    return Federation(" ".join(sentences), unit, sites, windows, comparison, drifts, absent, releases)


def unit_words(units: str) -> str:
    """Return what people call units, in the plural: people for person_ids.

    Examples
    --------
    >>> unit_words("person_ids"), unit_words("patients")
    ('people', 'patients')
    """
    words = units.removesuffix("_ids").replace("_", " ") + "s" * units.endswith("_ids")
    return "people" if words == "persons" else shorten(words)


def column_words(column: str) -> str:
    """Return what people call a column of features."""
    return _TOGETHER if column == JOINT else shorten(column)


def listed(names: Sequence[str], most: int = _NAMES) -> str:
    """Return names as a sentence has them, at most so many.

    Examples
    --------
    >>> listed(["a", "b", "c"]), listed(["a", "b", "c"], 1)
    ('a, b and c', 'a and 2 more')
    """
    if len(names) > most + 1:
        names = [*names[:most], f"{len(names) - most} more"]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def differing_words(comparison: SiteComparison, site: str) -> list[str]:
    """Return the columns in which a site differs; how numbers go together only if no column does."""
    columns = comparison.differing(site)
    return [column_words(column) for column in columns if column != JOINT or len(columns) == 1]


def _who(comparison: SiteComparison) -> str:
    """Return which sites stand out, and in what."""
    out, every = comparison.outstanding, comparison.sites.num_rows
    unclear = [shorten(site) for site in comparison.unclear["site"].to_pylist()]
    left_out = (
        f" {listed(unclear)} {'is' if len(unclear) == 1 else 'are'} left out: too few for their noise."
        if unclear
        else ""
    )
    if not out:
        return f"None of {every} sites stands out: no difference between them is shown.{left_out}"
    names = listed([shorten(site) for site in out])
    if every == 2:
        first = f"The two sites differ: {names}."
    elif len(out) == every:
        first = f"All {every} sites stand out: no two are shown to be alike."
    else:
        first = f"{len(out)} of {every} sites {'stands' if len(out) == 1 else 'stand'} out: {names}."
    return f"{first} {_in_what(comparison, out, pair=every == 2)}{left_out}"


def _in_what(comparison: SiteComparison, out: Sequence[str], *, pair: bool) -> str:
    """Return in which columns sites that stand out differ."""
    columns = {site: differing_words(comparison, site) for site in out}
    number = Counter(column for words in columns.values() for column in words)
    if not number:
        return "No single column shows a clear difference."
    if len(out) == 1 or pair:
        return f"{'They differ' if pair else 'It differs'} in {listed(list(number), _COLUMNS)}."
    if len(out) <= _EXPLAINED:
        named = [f"{listed(words, _COLUMNS)} ({shorten(site)})" for site, words in columns.items() if words]
        return f"They differ in {'; '.join(named)}."
    often = [f"{column} ({count} of {len(out)})" for column, count in number.most_common()]
    return f"Most often they differ in {listed(often, _COLUMNS)}."


def _since(drifts: Mapping[str, Drift]) -> list[str]:
    """Return which sites have changed, and since when."""
    if not drifts:
        return []
    changed = {site: drift for site, drift in drifts.items() if drift.since is not None}
    if not changed:
        passing = [site for site, drift in drifts.items() if drift.changes.alarms]
        past = f" ({listed([shorten(site) for site in passing])} differed for a time)" if passing else ""
        who = "No site differs" if len(drifts) > 1 else "It does not differ"
        return [f"{who} now from its first window{past}."]
    named = [f"{shorten(site)} since {drift.since}".strip() for site, drift in changed.items()]
    return [f"Changed: {listed(named)}."]


def _drifts(
    series: Mapping[str, Mapping[str, str]],
    releases: Mapping[str, PrivateSketch],
    agreement: Agreement,
    tolerance: float,
    level: float,
) -> tuple[dict[str, Drift], dict[str, str]]:
    """Return how sites differ from their first windows, and why that of others is not shown."""
    several = {site: names for site, names in series.items() if len(names) > 1}
    if not several:
        return {}, {"Since when": "Each site has one window only."}
    drifts: dict[str, Drift] = {}
    lost, many, steps = [], [], 0
    for site, names in several.items():
        windows = {window: releases[name] for window, name in names.items()}
        steps += len(windows) - 1
        if steps > _MOST_STEPS:
            many.append(shorten(site))
            continue
        result = changes(
            windows, against="first", by="mean", samples=True, tolerance=tolerance, level=level / len(several)
        )
        if all(test is None for test in result.tests):
            lost.append(shorten(site))
            continue
        drifts[site] = _drift(result, windows, agreement)
    absent = {}
    if lost:
        absent["Changes of some sites"] = f"The windows of {listed(lost)} hold too few units for their noise."
    if many:
        absent["Changes of some sites"] = (
            f"There are too many windows for one page; {listed(many)} are left out. The command `streamsketch changes` "
            f"shows all of them."
        )
    return drifts, absent if drifts else absent | {"Since when": "No site has two windows with enough for their noise."}


def _drift(result: Changes, windows: Mapping[str, PrivateSketch], agreement: Agreement) -> Drift:
    tested = [row for row in result.table.to_pylist() if row["p_value"] is not None]
    since = None
    for row in reversed(tested):
        if not row["alarm"]:
            break
        since = row["window"]
    if since is None:
        return Drift(result, None, ())
    last = tested[-1]
    columns = column_differences(
        windows[last["window"]], windows[last["before"]], agreement, confidence=1 - result.level, samples=True
    )
    return Drift(result, since, tuple(columns.filter(pc.greater(columns["low"], 0.0))["column"].to_pylist()))


def _absent_of_sites(
    comparison: SiteComparison, agreement: Agreement, shares: Mapping[str, Iterable[str]] | None
) -> dict[str, str]:
    """Return what is not shown of sites, and why."""
    absent = {}
    if not comparison.outstanding:
        absent["What differs"] = "No site stands out."
    if comparison.sites.num_rows < 3:
        absent["Map"] = "Two sites have one distance, which is above."
    if comparison.pairs.num_rows > MOST_PAIRS:
        absent["Pairs"] = (
            f"{comparison.sites.num_rows} sites have {comparison.pairs.num_rows:,} pairs: too many tests to find much. "
            f"Each site is compared with the others together instead."
        )
    features = agreement.features
    hashed = [
        name
        for name, column in (features.columns.items() if features is not None else ())
        if isinstance(column, Category) and column.values is None and name not in (shares or {})
    ]
    if hashed:
        absent["Shares"] = (
            f"{listed([shorten(name) for name in hashed])} may hold any values: state the values whose shares to show: "
            f"--share {shorten(hashed[0])}=VALUE."
        )
    return absent
