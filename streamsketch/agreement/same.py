"""Whether two sketches of one projection were made under one agreement."""

import re
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, Union, overload

from streamsketch.core.numbers import short
from streamsketch.errors import IncompatibleAgreementsError, InvalidInputError

if TYPE_CHECKING:
    from streamsketch.agreement.agreement import Agreement

Agreed: TypeAlias = Union["Agreement", str, None]
"""An agreement, or the fingerprint that a release has of one; None where nothing is known of one."""


class Signer(Protocol):
    """The public key of a party that signs releases: `streamsketch.parties.PublicKey`."""

    @property
    def fingerprint(self) -> str:
        """Text that two people compare."""


_FINGERPRINT = re.compile(r"[0-9a-f]{32}")


def check_fingerprint(text: str) -> None:
    """Raise `InvalidInputError` unless text is a fingerprint: 16 bytes in hexadecimal."""
    if not isinstance(text, str) or not _FINGERPRINT.fullmatch(text):
        raise InvalidInputError(f"the fingerprint of an agreement is 16 bytes in hexadecimal, got {short(text)}")


def fingerprint_of(agreed: Agreed) -> str | None:
    """Return the fingerprint of what is known of an agreement."""
    return agreed if agreed is None or isinstance(agreed, str) else agreed.fingerprint


@overload
def check_agreed(first: "Agreement | None", second: "Agreement | None") -> "Agreement | None": ...
@overload
def check_agreed(first: Agreed, second: Agreed) -> Agreed: ...
def check_agreed(first: Agreed, second: Agreed) -> Agreed:
    """Return what two sketches of one projection have both agreed on; None where one of them states nothing.

    Raises
    ------
    IncompatibleAgreementsError
        If they state different things.
    """
    if first is None or second is None:
        return None
    if not isinstance(first, str) and not isinstance(second, str):
        first.check_same(second)
    elif fingerprint_of(first) != fingerprint_of(second):
        raise IncompatibleAgreementsError(
            f"the agreements differ: fingerprint {fingerprint_of(first)} here, {fingerprint_of(second)} there. "
            "`streamsketch explain` of both agreement files says which fields differ; sketch both streams under one of "
            "them"
        )
    return second if isinstance(first, str) else first


def check_alike(first: Agreed, second: Agreed) -> None:
    """Raise unless two sketches of one projection follow one agreement, or nothing is known of an agreement of either.

    Raises
    ------
    IncompatibleAgreementsError
        If their agreements differ, or only one of them has one.
    """
    if (first is None) != (second is None):
        fingerprint = fingerprint_of(second if first is None else first)
        raise IncompatibleAgreementsError(
            f"one follows the agreement {fingerprint}, and no agreement is known for the other: the same row may be "
            "another index there, because 7 and '7' differ. Sketch both streams under the agreement. Or, if the other "
            "was sketched in the same way, assert that for its release: "
            f"release.with_agreement('{fingerprint}')"
        )
    check_agreed(first, second)


def check_same(*sketches: Any) -> None:
    """Raise unless sketches or releases are of one projection, and of one agreement or all of none.

    Raises
    ------
    IncompatibleProjectionsError, IncompatibleAgreementsError
        As in `Projection.check_same` and `check_alike`.
    """
    for sketch in sketches[1:]:
        sketches[0].projection.check_same(sketch.projection)
        check_alike(sketches[0].agreement, sketch.agreement)
