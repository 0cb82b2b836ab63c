"""Signatures: who made a file, and that it was not changed since."""

import datetime as dt
import hashlib
import io
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from streamsketch.accounting.ledger import Receipt
from streamsketch.core.files import locked, write_whole
from streamsketch.core.libraries import pa, pq
from streamsketch.core.limits import current_limits, read_bounded
from streamsketch.core.numbers import short
from streamsketch.errors import InvalidInputError, SignatureError, WireFormatError
from streamsketch.parties import envelope
from streamsketch.parties.keys import Key, PublicKey
from streamsketch.parties.statements import MEDIA_TYPE, Statement, decode_statement, describe, encode_statement
from streamsketch.products import SERVICES
from streamsketch.release.published import Encoded
from streamsketch.release.published_table import PublishedTable

BUNDLE = ".intoto.jsonl"
"""What the name of a file of signatures ends in, after the name of the file that they are of."""
_MOST_BUNDLE = 1 << 20
_MOST_LINES = 1024
ENTRY = b"streamsketch.signature"
MAGIC = b"PAR1"
_TAIL = 8  # the footer's length, and the magic again
_TEXT = b"\x18"  # in Thrift's compact form, what stands between an entry's name and the length of its value
_LONGEST_VARINT = 5


def sign(
    path: str | os.PathLike[str],
    key: Key,
    *,
    receipt: Receipt | None = None,
    expires: dt.datetime | dt.date | None = None,
    inside: bool = False,
) -> Path:
    """Sign a file, in a file beside it. With the signer's public key, anyone can check that it was not changed since.

    The signature is a statement (in-toto, version 1) in an envelope (DSSE), a line of ``PATH.intoto.jsonl``, where
    in-toto's tools look for it. It states the file's SHA-256, what the file holds, its guarantee, the fingerprint of
    its agreement and the version of this library. It may be shown to anyone who may see the file. Others may sign the
    same file: each has a line, and a new signature replaces earlier ones of the same key.

    Parameters
    ----------
    path
        A release, a table of releases, published signs, a mean of local reports, an agreement, a round or a
        contribution. (`MeanAggregator.to_bytes` and `Round.contribute` give bytes to write to a file.) Other files are
        refused, so that a raw sketch is not signed and sent by mistake.
    key
        The signer's key.
    receipt
        The receipt of `Ledger.charge`, to show that the release was charged. The statement holds its number and hash,
        but not the names of data sets.
    expires
        When the signature expires; a date is the last valid day, in UTC.
    inside
        Whether to write the signature into the footer of a table, so that there is one file. The table is written
        again, and a signature inside it is replaced. Signatures beside it then no longer match its bytes. in-toto's
        tools do not look inside.

    Returns
    -------
    Path
        The file with the signature.

    Raises
    ------
    InvalidInputError
        If the file holds something else, ``expires`` is in the past or has no time zone, or ``inside`` is given for a
        file that is not a table.
    OSError
        If a file cannot be read or written.

    Examples
    --------
    >>> from streamsketch import L1, SJLT, load
    >>> from streamsketch.parties import Key, sign, verify
    >>> path = getfixture("tmp_path") / "north.sketch"
    >>> sketch = SJLT(dim=1 << 40, sketch_dim=64, sparsity=4, seed=7).sketch()
    >>> sketch.release(epsilon=1.0, neighbours=L1(1, unit="sale")).save(path)
    >>> north = Key.generate("North")
    >>> sign(path, north).name
    'north.sketch.intoto.jsonl'
    >>> verify(path, north.public).guarantee
    'ε = 1, δ = 0 for one sale of at most 1 (L1), asserted, by discrete Laplace, scale 4'
    >>> load(path, signer=north.public).guarantee.epsilon
    1.0
    """
    if not isinstance(key, Key):
        raise TypeError(f"a file is signed by a Key, got a {type(key).__name__}")
    path, ends = Path(path), _ends(expires)
    data = read_bounded(path, current_limits().max_table_bytes, "max_table_bytes")
    description = describe(path, data)

    def line_of(digest: str) -> bytes:
        return envelope.seal(encode_statement(path, digest, description, receipt, ends, inside=inside), MEDIA_TYPE, key)

    if inside:
        table = Encoded.any_from_bytes(data) if data.startswith(MAGIC) else None
        if not isinstance(table, PublishedTable):
            raise InvalidInputError(
                f"{path} is not a table, so it cannot hold a signature; sign it in a file beside it"
            )
        write_whole(path, sign_table(table.to_arrow(), line_of))
        return path
    line = line_of(hashlib.sha256(data).hexdigest())
    bundle = bundle_of(path)
    with locked(bundle):
        kept = (
            [entry for entry in _lines(bundle) if _claimed_key(entry) != key.public.fingerprint]
            if bundle.exists()
            else []
        )
        write_whole(bundle, b"".join(entry + b"\n" for entry in [*kept, line]))
    return bundle


