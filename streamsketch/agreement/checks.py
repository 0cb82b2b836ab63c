"""What the fields of an agreement must have in common: columns, counts, terms and schedules that fit each other."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from streamsketch.accounting.sensitivity import check_mechanism
from streamsketch.agreement.agreed_features import AgreedFeatures
from streamsketch.agreement.casts import cast_keys
from streamsketch.agreement.columns import KEY_TYPES, Column
from streamsketch.agreement.grids import check_fine
from streamsketch.agreement.terms import Selected, Terms, keys_text
from streamsketch.agreement.text import TextRule
from streamsketch.agreement.windows import Windows
from streamsketch.core.numbers import short
from streamsketch.core.text import check_text
from streamsketch.core.wrong import FEATURES, wrong_type
from streamsketch.data.canonical import HASHED_DIM
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.counting import Counting
from streamsketch.privacy.key_selection import key_threshold
from streamsketch.privacy.neighbours import Clip, Neighbours, check_neighbours
from streamsketch.privacy.schedule import Schedule
from streamsketch.projections.base import Projection

_LARGEST = (1 << 63) - 1  # of a bound's numerator and denominator, as the exchange format carries them


def check_features(features: Any, projection: Projection | None, *, index: Any, value: str | None) -> None:
    """Raise `InvalidInputError` or `TypeError` if features have other fields beside them that exclude them."""
    if not isinstance(features, AgreedFeatures):
        raise wrong_type("features must be Features", features, FEATURES)
    if projection not in (None, features.projection):
        raise InvalidInputError(
            f"features have the projection {features.projection!r}: leave out projection, or pass this one"
        )
    if index not in (None, (), []) or value is not None:
        raise InvalidInputError("an agreement has either features, or an index and values: leave out one of the two")


def check_columns(
    columns: Sequence[Column], *, features: AgreedFeatures | None, key: Column | None, value: str | None
) -> None:
    """Raise `InvalidInputError` if a column cannot be what it is named for."""
    if key is not None and key.type not in KEY_TYPES:
        raise InvalidInputError(f"keys must be of type {', '.join(KEY_TYPES)}, and {key.name} is of type {key.type}")
    if value is not None:
        check_text("the name of the value column", value)
    if features is not None and (twice := [column for column in columns if column.name in features.columns]):
        raise InvalidInputError(
            f"the column {twice[0].name} is a feature, and so cannot be the key or the unit as well, nor order rows"
        )


def check_index(index: Sequence[Column], projection: Projection) -> None:
    """Raise `InvalidInputError` if an index must be hashed, and the projection does not hash."""
    if projection.dim != HASHED_DIM and not (len(index) == 1 and index[0].is_whole):
        raise InvalidInputError(
            f"a projection of dim {projection.dim} takes one index column of integers, got "
            f"{', '.join(map(str, index))}. To hash them, use dim=2**60, the default"
        )


def spelling_of(text: Any, missing: str, columns: Sequence[Column], features: AgreedFeatures | None) -> TextRule | None:
    """Return the rule by which text is spelt: that of new agreements for ``"new"``, None if no column holds text.

    Raises
    ------
    InvalidInputError, TypeError
        For steps that are no rule; and for categories of features that the rule would spell otherwise.
    """
    if text == "new":
        text = None if missing == "keep" else TextRule()
    if isinstance(text, str):
        text = TextRule.parse(text)
    if text is not None and not isinstance(text, TextRule):
        raise TypeError(f"text must be steps such as 'NFC, trim', or None, got a {type(text).__name__}")
    categories = [] if features is None else features.texts
    if text is None or (not categories and all(column.type != "text" for column in columns)):
        return None
    if features is not None:
        features.check_spelling(text)
    return text


def clip_among(clip: Any, features: AgreedFeatures | None, neighbours: Neighbours | None) -> Clip:
    """Return how units are clipped: as stated, else the first way that the neighbours allow (`Agreement.clip_of`)."""
    if clip == "average" and features is None:
        raise InvalidInputError(
            "clip='average' divides the features of a unit by the number of its rows, but the agreement has no "
            "features: use clip='equal', with which each unit counts the same"
        )
    stated: Clip | None = clip
    if neighbours is None:
        return stated or "scale"
    if stated is None:
        return next(iter(neighbours.clips), "scale")
    neighbours.check_clip(stated)
    return stated


def check_bound(neighbours: Any, clip: Any, projection: Projection, features: AgreedFeatures | None) -> None:
    """Raise `InvalidInputError` or `TypeError` for a bound that the grid or the exchange format cannot hold."""
    if neighbours is None:
        if clip is not None:
            raise InvalidInputError(f"clip={short(clip)} needs a bound to clip to; also pass neighbours")
        return
    check_neighbours(neighbours)
    if clip is not None:
        clip_among(clip, features, neighbours)
    bound = Fraction(neighbours.bound)
    if max(bound.numerator, bound.denominator) > _LARGEST:
        raise InvalidInputError("the bound of an agreement must be a fraction of 63-bit integers")
    check_fine(projection, neighbours)
    neighbours.check_steps(projection)


def check_windows(windows: Any, key: Column | None) -> None:
    """Raise `InvalidInputError` or `TypeError` for windows that keys of this type cannot be named with."""
    if windows is None:
        return
    if not isinstance(windows, Windows):
        raise TypeError(f"windows must be streamsketch.Windows(…), got a {type(windows).__name__}")
    if windows.are == "keys" and key is not None and key.type == "bytes":
        raise InvalidInputError(
            f"with windows as keys, keys become text, and {key.name} is of type bytes: give it the type text"
        )


def listed_keys(keys: Any, key: Column | None, rule: TextRule | None) -> Any:
    """Return which keys are published: a list in order, as values of the key column's type and spelt by its rule.

    Raises
    ------
    InvalidInputError
        For an empty list, keys of another type, or without a key column.
    """
    if key is None:
        raise InvalidInputError(
            f"the agreement has no key column, so there is a single stream: leave out keys={short(keys)}, or pass the "
            "key column"
        )
    if isinstance(keys, Selected) or keys == "public":
        return keys
    listed = sorted(set(cast_keys(keys, "keys", key, rule)))
    if not listed:
        raise InvalidInputError("keys is an empty list; list at least one key, or pass keys='public'")
    return tuple(listed)


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
