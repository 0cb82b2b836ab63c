"""Terms of an agreement: the budget of a release, what spends it, and which keys are published."""

import dataclasses
import decimal
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Literal, TypeAlias

from streamsketch.core.documents import Json, TableKey
from streamsketch.core.numbers import short
from streamsketch.core.text import check_text
from streamsketch.errors import InvalidInputError
from streamsketch.privacy import calibration
from streamsketch.privacy.budget import Budget
from streamsketch.privacy.calibration import mechanism_names

Spent: TypeAlias = Decimal | float | str
"""A part of a budget: the decimal that is written, as a number or as text."""

_DIGITS = 15  # of a decimal that a double keeps


def decimal_of(value: Any, what: str) -> Decimal:
    """Return the decimal that was written: of a float the shortest one that reads as it.

    Raises
    ------
    InvalidInputError
        For anything else than a finite number, or text of one; for more than 15 significant digits.
    """
    written = repr(float(value)) if isinstance(value, float) else value
    if isinstance(written, bool) or not isinstance(written, int | str | Decimal):
        raise InvalidInputError(f"{what} is a decimal number, such as '0.1', got {short(value)}")
    try:
        number = Decimal(written).normalize()
    except decimal.InvalidOperation:
        raise InvalidInputError(f"{what} is a decimal number, such as '0.1', got {short(value)}") from None
    if not number.is_finite() or len(number.as_tuple().digits) > _DIGITS:
        raise InvalidInputError(
            f"{what} is a finite decimal of at most {_DIGITS} significant digits, got {short(value)}"
        )
    return number


def decimal_text(number: Decimal) -> str:
    """Return a decimal as text without an exponent: "1", "0.000001"."""
    return format(number, "f")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Selected:
    """Keys that are chosen privately, by a noisy count of their units, at a share of the budget.

    Parameters
    ----------
    epsilon, delta
        The share: decimals, in nats and as a probability. δ must be positive, because a key with a single unit may be
        published (`privacy.key_threshold`).

    Examples
    --------
    >>> Selected(epsilon=0.1, delta=1e-7)
    Selected(epsilon=0.1, delta=0.0000001)
    """

    epsilon: Spent
    delta: Spent

    def __post_init__(self) -> None:
        for name in ("epsilon", "delta"):
            object.__setattr__(self, name, decimal_of(getattr(self, name), f"the {name} of a choice of keys"))
        if self.budget.delta == 0:
            raise InvalidInputError(
                "keys cannot be selected with delta = 0, because a key that only one unit has may be published: give "
                "a delta far below 1 / number of units"
            )

    @property
    def budget(self) -> Budget:
        """The share as a budget."""
        return Budget(float(self.epsilon), float(self.delta))

    def __repr__(self) -> str:
        return f"Selected(epsilon={decimal_text(self.epsilon)}, delta={decimal_text(self.delta)})"  # type: ignore[arg-type]