def verify(
    path: str | os.PathLike[str], signer: PublicKey | Iterable[PublicKey], *, content: bytes | None = None
) -> Statement:
    """Check the signature of a file, and return what its signer states.

    Parse the statement's ``content``, as in ``Agreement.from_json(verify("sales.json", north).content)``. Do not read
    the file again, which may have changed since. `streamsketch.load` does this by itself.

    Parameters
    ----------
    path
        The file. Signatures are read from ``PATH.intoto.jsonl``, and those of a table also from its footer.
    signer
        The public key of the expected signer, known from elsewhere; or several keys, of which one must have signed.
    content
        The bytes of the file, if they were already read.

    Raises
    ------
    SignatureError
        If there is no signature by one of these keys, or it is invalid, is for other bytes, or has expired.
    WireFormatError
        If the file is longer than `Limits.max_table_bytes`.
    OSError
        If the file cannot be read.

    Examples
    --------
    >>> from streamsketch import Agreement, CountSketch
    >>> from streamsketch.errors import SignatureError
    >>> from streamsketch.parties import Key, sign, verify
    >>> path = getfixture("tmp_path") / "agreed.json"
    >>> agreed = Agreement(CountSketch(sketch_dim=256, seed=7), index="item")
    >>> _ = path.write_text(agreed.to_json())
    >>> north = Key.generate("North")
    >>> _ = sign(path, north)
    >>> statement = verify(path, north.public)
    >>> statement.kind, statement.agreement == agreed.fingerprint
    ('Agreement', True)
    >>> _ = path.write_text("{}")
    >>> try:
    ...     verify(path, north.public)
    ... except SignatureError:
    ...     print("the file was changed")
    the file was changed
    """
    path, signers = Path(path), _signers(signer)
    if content is None:
        content = read_bounded(path, current_limits().max_table_bytes, "max_table_bytes")
    bundle = bundle_of(path)
    held = signature_inside(content) if content.startswith(MAGIC) else None
    if held is None and not bundle.exists():
        raise SignatureError(f"{path} is not signed, because there is no {bundle}; ask its maker for that file")
    digest = hashlib.sha256(content).hexdigest()
    lines = [(line, digest) for line in _lines(bundle)] if bundle.exists() else []
    refused: list[_RefusedError] = []
    for line, of in [*lines, *([] if held is None else [held])]:
        try:
            return _check_line(line, path, content, signers, of, inside=of is not digest)
        except _RefusedError as error:  # perhaps by another signer: a later line may be valid
            refused.append(error)
    if not refused:
        raise SignatureError(f"{path} is not signed: {bundle} is empty")
    raise SignatureError(str(max(refused, key=lambda refusal: refusal.steps)))


def bundle_of(path: Path) -> Path:
    """Return the name of the file with a file's signatures."""
    return path.with_name(path.name + BUNDLE)


class _RefusedError(Exception):
    """Why a line is not a valid signature of a file, and which check failed; the line that passed most is reported."""

    def __init__(self, steps: int, problem: str) -> None:
        super().__init__(problem)
        self.steps = steps


def _check_line(
    line: bytes, path: Path, content: bytes, signers: tuple[PublicKey, ...], digest: str, *, inside: bool
) -> Statement:
    """Return the statement in a line of signatures, of bytes with this digest."""
    try:
        sealed = envelope.parse(line)
    except SignatureError:
        raise _RefusedError(0, f"{path} is not signed: {bundle_of(path)} holds no signature") from None
    signer = sealed.signer_among(signers)
    if signer is None:
        among = " or ".join(map(str, signers))
        raise _RefusedError(1, f"{path} is signed by the key {sealed.claimed[:16]!a}, not by {among}")
    if not sealed.is_signed_by(signer):
        raise _RefusedError(2, f"the signature of {path} is not by {signer}, as it claims; it was forged or changed")
    if sealed.kind != MEDIA_TYPE:
        raise _RefusedError(3, f"{signer} signed {sealed.kind[:80]!a}, not a statement about a file, beside {path}")
    try:
        statement = decode_statement(sealed.payload, signer, content, inside=inside)
    except SignatureError as error:
        raise _RefusedError(
            3, f"the text that {signer} signed beside {path} is not a valid statement about it: {error}"
        ) from None
    if statement.sha256 != digest and statement.name != path.name:
        raise _RefusedError(4, f"the signature of {signer} beside {path} is of another file, {statement.name}")
    if statement.sha256 != digest:
        raise _RefusedError(
            5,
            f"{path} was changed after {signer} signed it: its SHA-256 is {digest[:16]}…, and {statement.sha256[:16]}… "
            f"was signed. Ask for the file again",
        )
    if statement.expires is not None and statement.expires <= dt.datetime.now(dt.UTC):
        raise _RefusedError(6, f"the signature of {signer} on {path} expired at {statement.expires}; ask for a new one")
    return statement


