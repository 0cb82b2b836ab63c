"""SignSketch and IndividualSignSketch: one published bit a cell."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias, cast, get_args

import numpy as np
from numpy.typing import NDArray

from streamsketch.agreement.same import check_fingerprint
from streamsketch.core.numbers import short
from streamsketch.data import data_ids as ids_of_data
from streamsketch.errors import InvalidInputError
from streamsketch.kernels.hashing import Words
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.privacy.individual import IndividualGuarantee
from streamsketch.privacy.sign_flips import FlipLaw
from streamsketch.projections.base import Projection
from streamsketch.projections.oporp import OPORP
from streamsketch.release.claims import Claim
from streamsketch.release.private_sketch import RELEASE_ID_BYTES
from streamsketch.release.published import Published, with_agreement

if TYPE_CHECKING:
    from streamsketch.explanation.signs import IndividualSignExplanation, SignExplanation

Method: TypeAlias = Literal["iDP-SignRP-G", "iDP-SignRP-RR", "iDP-SignOPORP", "iDP-SignOPORP-G"]

_WITH_NOISE = ("iDP-SignRP-G", "iDP-SignOPORP-G")
_OF_BINS = ("iDP-SignOPORP", "iDP-SignOPORP-G")

_WORD_BITS = 64


class Signs(Published):
    """What both kinds of published signs share. Immutable; equal and hashable by content.

    Parameters
    ----------
    projection
        The public map.
    packed
        ⌈sketch_dim / 8⌉ bytes: bit i mod 8 of byte i // 8 is 1 where cell i's published sign is +; the rest is 0.
    guarantee
        What was guaranteed.
    release_id
        8 random bytes: estimates between a release and itself are refused.
    agreement
        The fingerprint of the agreement that the data followed, in hexadecimal, if it is known.

    Raises
    ------
    InvalidInputError
        For another number of bytes, or bits behind the last cell.
    """

    guarantee_type: ClassVar[type[Guarantee] | type[IndividualGuarantee]]

    __slots__ = ("_agreement", "_guarantee", "_projection", "_release_id", "_words")

    def __init__(
        self,
        projection: Projection,
        packed: bytes,
        guarantee: object,
        *,
        release_id: bytes,
        agreement: str | None = None,
    ) -> None:
        if not isinstance(projection, Projection):
            raise TypeError(f"projection must be a streamsketch projection, got a {type(projection).__name__}")
        if not isinstance(packed, bytes) or not isinstance(release_id, bytes):
            raise TypeError("packed signs and release ids are bytes")
        if not isinstance(guarantee, self.guarantee_type):
            raise TypeError(
                f"the guarantee of a {type(self).__name__} is a {self.guarantee_type.__name__}, got a "
                f"{type(guarantee).__name__}"
            )
        k = projection.sketch_dim
        if len(packed) != -(-k // 8):
            raise InvalidInputError(f"{k} signs are {-(-k // 8)} bytes, got {len(packed)}")
        if k % 8 and packed[-1] >> k % 8:
            raise InvalidInputError("the bits after the last sign must be 0")
        if len(release_id) != RELEASE_ID_BYTES:
            raise InvalidInputError(f"a release id must have {RELEASE_ID_BYTES} bytes, got {len(release_id)}")
        self._projection, self._release_id = projection, release_id
        self._guarantee: Any = guarantee
        if agreement is not None:
            check_fingerprint(agreement)
        self._agreement = agreement
        # whole words for popcounts; made of bytes, so that they cannot be written to
        self._words: Words = np.frombuffer(packed.ljust(-(-k // _WORD_BITS) * 8, b"\0"), dtype="<u8")

    @property
    def projection(self) -> Projection:
        """The public map."""
        return self._projection

    @property
    def agreement(self) -> str | None:
        """The fingerprint of the agreement that the data followed, in hexadecimal; None if it is unknown."""
        return self._agreement

    def with_agreement(self, agreement: str | None) -> Self:
        """Return the same release with this agreement's fingerprint: you assert that the data followed it."""
        return with_agreement(self, agreement)

    @property
    def summed_ids(self) -> frozenset[bytes]:
        """The ids of the releases inside, here only its own."""
        return frozenset([self._release_id])

    @property
    def claim(self) -> Claim:
        """The proof that this is the release that its id states; see `streamsketch.compose`."""
        return Claim((type(self), self._projection), self._words, None)

    @property
    def guarantee(self) -> Any:
        """What was guaranteed."""
        return self._guarantee

    @property
    def release_id(self) -> bytes:
        """The 8 random bytes that identify this release."""
        return self._release_id

    @property
    def words(self) -> Words:
        """The signs as bits, uint64 of shape (⌈k / 64⌉,), read-only.

        Bit i mod 64 of word i // 64 is 1 if the sign of cell i is +.
        """
        return self._words

    @property
    def packed(self) -> bytes:
        """The signs as ⌈k / 8⌉ bytes."""
        return self._words.tobytes()[: -(-self._projection.sketch_dim // 8)]

    @property
    def signs(self) -> NDArray[np.int8]:
        """The published signs, int8 of shape (sketch_dim,), 1 or -1."""
        bits = np.unpackbits(self._words.view(np.uint8), count=self._projection.sketch_dim, bitorder="little")
        return (2 * bits.astype(np.int8) - 1).astype(np.int8)

    def _identity(self) -> tuple[Any, ...]:
        return type(self), self._projection, self._guarantee, self._release_id, self._words.tobytes(), self._agreement

    def __eq__(self, other: object) -> bool:
        return self._identity() == other._identity() if isinstance(other, Signs) else NotImplemented

    def __hash__(self) -> int:
        return hash((self._projection, self._release_id))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._projection!r}, {self._guarantee}>"


class SignSketch(Signs):
    """A differentially private release of the signs of a sketch: k bits, for Hamming distances and angles.

    The mechanisms of `streamsketch.signs` make it. `guarantee` states what is protected, and how well. `law` states how
    often a bit is wrong.

    Parameters
    ----------
    projection, packed, release_id, agreement
        As in `Signs`.
    law
        The law by which signs are flipped.
    guarantee
        The guarantee to the people in the data.
    data_ids
        As in `PrivateSketch`.

    Raises
    ------
    InvalidInputError
        If the number of bytes is wrong, there are bits after the last cell, or data ids repeat or have another length.

    Examples
    --------
    >>> import streamsketch as ss
    >>> x = ss.projections.Rademacher(dim=1000, sketch_dim=256, seed=7).sketch()
    >>> x.update([3, 4], [500, -200])
    >>> released = ss.signs.DPSignLogistic(epsilon=4.0, neighbours=ss.L1(1)).release(x)
    >>> print(released.guarantee)
    ε = 4, δ = 0 for one event of at most 1 (L1), asserted, by DP-Sign-logistic, flips with 1/(exp(1/64·|cell|) + 1)
    >>> len(released.packed), SignSketch.from_bytes(released.to_bytes()) == released
    (32, True)
    """

    magic = b"\x89SSG\r\n\x1a\n"

    guarantee_type = Guarantee

    __slots__ = ("_data_ids", "_law")

    def __init__(
        self,
        projection: Projection,
        packed: bytes,
        law: FlipLaw,
        guarantee: Guarantee,
        *,
        release_id: bytes,
        data_ids: Iterable[bytes] = (),
        agreement: str | None = None,
    ) -> None:
        if not isinstance(law, FlipLaw):
            raise TypeError(f"law must be a FlipLaw, got a {type(law).__name__}")
        super().__init__(projection, packed, guarantee, release_id=release_id, agreement=agreement)
        sources = tuple(sorted(data_ids))
        if sources:
            ids_of_data.check(sources)
        self._data_ids = sources
        self._law = law

    @property
    def data_ids(self) -> tuple[bytes, ...]:
        """Random ids of the data inside. Their number does not depend on the data; none if the data are unknown."""
        return self._data_ids

    @property
    def law(self) -> FlipLaw:
        """The probability that each sign is wrong."""
        return self._law

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee to the people in the data."""
        guarantee: Guarantee = self._guarantee
        return guarantee

    def explain(self) -> "SignExplanation":
        """Return a text: who is protected, by which theorem, how often signs are wrong, and what is not protected."""
        return cast("SignExplanation", super().explain())

    def _identity(self) -> tuple[Any, ...]:
        return *super()._identity(), self._law, self._data_ids


class IndividualSignSketch(Signs):
    """Signs under **individual** differential privacy, which is **not** differential privacy.

    Only signs that a neighbour of the data at hand could change were perturbed; which ones depends on the data, and
    may tell of them (`IndividualGuarantee`). It does not compose, and no transform of `streamsketch.beam` takes it.

    Parameters
    ----------
    projection, packed, release_id, agreement
        As in `Signs`.
    method
        ``"iDP-SignRP-G"``, ``"iDP-SignRP-RR"``, ``"iDP-SignOPORP"`` or ``"iDP-SignOPORP-G"``.
    guarantee
        What was guaranteed: an `IndividualGuarantee`.

    Raises
    ------
    InvalidInputError
        For another method or number of bytes, or bits behind the last cell; for a guarantee that the method does not
        give: one of another mechanism, δ where only Gaussian noise has one or none where it has, and for a method of an
        OPORP another projection than `OPORP` or neighbours than `OneCoordinate`.
    """

    magic = b"\x89SSI\r\n\x1a\n"

    guarantee_type = IndividualGuarantee

    __slots__ = ("_method",)

    def __init__(
        self,
        projection: Projection,
        packed: bytes,
        method: Method,
        guarantee: IndividualGuarantee,
        *,
        release_id: bytes,
        agreement: str | None = None,
    ) -> None:
        if method not in get_args(Method):
            raise InvalidInputError(f"a method is one of {', '.join(get_args(Method))}, got {short(method)}")
        super().__init__(projection, packed, guarantee, release_id=release_id, agreement=agreement)
        _check_made(projection, method, guarantee)
        self._method: Method = method

    @property
    def method(self) -> Method:
        """How the signs near zero were perturbed."""
        return self._method

    def explain(self) -> "IndividualSignExplanation":
        """Return what is guaranteed, which is not differential privacy, to whom, and what is not protected."""
        return cast("IndividualSignExplanation", super().explain())

    def _identity(self) -> tuple[Any, ...]:
        return *super()._identity(), self._method

    @property
    def guarantee(self) -> IndividualGuarantee:
        """The guarantee, which is individual differential privacy only."""
        guarantee: IndividualGuarantee = self._guarantee
        return guarantee


def _check_made(projection: Projection, method: Method, guarantee: IndividualGuarantee) -> None:
    """Refuse a guarantee that no mechanism of individual privacy gives."""
    if guarantee.mechanism != method:
        raise InvalidInputError(f"signs made by {method} were guaranteed by {guarantee.mechanism}: one must be wrong")
    if (guarantee.delta > 0) != (method in _WITH_NOISE):
        raise InvalidInputError(
            f"only {' and '.join(_WITH_NOISE)} have a delta, and always one: got {method} with delta = "
            f"{guarantee.delta!r}"
        )
    if method in _OF_BINS and not (isinstance(projection, OPORP) and guarantee.neighbours.one_coordinate):
        raise InvalidInputError(
            f"{method} is for an OPORP and OneCoordinate neighbours, got {type(projection).__name__} and "
            f"{guarantee.neighbours!r}"
        )


def pack_signs(positive: NDArray[np.bool_]) -> bytes:
    """Return one row of bits, (k,), as a release packs them."""
    return np.packbits(positive, bitorder="little").tobytes()
