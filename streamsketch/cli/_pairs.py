"""Pairs of sketches or of published signs in `compare` and `nearest`: their selection, measure and display."""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np

import streamsketch as ss
from streamsketch.cli._options import option
from streamsketch.cli._reading import hold_signs, load_signs, load_sketches, name_in_errors
from streamsketch.cli._saying import say
from streamsketch.cli._showing import (
    UNDEFINED,
    UNKNOWN,
    estimate_columns,
    estimate_fields,
    interval_name,
    interval_of,
    join_names,
    selected_fields,
)
from streamsketch.core.documents import Json
from streamsketch.estimation.blocks import AnySketch, block_of, check_comparable, is_secret
from streamsketch.estimation.estimate import interval_text, value_text
from streamsketch.estimation.estimate_arrays import JOINT_BY, Estimates
from streamsketch.estimation.measures import MEASURES, By
from streamsketch.report.choice import measure_of, order_of, quantity_of
from streamsketch.report.series import in_time_order

if TYPE_CHECKING:
    from streamsketch.signs.sketch import Signs

_BY_DEFAULT = "By default cosine, if it can distinguish most streams, otherwise distance."
BY_HELP = " ".join(
    ["Measure to compare by.", *(f"{name}: {measure.help}" for name, measure in MEASURES.items()), _BY_DEFAULT]
)
_FIRST, _LAST = ", ".join([*MEASURES][:-1]), [*MEASURES][-1]
BY_NAMES = f"Measure to compare by: {_FIRST} or {_LAST}, as in compare. {_BY_DEFAULT}"
ByOption = Annotated[By | None, option("Estimates", "MEASURE", BY_HELP, "--by")]
Only = Annotated[
    list[str] | None,
    option(
        "Input",
        "PATTERN",
        "Take only sketches whose file or key matches this pattern, such as 'north-*'. Repeatable.",
        "--only",
    ),
]

Norms = Annotated[
    list[str] | None,
    option(
        "Estimates",
        "[NAME=]NORM",
        "Euclidean norm of the vectors whose signs were published, if it is public. NAME=NORM gives it for one "
        "release. Angles need it if flips depend on the cells.",
        "--norm",
    ),
]

Joint = Annotated[
    bool,
    option(
        "Estimates",
        "",
        "Estimate all pairs together, from the cells of all sketches: with less error where noise dominates. Intervals "
        "are those of each pair alone.",
        "--joint",
    ),
]

Pair: TypeAlias = tuple[int, int]
"""The places of two names."""

Held = TypeVar("Held")
Result = TypeVar("Result")

WITHOUT_NORMS = (
    "These signs were flipped with probabilities that depend on the cells, so angles need the vectors' Euclidean "
    "norms: give --norm if they are public. Hamming distances need none."
)
_NOT_ALIKE = (
    "These signs were not all published in one way, or not for vectors of one norm, so the order of their Hamming "
    "distances need not be that of the angles."
)
_DEGREES = 180 / math.pi


class Pairs(Protocol):
    """All pairs of some sketches or published signs: a command shows both kinds in the same way.

    ``candidates``, where it is given, is how many others each was selected from: intervals allow for that.
    """

    names: list[str]

    def nearest_pairs(self, top: int | None) -> list[Pair]:
        """Return pairs, nearest first, at most ``top`` of them."""

    def nearest_to(self, place: int, top: int) -> list[Pair]:
        """Return the pairs of one with its ``top`` nearest others, nearest first."""

    def fields(self, pair: Pair, confidence: float, candidates: int | None = None) -> Json:
        """Return the estimates as JSON fields."""

    def columns(self, pairs: Sequence[Pair], confidence: float, candidates: int | None = None) -> dict[str, list[str]]:
        """Return the same as columns of a table for people."""

    def title(self, pairs: Sequence[Pair]) -> str | None:
        """Return the heading of such a table, if any."""

    def say_notes(self, pairs: Sequence[Pair]) -> None:
        """Print which values pairs lack, and why."""


def load_pairs(
    files: list[Path],
    command: str,
    *,
    by: By | None,
    only: list[str] | None,
    norm: list[str] | None,
    signer: list[Path] | None,
    raw: bool | None = None,
    joint: bool = False,
) -> Pairs:
    """Return all pairs of the releases in files; parameters are the options of a command.

    Without ``by``, sketches are compared by the measure that the report chooses.

    Raises
    ------
    InvalidInputError
        For options that do not apply to the content of the files, and as `load_sketches` and `select_names`.
    IncompatibleProjectionsError, DependentNoiseError, SignatureError
        As `load_sketches`.
    """
    if hold_signs(files):
        if by not in (None, "distance"):
            raise ss.InvalidInputError(
                f"--by {by} is for sketches; published signs are compared by how many differ, beside which their "
                f"cosine is shown"
            )
        return SignPairs(select_names(load_signs(files, least=2, command=command, signer=signer), only, command), norm)
    if joint:
        check_joint(by)
    if norm:
        raise ss.InvalidInputError("--norm is for published signs; these are sketches, which hold their norms")
    sketches = load_sketches(files, least=2, command=command, raw=raw, signer=signer)
    return SketchPairs(select_names(sketches, only, command), by, joint=joint)


