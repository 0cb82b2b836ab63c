"""Tests of a series of releases in time order: which windows differ from the one before, or from the first."""

import dataclasses
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from streamsketch.core import sentences
from streamsketch.core.documents import Json, TableKey
from streamsketch.core.libraries import pa
from streamsketch.core.numbers import Floats, short
from streamsketch.errors import InvalidInputError
from streamsketch.estimation.blocks import AnySketch, block_of, check_comparable, is_secret, streams_of
from streamsketch.estimation.estimate import SECRECY, SECRET_METADATA, Estimate, format_value, value_text
from streamsketch.estimation.estimators import squared_distance
from streamsketch.estimation.gap_law import check_level
from streamsketch.estimation.joint import joint_between
from streamsketch.estimation.joint_estimate import JOINT_METADATA, JointModel
from streamsketch.estimation.means import few_units, mean_distance
from streamsketch.estimation.measures import MEASURES
from streamsketch.estimation.same import (
    OF_SHAPE,
    SameBy,
    SameTest,
    check_same_by,
    check_tolerance,
    distance_of_multiples,
    sameness,
)

Against: TypeAlias = Literal["previous", "first"]
"""What each window is compared with."""

Control: TypeAlias = Literal["any", "rate"]
"""Whether a level is the probability of any false alarm in the series, or the share of alarms that are false."""

_CONFIDENCE = 0.95
_LEAST_TYPICAL = 5  # distances, for a median that one change does not decide
_USUAL = 3.0  # robust standard deviations, within which distances are usual
_TO_DEVIATION = 1.4826  # of a median absolute deviation, if errors are normal
_TINY = 1e-300
_SHOWN = 40  # rows


@dataclasses.dataclass(frozen=True, eq=False)
class Changes:
    """The windows of a series that have changed, from `streamsketch.changes`.

    Parameters
    ----------
    table
        One row for each window but the first: ``window`` and ``before``, the names of the two windows that are
        compared; ``estimate``, their squared distance (or profile distance, or cosine), with its standard ``error`` and
        the ends of its 95 % interval, ``low`` and ``high``; ``p_value``; ``line``, the smallest estimate (the largest
        cosine) that raises an alarm; and ``alarm``. Numbers are float64, in squared data units, and null if there is no
        average; of profiles and cosines all but ``p_value`` are null if a window is below the noise floor;
        ``line`` also if no estimate raises an alarm, as the level is below the least p-value. With
        ``together=True`` also ``joint`` and ``joint_error``: the joint estimate of the squared distance, and the error
        to expect of it.
    tolerance
        The distance (not squared) up to which windows count as the same, in data units, as in `streamsketch.sameness`.
    against, by, samples, level, control
        The arguments of `streamsketch.changes`.
    tests
        The test of each row; None if there is no average.

    Examples
    --------
    >>> from streamsketch import L1, CountSketch, changes
    >>> projection = CountSketch(sketch_dim=256, seed=7)
    >>> days = {}
    >>> for day, sold in (("Mon", 1000), ("Tue", 1000), ("Wed", 9000)):
    ...     sketch = projection.sketch()
    ...     sketch.update(["tea"] * sold)
    ...     days[day] = sketch.release(epsilon=1.0, neighbours=L1(1, unit="sale"))
    >>> series = changes(days, level=1e-6)
    >>> series.alarms, series.table.column_names[:3]
    (['Wed'], ['window', 'before', 'estimate'])
    """

    table: "pa.Table"
    tolerance: float
    against: Against
    by: SameBy
    samples: bool
    level: float
    control: Control
    tests: tuple[SameTest | None, ...] = dataclasses.field(repr=False)
    secret: bool = False
    """Whether it is as secret as a raw sketch that took part."""
    joint: JointModel | None = None
    """How the joint estimates of the table were made; None if it has none."""

    @property
    def alarms(self) -> list[Any]:
        """The names of the windows that have changed, in time order."""
        names: list[Any] = self.table.filter(self.table["alarm"])["window"].to_pylist()
        return names

    @property
    def measure(self) -> str:
        """What estimates are of, for people."""
        return MEASURES[self.by if self.by in OF_SHAPE else "distance"].title

    def to_dict(self) -> Json:
        """Return the result as a dict that JSON can hold, if it can hold the names of windows."""
        fields = {
            "tolerance": self.tolerance,
            "against": self.against,
            "by": self.by,
            "samples": self.samples,
            "level": self.level,
            "control": self.control,
            "alarms": self.alarms,
            "windows": self.table.to_pylist(),
        }
        fields |= {} if self.joint is None else {"joint": self.joint.to_dict()}
        return fields | ({"secret": True} if self.secret else {})

    def __repr__(self) -> str:
        notes = [str(note) for note in (self.joint, SECRECY if self.secret else None) if note is not None]
        return f"<Changes: {', '.join([f'{len(self.alarms)} of {len(self.table)} windows', *notes])}>"

    def __str__(self) -> str:
        joint = () if self.joint is None else ("joint estimate",)
        head = ("window", "before", self.measure, "p", "alarm from", *joint)
        lines = [head, *(self._line(row) for row in range(min(len(self.table), _SHOWN)))]
        widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
        shown = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
        ]
        if len(self.table) > _SHOWN:
            shown.append(f"… and {len(self.table) - _SHOWN} more")
        shown += [str(note) for note in (self.joint, SECRECY if self.secret else None) if note is not None]
        return "\n".join(shown)

    def _line(self, row: int) -> tuple[str, ...]:
        (cells,) = self.table.slice(row, 1).to_pylist()
        test = self.tests[row]
        if test is None:
            return str(cells["window"]), "", "no average", "", "", *([""] if self.joint else [])
        is_defined = cells["estimate"] is not None
        line = "" if cells["line"] is None else format_value(cells["line"], test.distance.standard_error)
        return (
            str(cells["window"]),
            str(cells["before"]),
            value_text(test.distance) if is_defined else f"no {self.measure}",
            f"{cells['p_value']:.2g}",
            line + (" *" if cells["alarm"] else ""),
            *([] if self.joint is None else [value_text(Estimate(cells["joint"], 0.0, cells["joint_error"] ** 2))]),
        )


