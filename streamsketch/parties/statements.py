"""Statements: what a signature states about a file, in the form of in-toto's Statement, version 1."""

import dataclasses
import datetime as dt
import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

from streamsketch._version import __version__
from streamsketch.accounting.ledger import Receipt
from streamsketch.agreement.agreement import Agreement
from streamsketch.agreement.same import check_fingerprint
from streamsketch.core.limits import current_limits, read_json
from streamsketch.core.text import MAX_TEXT, check_text, is_printable
from streamsketch.errors import InvalidInputError, SignatureError, StreamsketchError
from streamsketch.parties import envelope
from streamsketch.parties.contributions import CONTRIBUTION
from streamsketch.parties.keys import PublicKey
from streamsketch.parties.rounds import Round
from streamsketch.release.published import Encoded, Published

MEDIA_TYPE = "application/vnd.in-toto+json"
_TYPE = "https://in-toto.io/Statement/v1"
_PREDICATE = "urn:streamsketch:file:v1"
BESIDE, INSIDE = "sha256", "sha256WithoutSignature"
_NAMELESS = "_"  # in-toto's, where a name means nothing
_MOST_TEXT = 1 << 14  # of a guarantee with all its conditions


@dataclasses.dataclass(frozen=True, kw_only=True)
class Statement:
    """What a signer states about a file.

    Parameters
    ----------
    name
        The file's name when it was signed. It may have changed since.
    sha256
        SHA-256 of the file's bytes, as hexadecimal text. A signature inside the file is replaced by spaces first.
    kind
        What the file holds: the name of a class of this package, or Contribution.
    guarantee
        The guarantee of a release or a round, as text; None for other files.
    agreement
        The fingerprint of the agreement that the file follows, or is, if any.
    library
        The version of streamsketch that signed.
    receipt
        Number and hash of the ledger entry that was charged, if the signer gave them, without data sets.
    expires
        When the signature expires, if it does.
    signer
        The public key whose signature was verified.
    content
        The bytes of the file that were verified. Parse these; do not read the file again.
    """

    name: str
    sha256: str
    kind: str
    guarantee: str | None
    agreement: str | None
    library: str
    receipt: Receipt | None
    expires: dt.datetime | None
    signer: PublicKey
    content: bytes = dataclasses.field(repr=False, compare=False)


class Description(NamedTuple):
    """What a statement states about the contents of a file."""

    kind: str
    guarantee: str | None
    agreement: str | None


def describe(path: Path, data: bytes) -> Description:
    """Return what a file holds.

    Raises
    ------
    InvalidInputError
        If it is not a valid release, sum of reports, agreement, round or contribution.
    """
    try:
        return _describe_json(data) if data[:1] == b"{" else _describe_release(data)
    except StreamsketchError as error:
        raise InvalidInputError(
            f"{path} is not a valid release, mean of local reports, agreement, round or contribution, and other files "
            f"cannot be signed: {error}"
        ) from None


def encode_statement(
    path: Path,
    digest: str,
    description: Description,
    receipt: Receipt | None,
    expires: dt.datetime | None,
    *,
    inside: bool = False,
) -> bytes:
    """Return the statement to sign, as JSON: of the SHA-256 of a file, or of all but the signature inside it."""
    name = path.name if len(path.name) <= MAX_TEXT and is_printable(path.name) else _NAMELESS
    fields = {
        "_type": _TYPE,
        "subject": [{"name": name, "digest": {INSIDE if inside else BESIDE: digest}}],
        "predicateType": _PREDICATE,
        "predicate": {
            **description._asdict(),
            "library": __version__,
            "receipt": None if receipt is None else {"number": receipt.number, "digest": receipt.digest},
            "expires": None if expires is None else expires.isoformat(),
        },
    }
    return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode("ascii")


def decode_statement(payload: bytes, signer: PublicKey, content: bytes, *, inside: bool = False) -> Statement:
    """Return the statement in a payload whose signature was verified; unknown fields are ignored.

    Raises
    ------
    SignatureError
        If it is not a statement about a file of this package.
    """
    if len(payload) > current_limits().max_json_bytes:
        raise SignatureError("the statement is longer than max_json_bytes")
    try:
        fields = read_json(payload)
        if (fields["_type"], fields["predicateType"]) != (_TYPE, _PREDICATE):
            raise KeyError  # noqa: TRY301 - as for all that is missing
        (subject,) = fields["subject"]
        predicate = fields["predicate"]
        receipt = predicate["receipt"]
        expires = None if predicate["expires"] is None else dt.datetime.fromisoformat(predicate["expires"])
        statement = Statement(
            name=_text("name", subject["name"]),
            sha256=_digest(subject["digest"][INSIDE if inside else BESIDE]),
            kind=_text("kind", predicate["kind"]),
            guarantee=_guarantee(predicate["guarantee"]),
            agreement=predicate["agreement"],
            library=_text("library", predicate["library"]),
            receipt=None if receipt is None else Receipt(_number(receipt["number"]), _digest(receipt["digest"]), ()),
            expires=expires,
            signer=signer,
            content=content,
        )
        if statement.agreement is not None:
            check_fingerprint(statement.agreement)
        if expires is not None and expires.tzinfo is None:
            raise ValueError  # noqa: TRY301 - a time of nowhere
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError):  # InvalidInputError is a ValueError
        raise SignatureError("the signed text is not a statement about a file that streamsketch signed") from None
    return statement


def _describe_json(data: bytes) -> Description:
    try:
        names = set(read_json(data))
    except (ValueError, RecursionError):
        raise InvalidInputError("its JSON is damaged") from None
    if "payload" in names:
        envelope_kind = envelope.parse(data).kind
        if envelope_kind != CONTRIBUTION:
            raise InvalidInputError(f"it is an envelope of {envelope_kind[:80]!a}")
        return Description("Contribution", None, None)
    if "round" in names:
        return Description("Round", str(Round.from_json(data).guarantee), None)
    return Description("Agreement", None, Agreement.from_json(data).fingerprint)


def _describe_release(data: bytes) -> Description:
    release: Any = Encoded.any_from_bytes(data)
    kind = type(release).__name__
    return (
        Description(kind, str(release.guarantee), release.agreement)
        if isinstance(release, Published)
        else Description(kind, None, None)
    )


def _guarantee(text: object) -> str | None:
    if text is not None and not (isinstance(text, str) and 0 < len(text) <= _MOST_TEXT and is_printable(text)):
        raise ValueError
    return text


def _text(name: str, value: Any) -> str:
    check_text(name, value)
    return str(value)


def _digest(value: Any) -> str:
    if not isinstance(value, str) or len(bytes.fromhex(value)) != hashlib.sha256().digest_size:
        raise ValueError
    return value


def _number(value: object) -> int:
    if type(value) is not int or value < 1:
        raise ValueError
    return value
