"""Everything that has bytes in the exchange format, by its class and by its first bytes."""

import contextlib
import io
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias, Union

from streamsketch import agreement as agreements
from streamsketch.agreement.same import check_fingerprint, fingerprint_of
from streamsketch.core.documents import TableKey
from streamsketch.core.limits import current_limits, read_open
from streamsketch.core.wrong import AGREEMENT, check_path, wrong_type
from streamsketch.errors import WireFormatError
from streamsketch.products import SERVICES
from streamsketch.projections.base import Projection
from streamsketch.release.published import OTHER_FILES
from streamsketch.release.published_table import PublishedTable
from streamsketch.wire.codecs import CODECS, LONGEST_MAGIC, Codec, codec_of, magic_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from streamsketch.agreement.agreement import Agreement
    from streamsketch.agreement.same import Signer

Expected: TypeAlias = Union[Projection, "Agreement", str, None]


def encode(thing: Any) -> bytes:
    """Return an object in the exchange format.

    Raises
    ------
    TypeError
        If its class has no bytes in this format.

    Examples
    --------
    >>> from streamsketch import L1, SJLT
    >>> sketch = SJLT(dim=1 << 40, sketch_dim=64, sparsity=4, seed=7).sketch()
    >>> released = sketch.release(epsilon=1.0, neighbours=L1(1, unit="sale"))
    >>> decode_any(encode(released)) == released
    True
    """
    return _codec_of(type(thing)).encode(thing)


def decode(data: bytes, kind: type[Any], **agreed: Any) -> Any:
    """Return the object of a class in ``data``; see the ``from_bytes`` of that class."""
    decode_it = _codec_of(kind).decode
    if issubclass(kind, PublishedTable):
        agreed |= {"kind": kind}
    if "expect" not in agreed:
        return decode_it(data, **agreed)
    projection, agreement = _expected(agreed["expect"])
    return _following(agreement, decode_it(data, **agreed | {"expect": projection}))


def decode_any(data: bytes) -> Any:
    """Return the object in bytes, whose first bytes identify its kind; see `Encoded.any_from_bytes`."""
    codec = codec_of(magic_in(data[:LONGEST_MAGIC]))
    if codec is None or not codec.is_alone:
        raise WireFormatError("bytes 0-7", "are not those of any release or mean of reports")
    return codec.decode(data, max_bytes=None, **({} if codec.read_by else {"expect": None}))


def encoded_rows(data: bytes, kind: type[PublishedTable[Any]]) -> dict[TableKey, bytes]:
    """Return the bytes of each release in a table of our own; see `published.encoded_rows`."""
    from streamsketch.wire import tables  # noqa: PLC0415 - which sketches need not load

    return tables.encoded_rows(data, kind)


def load(
    path: str | os.PathLike[str],
    *,
    expect: Expected = None,
    signer: "Signer | Iterable[Signer] | None" = None,
    max_bytes: int | None = None,
) -> Any:
    """Read a release from a file, and verify its signature if asked to.

    Parameters
    ----------
    path
        A file that ``save`` of a release or a Beam pipeline wrote. Its first bytes give its kind; its name does not
        matter. Releases of one stream can also come from a pipe.
    expect
        The agreed projection; or the agreement that the data must follow, or its fingerprint.
    signer
        The public key of the party that must have signed the file with `streamsketch.parties.sign`, or several keys, of
        which one must have signed it. The signature is verified on the bytes that are then read.
    max_bytes
        Longer files are refused before they are read, and so are tables that take more memory. The default is
        `Limits.max_bytes`, and for a table `Limits.max_table_bytes`.

    Returns
    -------
    PrivateSketch, PrivateTable, SignSketch, SignTable or IndividualSignSketch
        Check the type: an `IndividualSignSketch` has individual differential privacy only.

    Raises
    ------
    WireFormatError
        If the file is too long, truncated, changed, inconsistent, or of another version, projection or agreement than
        expected. If it is a raw sketch, which is secret; `streamsketch.storage.load_raw` reads it.
    MissingProductError
        If it holds what a part of the package reads that is not installed.
    SignatureError
        If there is no signature of a ``signer``, if it is for other bytes, or if it has expired.
    OSError
        If the file cannot be read.

    Examples
    --------
    >>> from streamsketch import L1, SJLT
    >>> path = getfixture("tmp_path") / "north.sketch"
    >>> sketch = SJLT(dim=1 << 40, sketch_dim=64, sparsity=4, seed=7).sketch()
    >>> sketch.release(epsilon=1.0, neighbours=L1(1, unit="sale")).save(path)
    >>> print(load(path).guarantee)
    ε = 1, δ = 0 for one sale of at most 1 (L1), asserted, by discrete Laplace, scale 4
    """
    projection, agreement = _expected(expect)
    check_path(path)
    with _naming(path), open(path, "rb") as file:  # noqa: PTH123 - path may be any path-like
        most = current_limits().max_bytes if max_bytes is None else max_bytes
        # the first read of a pipe may return fewer bytes than the magic has
        piped = None if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else read_open(file, most)
        start = (file.peek(LONGEST_MAGIC) if piped is None else piped)[:LONGEST_MAGIC]
        codec = codec_of(magic_in(start))
        if codec is None:
            raise WireFormatError("bytes 0-7", _not_published(path, start))
        if codec.read_by:
            raise WireFormatError("bytes 0-7", f"are those of {codec.read_by}")
        release: Any
        if codec.magic != PublishedTable.magic:
            data = _verified(read_open(file, most) if piped is None else piped, path, signer)
            release = codec.decode(data, expect=projection, max_bytes=most)
        else:
            image, size = table_in(file, path, signer, max_bytes)
            from streamsketch.wire import tables  # noqa: PLC0415 - which sketches need not load

            release = tables.read_table(image, size, None, expect=projection, max_bytes=max_bytes)
        return _following(agreement, release)