PublishedKeys: TypeAlias = tuple[Any, ...] | Literal["public"] | Selected
"""Which keys are published: those listed; those in the data, which are stated to be public; or those selected."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Terms:
    """What a release under an agreement spends, and by which mechanism.

    Parameters
    ----------
    epsilon
        In nats, from 1e-6 to 1e6: the decimal that is written, of at most 15 digits.
    delta
        In [0, 1).
    mechanism
        The noise on the cells, as in `Sketch.release`; or the name of a mechanism of signs, such as
        ``"DP-SignOPORP-RR"``.

    Raises
    ------
    InvalidInputError
        For a number that is no decimal or out of range; for a noise that this δ does not permit.

    Examples
    --------
    >>> Terms(epsilon=1, delta=1e-6).to_dict()
    {'noise': 'auto', 'epsilon': '1', 'delta': '0.000001'}
    >>> print(Terms(epsilon="0.1"))
    ε = 0.1, δ = 0, noise auto
    """

    epsilon: Spent
    delta: Spent = 0
    mechanism: str = "auto"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", decimal_of(self.epsilon, "epsilon"))
        object.__setattr__(self, "delta", decimal_of(self.delta, "delta"))
        check_text("the mechanism of an agreement", self.mechanism)
        if self.is_noise:
            calibration.check_choice(self.budget, self.mechanism)

    @property
    def budget(self) -> Budget:
        """ε and δ together."""
        return Budget(float(self.epsilon), float(self.delta))

    @property
    def is_noise(self) -> bool:
        """Whether noise is added to cells. Otherwise the mechanism is one of signs."""
        return self.mechanism in mechanism_names()

    def less(self, share: Selected) -> "Terms":
        """Return what is left for the noise after keys were selected.

        Raises
        ------
        InvalidInputError
            If nothing is left.
        """
        epsilon, delta = Decimal(self.epsilon) - Decimal(share.epsilon), Decimal(self.delta) - Decimal(share.delta)
        if epsilon <= 0 or delta < 0:
            raise InvalidInputError(
                f"the choice of keys spends ε = {decimal_text(Decimal(share.epsilon))}, δ = "
                f"{decimal_text(Decimal(share.delta))}, and the whole release only {self}: give it a smaller share"
            )
        return dataclasses.replace(self, epsilon=epsilon, delta=delta)

    def to_dict(self) -> dict[str, str]:
        """Return the terms as a dict that JSON can hold: decimals as text, without δ where it is 0."""
        fields = {"noise" if self.is_noise else "signs": self.mechanism, "epsilon": decimal_text(Decimal(self.epsilon))}
        return fields | ({"delta": decimal_text(Decimal(self.delta))} if self.delta else {})

    @staticmethod
    def from_dict(fields: Any) -> "Terms":
        """Return the terms that `to_dict` wrote.

        Raises
        ------
        InvalidInputError
            For anything else.
        """
        kind = next((name for name in ("noise", "signs") if isinstance(fields, Mapping) and name in fields), None)
        if kind is None or not {kind, "epsilon"} <= fields.keys() <= {kind, "epsilon", "delta"}:
            raise InvalidInputError(
                f"the release of an agreement is an object of noise or signs, epsilon and, unless it is 0, delta, got "
                f"{short(fields)}"
            )
        terms = Terms(epsilon=fields["epsilon"], delta=fields.get("delta", "0"), mechanism=fields[kind])
        if terms.to_dict() != fields:
            raise InvalidInputError(f"the release of an agreement must be {terms.to_dict()}, got {short(fields)}")
        return terms

    def __str__(self) -> str:
        kind = "noise" if self.is_noise else "signs"
        return f"{self.budget}, {kind} {self.mechanism}"


def keys_to_dict(keys: PublishedKeys) -> Json:
    """Return published keys as a dict that JSON can hold; dates as ISO 8601, bytes in hexadecimal."""
    if isinstance(keys, Selected):
        share = {"epsilon": decimal_text(Decimal(keys.epsilon)), "delta": decimal_text(Decimal(keys.delta))}
        return {"selected": share}
    if keys == "public":
        return {"public": True}
    return {"listed": [_plain(key) for key in keys]}


def keys_from_dict(fields: Any, of_bytes: bool) -> PublishedKeys:  # noqa: FBT001 - what the key column holds
    """Return what `keys_to_dict` wrote; listed keys are still to be cast to the type of the key column.

    Raises
    ------
    InvalidInputError
        For anything else.
    """
    if isinstance(fields, Mapping) and len(fields) == 1:
        ((kind, value),) = fields.items()
        if kind == "public" and value is True:
            return "public"
        if kind == "listed" and isinstance(value, list):
            return tuple(map(_bytes_of, value) if of_bytes else value)
        if kind == "selected" and isinstance(value, Mapping) and value.keys() == {"epsilon", "delta"}:
            selected = Selected(**value)
            if keys_to_dict(selected) == fields:
                return selected
    raise InvalidInputError(
        'the keys of an agreement are {"listed": […]}, {"public": true} or {"selected": {"epsilon": …, "delta": …}}, '
        f"got {short(fields)}"
    )


def keys_text(keys: PublishedKeys) -> str:
    """Return which keys are published, for people."""
    if isinstance(keys, Selected):
        return f"keys selected with {keys.budget}"
    return "public keys" if keys == "public" else f"{len(keys)} listed key{'s' * (len(keys) != 1)}"


def _plain(key: TableKey) -> Any:
    if isinstance(key, bytes):
        return key.hex()
    return key if isinstance(key, int | str) else key.isoformat()


def _bytes_of(text: Any) -> bytes:
    try:
        return bytes.fromhex(text)
    except (TypeError, ValueError):
        raise InvalidInputError(f"keys of bytes are listed in hexadecimal, got {short(text)}") from None