def _signers(signer: PublicKey | Iterable[PublicKey]) -> tuple[PublicKey, ...]:
    signers = (
        (signer,) if isinstance(signer, PublicKey) else tuple(signer) if isinstance(signer, Iterable) else (signer,)
    )
    if not all(isinstance(key, PublicKey) for key in signers):
        raise TypeError("signer must be PublicKey objects: key.public of a Key, or PublicKey.from_text")
    if not signers:
        raise InvalidInputError("signer is empty; pass at least one key, or leave it out")
    return signers


def _lines(bundle: Path) -> list[bytes]:
    try:
        lines = [line for line in read_bounded(bundle, _MOST_BUNDLE).splitlines() if line.strip()]
    except WireFormatError:
        raise SignatureError(f"{bundle} is longer than {_MOST_BUNDLE} bytes, which no signatures are") from None
    if len(lines) > _MOST_LINES:
        raise SignatureError(f"{bundle} has {len(lines)} lines, and at most {_MOST_LINES} are read")
    return lines


def _claimed_key(line: bytes) -> str:
    try:
        return envelope.parse(line).claimed
    except SignatureError:
        return ""


def _ends(expires: dt.datetime | dt.date | None) -> dt.datetime | None:
    if expires is None:
        return None
    if not isinstance(expires, dt.datetime):
        expires = dt.datetime.combine(expires + dt.timedelta(days=1), dt.time(), dt.UTC)
    if expires.tzinfo is None:
        raise InvalidInputError(
            f"expires must have a time zone, got {short(str(expires))}; pass tzinfo, such as datetime.UTC"
        )
    if expires <= dt.datetime.now(dt.UTC):
        raise InvalidInputError(f"expires must be in the future, got {short(str(expires))}")
    return expires


def sign_table(table: "pa.Table", line_of: Callable[[str], bytes]) -> bytes:
    """Return a table as a Parquet file with its signature inside.

    Parameters
    ----------
    table
        What to write.
    line_of
        Returns the envelope for the SHA-256 of the file with spaces in the place of the envelope; always as long.
    """
    blank = b" " * len(line_of(hashlib.sha256().hexdigest()))
    content = io.BytesIO()
    with pq.ParquetWriter(content, table.schema) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({ENTRY: blank})
    data = content.getvalue()
    start, end = _place(data)
    return data[:start] + line_of(hashlib.sha256(data).hexdigest()) + data[end:]


def signature_inside(data: bytes) -> tuple[bytes, str] | None:
    """Return the envelope inside a table's footer and the SHA-256 of the rest, spaces in its place; None without one.

    Whatever else is changed in the file changes the hash; and as its footer names the entry once, no other bytes of it
    can take the envelope's place.
    """
    try:
        start, end = _place(data)
    except SignatureError:
        return None
    digest = hashlib.sha256(data[:start])
    digest.update(b" " * (end - start))
    digest.update(data[end:])
    return data[start:end], digest.hexdigest()


def _place(data: bytes) -> tuple[int, int]:
    """Return where the value of the entry begins and ends."""
    size = int.from_bytes(data[-_TAIL:-4], "little")
    footer = len(data) - _TAIL - size
    name = data.find(ENTRY + _TEXT, max(0, footer), len(data) - _TAIL)
    if data[:4] != MAGIC or footer < len(MAGIC) or name < 0 or data.count(ENTRY, footer) > 1:
        raise SignatureError("the table has no signature inside")
    at, length = name + len(ENTRY + _TEXT), 0
    for place in range(_LONGEST_VARINT):
        byte = data[at + place]
        length |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:  # the last
            at += place + 1
            break
    if at + length > len(data) - _TAIL:
        raise SignatureError("the table has no signature inside")
    return at, at + length


SERVICES.enter("signatures", verify)