@contextlib.contextmanager
def _naming(path: str | os.PathLike[str]) -> "Iterator[None]":
    """Name a file in the errors of reading it."""
    try:
        yield
    except WireFormatError as error:
        raise WireFormatError(error.where, error.problem, str(path)) from None


def table_in(
    file: BinaryIO, path: str | os.PathLike[str], signer: "Signer | Iterable[Signer] | None", max_bytes: int | None
) -> tuple[BinaryIO, int]:
    """Return a Parquet file, and its size, once it is known to be signed, if it has to be."""
    size = _size_of(file)
    if signer is None:
        return file, size
    # what is parsed is what was verified, whatever happens to the file
    most = current_limits().max_table_bytes if max_bytes is None else max_bytes
    data = _verified(read_open(file, most, "max_table_bytes"), path, signer)
    return io.BytesIO(data), len(data)


def kind_of(path: str | os.PathLike[str]) -> type[Any] | None:
    """Return the class of the release in a file, by its first bytes and a table's columns; None if it is unknown.

    Raises
    ------
    WireFormatError
        If it is a damaged table.
    OSError
        If the file cannot be read.
    """
    with Path(path).open("rb") as file:
        start = file.read(LONGEST_MAGIC)
        codec = codec_of(magic_in(start))
        if codec is not None and codec.magic == PublishedTable.magic:
            from streamsketch.wire import tables  # noqa: PLC0415 - as above

            return tables.kind_of(file, _size_of(file))
    return None if codec is None else codec.kind


def _codec_of(kind: type[Any]) -> Codec:
    codec = codec_of(getattr(kind, "magic", None))
    if codec is None:
        raise TypeError(f"a {kind.__name__} has no bytes in the exchange format")
    return codec


def _verified(data: bytes, path: str | os.PathLike[str], signer: "Signer | Iterable[Signer] | None") -> bytes:
    """Return a file's bytes, once they are known to be signed, if they have to be."""
    if signer is None:
        return data
    verify = SERVICES.need("signatures", "a signature is to be verified")
    content: bytes = verify(path, signer, content=data).content
    return content


def _expected(expect: Expected) -> tuple[Projection | None, str | None]:
    """Return the projection and the agreement's fingerprint that are expected."""
    if expect is None or isinstance(expect, Projection):
        return expect, None
    if isinstance(expect, str):
        check_fingerprint(expect)
        return None, expect
    if not isinstance(expect, agreements.Agreement):
        raise wrong_type("expect a Projection, an Agreement or its fingerprint", expect, AGREEMENT)
    return expect.projection, fingerprint_of(expect)


def _following(agreement: str | None, release: Any) -> Any:
    """Return what was read, once it is known to follow the agreement expected."""
    if agreement not in (None, release.agreement):
        follows = "names none" if release.agreement is None else f"is {release.agreement}"
        raise WireFormatError(
            "agreement",
            f"{follows}, and {agreement} was expected: load it by the agreement it follows. `streamsketch explain` "
            "of two agreement files says which fields differ",
        )
    return release


def _not_published(path: str | os.PathLike[str], start: bytes) -> str:
    if Path(path).is_file():
        for other in OTHER_FILES.installed():
            if other.holds(path):
                return f"are those of {other.read_by}"
    cut = any(magic.startswith(start) for magic in CODECS)
    if cut:
        return "are not there: it was cut off"
    return (
        "are not those of any release: agreements are read by streamsketch.Agreement.load(path), and rows are released "
        "by agreement.release(rows)"
    )


def _size_of(file: BinaryIO) -> int:
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        raise WireFormatError("parquet", "is not a regular file; a table is read from its end")
    return status.st_size