class SeriesOptions(NamedTuple):
    """How the windows of a series are tested: as the fields of `Changes`."""

    tolerance: float
    against: Against
    by: SameBy
    samples: bool
    level: float
    control: Control


class _Series(NamedTuple):
    """Windows in time order, those that are there."""

    names: list[Any]
    sketches: list[AnySketch]
    before: list[int | None]
    """With which each is compared; None for the first, and where a window has no average."""


def changes(
    releases: Mapping[TableKey, AnySketch | None] | Iterable[AnySketch | None],
    *,
    against: Against = "previous",
    tolerance: float | Literal["typical"] = 0.0,
    by: SameBy = "distance",
    samples: bool = False,
    level: float = 0.05,
    control: Control = "any",
    together: bool = False,
) -> Changes:
    """Find the windows of a series that differ from the one before, with a limit on false alarms in the series.

    `sameness` tests each window, and the p-values are compared with thresholds that allow for their number:

    - ``control="any"``: with probability 1 - ``level`` or more, there is no false alarm in the whole series (Holm
      1979), for any dependence of the tests.
    - ``control="rate"``: on average at most a share ``level`` of the alarms is false (Benjamini and Hochberg 1995), so
      that more changes are found if there are more. Consecutive tests share a release and are positively correlated: by
      0.25 under Gaussian noise and 0.36 under Laplace noise, if nothing changes. The proof does not cover every such
      dependence. In simulations of 10 and 50 windows with 0, 3 and 8 changes, at a level of 5 %, 0.1 to 5.8 % of alarms
      were false, with a standard error of 1.0; with ``control="any"``, 0.5 to 5.4 % of series had a false alarm. With
      three changes in 30 windows, each of a size that a single test finds in 80 % of cases, ``"any"`` found 29 % of the
      changes and ``"rate"`` 35 %; with ten changes, 30 and 54 %.

    Real data are never the same twice, so with ``tolerance=0`` and little noise every window raises an alarm. The
    tolerance ``"typical"`` is the usual distance between windows of the series: the square root of the median of its
    squared distances, plus three robust standard deviations of the roots, less what noise explains of these. It
    requires that most windows have not changed, and is itself an estimate. In simulations of 10 and 30 windows at a
    level of 5 %, 1 to 4 % of series had a false alarm if usual distances are alike or close to the noise, and 6 to 24 %
    if they vary by 30 % (log-normal) and noise is small.

    A window of another length, or a shop that had half of its days, is no change of what is bought. With
    ``by="profile"`` and ``"cosine"`` only the mix is tested, whatever the size of a window; where units are counted,
    ``by="mean"`` tests what a unit adds on average. Sums that are compared by ``"distance"`` raise an alarm in both
    cases.

    Parameters
    ----------
    releases
        Releases of one projection with independent noise, in time order: a mapping from names, such as dates, or a
        sequence, whose names are then 0, 1, …. If a window is missing, leave it out or pass None; the next window is
        compared with the last one before it. Noises may differ.
    against
        Compare each window with the ``"previous"`` one, to find when something changed, or with the ``"first"``, to
        find what has been different since.
    tolerance
        As in `sameness`; or ``"typical"``, for six windows or more.
    by, samples
        As in `sameness`. A window whose count of units is within two standard errors of 0 has no average.
    level
        The level of false alarms, in (0, 1).
    control
        What ``level`` limits: the probability of ``"any"`` false alarm, or the ``"rate"`` of false alarms among alarms.
    together
        Whether the table also has joint estimates of the distances, from the cells of all windows in the order of time,
        as `pairwise` makes them. Tests and alarms do not depend on it. Only for ``by="distance"``.

    Returns
    -------
    Changes
        A table with an estimate, a p-value and a threshold for each window but the first, and the names of the windows
        with an alarm.

    Raises
    ------
    InvalidInputError
        For fewer than two windows (six for ``"typical"``) or an unknown option, and as in `sameness`.
    TypeError, IncompatibleProjectionsError, IncompatibleAgreementsError, DependentNoiseError
        As in `squared_distance`.

    Examples
    --------
    >>> from streamsketch import L1, SJLT
    >>> projection = SJLT(sketch_dim=256, sparsity=4, seed=7)
    >>> sold = {"May": 400, "June": 400, "July": 400, "August": 900, "September": 900}
    >>> releases = {}
    >>> for month, jam in sold.items():
    ...     sketch = projection.sketch()
    ...     sketch.update(["tea", "jam"], [3000, jam])
    ...     releases[month] = sketch.release(epsilon=1, neighbours=L1(1, unit="sale"))
    >>> changes(releases, level=0.001).alarms
    ['August']
    >>> changes(releases, level=0.001, together=True).joint.folds
    2
    >>> half = projection.sketch()
    >>> half.update(["tea", "jam"], [1500, 450])
    >>> releases["half October"] = half.release(epsilon=1, neighbours=L1(1, unit="sale"))
    >>> changes(releases, level=0.001).alarms, changes(releases, level=0.001, by="profile").alarms
    (['August', 'half October'], ['August'])
    """
    if together and by != "distance":
        raise InvalidInputError(f"together=True is for by='distance': joint estimates are of sums, got by={by!r}")
    check_series_options(against, control, level)
    check_same_by(by, samples=samples)
    if tolerance != "typical":
        check_tolerance(tolerance)
    series = _series(releases, against, by)
    pairs = [(series.sketches[i], None if j is None else series.sketches[j]) for i, j in enumerate(series.before)][1:]
    measure = {"distance": squared_distance, "mean": mean_distance}.get(by, distance_of_multiples)
    estimates = [measure(a, b) for a, b in pairs if b is not None] if tolerance == "typical" else []
    allowed = typical_tolerance(estimates) if tolerance == "typical" else float(tolerance)
    tests = tuple(None if b is None else sameness(a, b, allowed, by=by, samples=samples) for a, b in pairs)
    options = SeriesOptions(allowed, against, by, samples, level, control)
    names = [None if j is None else series.names[j] for j in series.before[1:]]
    findings = changes_of(series.names[1:], names, tests, options, secret=is_secret(series.sketches))
    return _with_joint(findings, series) if together else findings