def check_joint(by: By | None) -> None:
    """Raise `InvalidInputError` for a measure that has no joint estimates."""
    if by is not None and by not in JOINT_BY:
        raise ss.InvalidInputError(f"--joint is not for --by {by}: leave out one of them")


class SketchPairs:
    """Pairs of sketches, by the requested measure or the report's choice, and by a second measure; see `Pairs`.

    If ``joint``, both are estimated for all pairs together: in the order of time, if all are windows of one stream.
    """

    def __init__(self, sketches: Mapping[str, AnySketch], by: By | None, *, joint: bool = False) -> None:
        self.names = in_time_order(sketches) if joint else list(sketches)
        self.sketches = {name: sketches[name] for name in self.names}
        self._joint = joint
        self._asked = by is not None
        self._by: By = _named(sketches, measure_of) if by is None else by
        self._beside: By = "cosine" if self._by == "distance" else "distance"

    @functools.cached_property
    def _estimates(self) -> Estimates:
        return self._compare_all(self._by)

    def _compare_all(self, by: By) -> Estimates:
        order = order_of(self.names) if self._joint else None
        return _named(self.sketches, lambda every: ss.pairwise(every, by=by, together=self._joint, order=order))

    def _title(self, by: By) -> str:
        return quantity_of(by, joint=self._joint)

    @functools.cached_property
    def _estimates_beside(self) -> Estimates | None:
        try:
            return self._compare_all(self._beside)
        except ss.InvalidInputError:  # noise before the map, which leaves no cosines
            return None

    @functools.cached_property
    def _lost(self) -> np.ndarray:
        """Which sketches lack what the measure needs, or are below the noise floor of as many: (n,)."""
        block = block_of(list(self.sketches.values()))
        return MEASURES[self._by].floor.lacking(block, len(self.names))

    @functools.cached_property
    def _nearness(self) -> np.ndarray:
        """Numbers that ascend from the nearest pair to the farthest: (n, n), infinite if undefined.

        Cosines of sketches below the noise floor, for example, are not defined, whatever the noise made of them.
        """
        value = self._estimates.value
        lost = self._lost & self._lacks(self._by)
        unknown = np.isnan(value) | lost[:, None] | lost
        return np.where(unknown, np.inf, MEASURES[self._by].sign * value)

    def _lacks(self, by: By) -> bool:
        """Return whether a sketch without what the measure needs has no estimate: joint ones are of all."""
        return MEASURES[by].needs is not None and not self._joint

    def _order(self, nearness: np.ndarray, below: np.ndarray) -> np.ndarray:
        """Return places by nearness, those of noise alone last."""
        return np.lexsort((nearness, below))

    def nearest_pairs(self, top: int | None) -> list[Pair]:
        """Return pairs, nearest first; pairs with a sketch below the noise floor, or without an estimate, come last."""
        rows, columns = np.triu_indices(len(self.names), 1)
        order = self._order(self._nearness[rows, columns], self._lost[rows] | self._lost[columns])[:top]
        return list(zip(rows[order].tolist(), columns[order].tolist(), strict=True))

    def is_defined(self, pair: Pair) -> bool:
        """Return whether a pair has an estimate."""
        return bool(self._nearness[pair] < np.inf)

    def nearest_to(self, place: int, top: int) -> list[Pair]:
        """Return the pairs of one sketch that have an estimate, nearest first; see `nearest_pairs`."""
        nearness = self._nearness[place]
        order = [j for j in self._order(nearness, self._lost).tolist() if j != place and nearness[j] < np.inf]
        return [(place, j) for j in order[:top]]

    def fields(self, pair: Pair, confidence: float, candidates: int | None = None) -> Json:
        """Return the estimate with its interval; and the other measure unless the pair was selected."""
        name, beside = MEASURES[self._by].column, MEASURES[self._beside].column
        estimate = self._estimate(pair)
        if estimate is not None and candidates is not None:
            return selected_fields(estimate, confidence, candidates, name)
        other = self._estimate_beside(pair)
        short = None if other is None else {"value": other.value, "standard_error": other.standard_error}
        return ({name: None} if estimate is None else estimate_fields(estimate, confidence, name)) | {beside: short}

    def columns(self, pairs: Sequence[Pair], confidence: float, candidates: int | None = None) -> dict[str, list[str]]:
        """Return the fields as columns."""
        estimates = [self._estimate(pair) for pair in pairs]
        columns = estimate_columns(estimates, confidence, self._title(self._by), candidates=candidates)
        if candidates is None:
            others = [self._estimate_beside(pair) for pair in pairs]
            columns[self._title(self._beside)] = [
                UNDEFINED if estimate is None else value_text(estimate) for estimate in others
            ]
        return columns

    def _estimate(self, pair: Pair) -> ss.estimation.Estimate | None:
        return _estimate_at(self._estimates, pair) if self.is_defined(pair) else None

    def _estimate_beside(self, pair: Pair) -> ss.estimation.Estimate | None:
        of_noise = self._lacks(self._beside) and self._lost[list(pair)].any()
        return None if of_noise else _estimate_at(self._estimates_beside, pair)

    def title(self, pairs: Sequence[Pair]) -> None:
        """Return None: the columns say it."""

    def say_notes(self, pairs: Sequence[Pair]) -> None:
        """Print whether anything is secret, and which sketches lack what the measure needs."""
        del pairs
        if is_secret(self.sketches.values()):
            say("warning: raw sketches took part: what is printed here is as secret as they are.")
        if not self._asked and self._by != "distance":
            say(
                "Compared by cosine, which tells most of these streams apart. --by distance compares squared distances."
            )
        if self._joint:
            self._say_model()
        lost = [name for name, without in zip(self.names, self._lost, strict=True) if without]
        if not lost:
            return
        measure = MEASURES[self._by]
        why = f"the {measure.floor.number} are {measure.floor.level}. These are empty, or too small for their noise"
        who = join_names(lost)
        if self._joint:
            say(f"Listed last, as {why}, so that their {measure.titles} are what the other streams suggest: {who}.")
        elif measure.needs is None:
            say(
                f"Listed last, as such {measure.titles} show only noise and the size of the other stream, and {why}: "
                f"{who}."
            )
        else:
            say(f"Without {measure.titles}, as {why}: {who}.")

    def _say_model(self) -> None:
        from streamsketch.estimation.joint_estimate import JointEstimates  # noqa: PLC0415 - which pairs alone do not need

        if isinstance(self._estimates, JointEstimates):
            say(f"{str(self._estimates.model).capitalize()}. Intervals are those of each pair alone.")


