"""What the fields of an agreement must have in common: columns, counts, terms and schedules that fit each other."""

from collections.abc import Sequence
from typing import Any

from streamsketch.accounting.sensitivity import check_mechanism
from streamsketch.agreement.columns import Column
from streamsketch.agreement.terms import Selected, Terms, keys_text
from streamsketch.agreement.windows import Windows
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.counting import Counting
from streamsketch.privacy.key_selection import key_threshold
from streamsketch.privacy.neighbours import Neighbours
from streamsketch.privacy.schedule import Schedule
from streamsketch.projections.base import Projection


def check_types(columns: Sequence[Column], value: str | None) -> None:
    """Raise `InvalidInputError` if a column has two types, or the column of values is no column of integers."""
    agreed: dict[str, str] = {}
    for column in columns:
        if agreed.setdefault(column.name, column.type) != column.type:
            raise InvalidInputError(
                f"the column {column.name} is of type {agreed[column.name]} in one place and {column.type} in "
                f"another; give it one type"
            )
    if value is not None and agreed.get(value, "integer") != "integer":
        raise InvalidInputError(f"the column {value} holds values, so elsewhere it can only be an integer")


def check_counting(counting: Any, unit: Column | None, neighbours: Neighbours | None, projection: Projection) -> None:
    """Raise `InvalidInputError` or `TypeError` if units cannot be counted as ``counting`` says."""
    if counting is None:
        return
    if not isinstance(counting, Counting):
        raise TypeError(f"counting must be a Counting, got a {type(counting).__name__}")
    if unit is None or neighbours is None:
        missing = "column of units (unit=…)" if unit is None else "bound on what one adds (neighbours=…)"
        raise InvalidInputError(f"counting units needs the {missing}: pass it, or leave out counting")
    counting.check_for(neighbours)
    if counting.slack and not projection.enumerated_entries("sensitivities"):
        counting.check_free(projection)  # of other maps when they are released


def check_terms(
    terms: Any,
    *,
    neighbours: Neighbours | None,
    unit: Column | None,
    key: Column | None,
    keys: Any,
    windows_alone: bool,
) -> None:
    """Raise `InvalidInputError` or `TypeError` if the terms protect nobody, or which keys have data would show.

    Parameters
    ----------
    terms, neighbours, unit, key, keys
        Of the agreement.
    windows_alone
        Whether windows are keys, and which of them are published is not stated.
    """
    if terms is None:
        if isinstance(keys, Selected):
            raise InvalidInputError("the choice of keys is a share of a budget; also state it (epsilon and delta)")
        return
    if not isinstance(terms, Terms):
        raise TypeError(f"the terms of an agreement are Terms(epsilon=…), got a {type(terms).__name__}")
    if neighbours is None:
        raise InvalidInputError(
            f"a release with {terms} protects somebody: also pass unit, the column that names them, or "
            "neighbours, how much one of them may contribute"
        )
    if key is not None and keys is None:
        raise InvalidInputError(
            "which keys have data is private: pass keys, a list chosen without looking at the data; 'public', if "
            "they are no secret; or Selected(epsilon=…, delta=…), a private choice"
        )
    if windows_alone:
        raise InvalidInputError(
            "windows are keys, and which of them have data is private: state the first and the last of the windows"
            + (", or pass keys='public'" if key is not None else "")
        )
    if terms.is_noise:
        check_mechanism(neighbours, terms.budget, terms.mechanism)
    if isinstance(keys, Selected):
        terms.less(keys)
        key_threshold(keys.budget, neighbours.max_keys)
        if unit is None or not neighbours.counted:
            raise InvalidInputError(
                f"keys are chosen by the number of their units, which is known where units are bounded by L1 or "
                f"SketchL2; got {neighbours!r} and {'a' if unit else 'no'} unit column. List the keys"
            )


def check_schedule(
    schedule: Any, *, windows: Windows | None, terms: Terms | None, key: Column | None, keys: Any
) -> None:
    """Raise `InvalidInputError` or `TypeError` if windows cannot be published as the schedule says."""
    if schedule is None:
        return
    if not isinstance(schedule, Schedule):
        raise TypeError(f"schedule must be a streamsketch.continual.Schedule, got a {type(schedule).__name__}")
    if windows is None or windows.first is None or windows.are != "releases":
        raise InvalidInputError(
            "a schedule is of windows that are releases, from a first one on: also pass windows=Windows(time=…, "
            f"every=…, first=…), got {'none' if windows is None else windows}"
        )
    if windows.period is not None:
        raise InvalidInputError(
            "a schedule already says in how many windows a unit may be; leave out period and max_windows of the windows"
        )
    if windows.numbers is not None and len(windows.numbers) > schedule.horizon:
        raise InvalidInputError(
            f"the schedule has {schedule.horizon} windows, and from {windows.first} to {windows.last} there are "
            f"{len(windows.numbers)}: leave out last, or set a larger horizon"
        )
    if terms is None:
        raise InvalidInputError("a schedule divides a budget among windows; also state it (epsilon and delta)")
    if not terms.is_noise:
        raise InvalidInputError(
            f"a schedule publishes sums of windows with noise, and the agreement has {terms}: leave out the "
            "schedule, or publish with noise"
        )
    if key is not None and not isinstance(keys, tuple):
        raise InvalidInputError(
            f"all windows of a schedule have the same keys, and the agreement has {keys_text(keys)}: list the keys"
        )