def _with_joint(findings: Changes, series: _Series) -> Changes:
    """Return changes with joint estimates of their distances beside the tested ones."""
    joint = joint_between(block_of(series.sketches), "distance", in_time=True)
    pairs = [(i, j) for i, j in enumerate(series.before) if j is not None]
    table = findings.table.append_column("joint", pa.array([float(joint.value[pair]) for pair in pairs]))
    table = table.append_column("joint_error", pa.array([float(joint.standard_error[pair]) for pair in pairs]))
    metadata = {JOINT_METADATA: json.dumps(joint.model.to_dict()), **(table.schema.metadata or {})}
    return dataclasses.replace(findings, table=table.replace_schema_metadata(metadata), joint=joint.model)


def changes_of(
    windows: list[Any],
    before: list[Any],
    tests: tuple[SameTest | None, ...],
    options: SeriesOptions,
    *,
    secret: bool = False,
) -> Changes:
    """Return what tests of a series show together, with a limit on false alarms over all of them.

    Parameters
    ----------
    windows, before
        The names of the two that each test compares; None where there is nothing to compare with.
    tests
        Of each window; None where there is no average.
    options
        How they were made.
    secret
        Whether a raw sketch took part.
    """
    p_values = np.array([math.nan if test is None else test.p_value for test in tests])
    chance, alarm = controlled(p_values, options.level, options.control)
    table = pa.table(
        {"window": _names(windows), "before": _names(before), **_numbers(tests, chance), "alarm": pa.array(alarm)}
    )
    if secret:
        table = table.replace_schema_metadata(SECRET_METADATA)
    return Changes(table, *options, tests, secret)