def _estimate_at(estimates: Estimates | None, pair: Pair) -> ss.estimation.Estimate | None:
    """Return one comparison, or None if it is undefined."""
    return None if estimates is None or np.isnan(estimates.value[pair]) else estimates[pair]


def _named(sketches: Mapping[str, AnySketch], compute: Callable[[list[AnySketch]], Result]) -> Result:
    """Return the result of a computation on sketches; errors name the two that cannot be compared."""
    try:
        return compute(list(sketches.values()))
    except ss.StreamsketchError:
        for first, second in combinations(sketches, 2):
            with name_in_errors(first, second):
                check_comparable([sketches[first], sketches[second]])
        raise


class _SignPair(NamedTuple):
    """How two releases of signs differ."""

    differing: int
    angle: ss.estimation.Estimate | None
    """In degrees; None if a norm is missing."""
    cosine: ss.estimation.Estimate | None
    """None if a norm is missing, or the signs are mostly flips."""


class SignPairs:
    """Pairs of published signs: how many differ, and angles if the necessary norms are known; see `Pairs`.

    Parameters
    ----------
    releases
        By name.
    norms
        The values of ``--norm``.

    Raises
    ------
    InvalidInputError
        For norms that are no numbers, or of unknown names.
    """

    def __init__(self, releases: "Mapping[str, Signs]", norms: list[str] | None) -> None:
        self.names = list(releases)
        self._releases = list(releases.values())
        self._norms = _norms_of(norms or [], self.names)
        self._cells = self._releases[0].projection.sketch_dim
        self._comparisons: dict[Pair, _SignPair] = {}
        self._by_angle = False

    def _pair(self, pair: Pair) -> _SignPair:
        from streamsketch.signs.angles import needs_norms  # noqa: PLC0415 - pairs of sketches load no mechanism of signs

        if pair not in self._comparisons:
            x, y = (self._releases[place] for place in pair)
            first, second = (self.names[place] for place in pair)
            norms = self._norms.get(first), self._norms.get(second)
            angle = cosine = None
            with name_in_errors(first, second):
                differing = ss.signs.hamming_distance(x, y)
                if None not in norms or not (needs_norms(x) or needs_norms(y)):
                    angle = ss.signs.angle(x, y, norm_x=norms[0], norm_y=norms[1]).scaled(_DEGREES)
                    cosine = _cosine(x, y, norms)
            self._comparisons[pair] = _SignPair(differing, angle, cosine)
        return self._comparisons[pair]

    def nearest_pairs(self, top: int | None) -> list[Pair]:
        """Return pairs, nearest first: by angle, or by Hamming distance if not all have one."""
        pairs = list(combinations(range(len(self.names)), 2))
        angles = {pair: angle.value for pair in pairs if (angle := self._pair(pair).angle) is not None}
        self._by_angle = len(angles) == len(pairs)
        return sorted(pairs, key=lambda pair: angles[pair] if self._by_angle else self._pair(pair).differing)[:top]

    def nearest_to(self, place: int, top: int) -> list[Pair]:
        """Return the pairs of one release by Hamming distance, nearest first."""
        others = [other for other in range(len(self.names)) if other != place]
        collection = [self._releases[other] for other in others]
        neighbours = ss.signs.nearest([self._releases[place]], collection, min(top, len(others)))
        return [(place, others[at]) for at in neighbours.places[0]]

    def fields(self, pair: Pair, confidence: float, candidates: int | None = None) -> Json:
        """Return how many signs differ, and the angle and the cosine with their intervals."""
        comparison = self._pair(pair)
        angle, cosine = (
            None if estimate is None else selected_fields(estimate, confidence, candidates, "value")
            for estimate in (comparison.angle, comparison.cosine)
        )
        return {
            "hamming_distance": comparison.differing,
            "sketch_dim": self._cells,
            "angle_degrees": angle,
            "cosine": cosine,
        }

    def columns(self, pairs: Sequence[Pair], confidence: float, candidates: int | None = None) -> dict[str, list[str]]:
        """Return the fields as columns that are as narrow as possible."""
        comparisons = [self._pair(pair) for pair in pairs]
        columns = {"differ": [f"{comparison.differing:,}" for comparison in comparisons]}
        if all(comparison.angle is None for comparison in comparisons):
            return columns
        return columns | {
            "angle": [UNKNOWN if comparison.angle is None else str(comparison.angle) for comparison in comparisons],
            interval_name(confidence): [
                UNKNOWN
                if comparison.angle is None
                else interval_text(comparison.angle, interval_of(comparison.angle, confidence, candidates))
                for comparison in comparisons
            ],
            "cosine": [UNKNOWN if comparison.cosine is None else str(comparison.cosine) for comparison in comparisons],
        }

    def title(self, pairs: Sequence[Pair]) -> str:
        """Return how many signs there are, and the unit of angles."""
        degrees = "" if all(self._pair(pair).angle is None for pair in pairs) else "; angles in degrees"
        return f"signs that differ, of {self._cells:,}{degrees}"

    def say_notes(self, pairs: Sequence[Pair]) -> None:
        """Print why angles are missing, and if the order by Hamming distance may differ from the order by angle."""
        if any(self._pair(pair).angle is None for pair in pairs):
            say(WITHOUT_NORMS)
        explanations = {release.explain() for release in self._releases}
        if not self._by_angle and (len(explanations) > 1 or len(set(self._norms.values())) > 1):
            say(_NOT_ALIKE)


