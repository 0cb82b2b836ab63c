"""What a caller asserts and the software cannot check, as conditions of a guarantee or of bounds.

Every argument that asserts something passes `with_conditions`, so that no guarantee rests on an assertion that it does
not state: ``populations="disjoint"``, ``disjoint_units=True``, ``keys_are_public=True``, tables made of releases, and
clocks that follow events. ``assert_bounds=True`` and rows that nothing clipped are stated by `Guarantee.basis` instead.

Parameters of a release, such as ε, ``public_keys`` and ``public_windows``, assert nothing: which keys and windows are
released then follows from them alone. Like all parameters, they must be chosen without looking at the data.
"""

import dataclasses
from typing import Any, TypeVar

from streamsketch.core import sentences
from streamsketch.core.text import MAX_TEXT

StatedT = TypeVar("StatedT")
"""A dataclass with conditions: `Guarantee` or `Bounds`."""


def with_conditions(stated: StatedT, *conditions: str) -> StatedT:
    """Return a guarantee, or bounds, that hold only under these conditions, too.

    Parameters
    ----------
    stated
        A `Guarantee` or `Bounds`.
    conditions
        What is asserted, one sentence each, without a capital and a full stop.

    Raises
    ------
    InvalidInputError
        If a condition cannot be printed, or there are more than 64.

    Examples
    --------
    >>> from streamsketch import L1
    >>> from streamsketch.privacy.bounds import Bounds
    >>> with_conditions(Bounds(L1(3, unit="customer")), apart_in_streams("customer")).conditions
    ('no customer is in two of the streams',)
    """
    if not conditions:
        return stated
    value: Any = stated
    copy: StatedT = dataclasses.replace(value, conditions=tuple(sorted({*value.conditions, *conditions})))
    return copy


def conditions_of_keys(*, keys_are_public: bool, in_windows: bool = False) -> tuple[str, ...]:
    """Return the condition of ``keys_are_public=True``, for `with_conditions`; none for keys that are listed.

    Parameters
    ----------
    keys_are_public
        Whether the keys that have data are published, and no others.
    in_windows
        Whether each window publishes the keys that have data in it.
    """
    if not keys_are_public:
        return ()
    windows = ", and so are the windows in which each has data" if in_windows else ""
    return (f"{sentences.PUBLIC_KEYS}{windows}",)


def apart_in_streams(unit: str) -> str:
    """Return the condition of ``populations="disjoint"``."""
    return _of(unit, sentences.APART_IN_STREAMS)


def apart_in_merge(unit: str) -> str:
    """Return the condition of ``disjoint_units=True``."""
    return _of(unit, "is in two of the parts that were merged")


def apart_in_tables(unit: str) -> str:
    """Return the condition under which a bound on each of several data sets is one on a table of their releases."""
    return _of(unit, "is in two of the data sets whose releases are in the table")


def _of(unit: str, what: str) -> str:
    """Return a condition of a unit; of "privacy unit" where its name would make a text too long to be written."""
    text = f"no {unit} {what}"
    return text if len(text) <= MAX_TEXT else f"no privacy unit {what}"