def check_series_options(against: str, control: str, level: float) -> None:
    """Raise `InvalidInputError` for unknown options of a series, or a level outside (0, 1)."""
    check_level(level)
    for name, value, choices in (("against", against, get_args(Against)), ("control", control, get_args(Control))):
        if value not in choices:
            first, second = map(repr, choices)
            raise InvalidInputError(f"{name} must be {first} or {second}, got {short(value)}")


def _series(
    releases: Mapping[TableKey, AnySketch | None] | Iterable[AnySketch | None], against: Against, by: SameBy
) -> _Series:
    """Return the windows that are there, and with which each is compared."""
    named = (
        list(releases.items())
        if isinstance(releases, Mapping)
        else list(enumerate(streams_of(releases, "a series has several windows")))
    )
    present = [(name, sketch) for name, sketch in named if sketch is not None]
    if len(present) < 2:
        raise InvalidInputError(sentences.FEW_WINDOWS.format(windows=len(present)))
    names, sketches = [name for name, _ in present], [sketch for _, sketch in present]
    check_comparable(sketches)
    defined = ~few_units(block_of(sketches)) if by == "mean" else np.ones(len(sketches), dtype=np.bool_)
    before: list[int | None] = []
    last: int | None = None
    for place, is_known in enumerate(defined):
        before.append(last if is_known else None)
        if is_known and (against == "previous" or last is None):
            last = place
    return _Series(names, sketches, before)


def typical_tolerance(estimates: list[Estimate]) -> float:
    """Return the distance that the windows of a series usually have, by robust statistics of its estimates."""
    if len(estimates) < _LEAST_TYPICAL:
        raise InvalidInputError(
            f"tolerance='typical' needs at least {_LEAST_TYPICAL} distances, got {len(estimates)}: pass a tolerance as "
            "a number, in data units"
        )
    return typical_distance(
        np.array([estimate.value for estimate in estimates]),
        np.array([estimate.standard_error for estimate in estimates]),
    )


def typical_distance(values: Floats, errors: Floats) -> float:
    """Return the distance that a series usually has, from estimates of squared distances and standard errors: (n,)."""
    sizes = np.sqrt(np.maximum(values, 0.0))
    deviation = _TO_DEVIATION * float(np.median(np.abs(sizes - np.median(sizes))))
    stated = float(np.median(errors / (2 * np.maximum(sizes, np.sqrt(errors)) + _TINY)))  # of a root
    unexplained = math.sqrt(max(deviation**2 - stated**2, 0.0))
    return math.sqrt(max(float(np.median(values)), 0.0)) + _USUAL * unexplained


def controlled(p_values: Floats, level: float, control: Control) -> tuple[float, Any]:
    """Return the p-value up to which there is an alarm, and where there is one: Holm's, or Benjamini and Hochberg's."""
    ordered = np.sort(p_values[~np.isnan(p_values)])
    count = ordered.size
    ranks = np.arange(1, count + 1)
    if control == "any":
        below = ordered <= level / (count + 1 - ranks)
        alarms = count if below.all() else int(np.argmin(below))  # up to the first that is not
        line = level / max(count - alarms, 1)
    else:
        below = ordered <= level * ranks / count
        alarms = int(np.flatnonzero(below)[-1]) + 1 if below.any() else 0  # up to the last that is
        line = level * min(alarms + 1, count) / max(count, 1)
    largest = ordered[alarms - 1] if alarms else -1.0
    with np.errstate(invalid="ignore"):
        return line, p_values <= largest


def _numbers(tests: Iterable[SameTest | None], chance: float) -> "dict[str, pa.Array]":
    """Return the columns of numbers; null where there is no test."""
    rows: list[tuple[float | None, ...]] = []
    for test in tests:
        if test is None:
            rows.append((None,) * 6)
            continue
        estimate: Estimate = test.distance
        if math.isnan(estimate.value):
            rows.append((*(None,) * 4, test.p_value, None))
            continue
        low, high = estimate.interval(_CONFIDENCE)
        line = test.line(chance)
        shown = line if math.isfinite(line) else None  # no estimate raises an alarm
        rows.append((estimate.value, estimate.standard_error, low, high, test.p_value, shown))
    names = ("estimate", "error", "low", "high", "p_value", "line")
    return {name: pa.array([row[place] for row in rows], pa.float64()) for place, name in enumerate(names)}


def _names(names: list[Any]) -> "pa.Array":
    """Return names as a column: of their type if it is one that Arrow has, else as text."""
    try:
        return pa.array(names)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        return pa.array([None if name is None else str(name) for name in names])