def _cosine(x: "Signs", y: "Signs", norms: tuple[float | None, float | None]) -> ss.estimation.Estimate | None:
    try:
        return ss.signs.cosine(x, y, norm_x=norms[0], norm_y=norms[1])
    except ss.InvalidInputError:
        return None  # signs are below the noise floor; the norms were good enough for the angle


def _norms_of(texts: list[str], names: list[str]) -> dict[str, float]:
    for_all: dict[str, float] = {}
    for_one: dict[str, float] = {}
    for text in texts:
        name, named, number = text.rpartition("=")
        try:
            norm = float(number)
        except ValueError:
            raise ss.InvalidInputError(f"--norm takes a number, or NAME=number, got {text}") from None
        if named and name not in names:
            raise ss.InvalidInputError(f"--norm names {name}, and there are {join_names(names)}")
        if not named and for_all:
            raise ss.InvalidInputError("--norm was given twice for all; give NAME=NORM where norms differ")
        if named:
            for_one[name] = norm
        else:
            for_all = dict.fromkeys(names, norm)
    return for_all | for_one


def select_names(sketches: dict[str, Held], only: list[str] | None, command: str, *, least: int = 2) -> dict[str, Held]:
    """Return the sketches whose names match one of the patterns; all, if there are none.

    Raises
    ------
    InvalidInputError
        If fewer than ``least`` match.
    """
    if not only:
        return sketches
    kept = {name: sketch for name, sketch in sketches.items() if any(fnmatchcase(name, pattern) for pattern in only)}
    if len(kept) < least:
        raise ss.InvalidInputError(
            f"--only {' '.join(only)} leaves {join_names(list(kept)) or 'no sketch'}, and {command} needs at least "
            f"{least}. There are {join_names(list(sketches))}"
        )
    return kept


def check_top(top: int | None) -> None:
    """Raise `InvalidInputError` for less than one."""
    if top is not None and top < 1:
        raise ss.InvalidInputError(f"--top must be at least 1, got {top}")
