"""Kinds of objects in the exchange format: their first bytes, their classes and their codecs.

A class and its codec are loaded when such bytes are read, so reading a release loads no mechanism for signs or reports.
"""

from importlib import import_module
from typing import Any, NamedTuple


def _named(where: str) -> Any:
    module, _, name = where.rpartition(".")
    return getattr(import_module(f"streamsketch.{module}"), name)


class Codec(NamedTuple):
    """How one kind of object becomes bytes, and how these bytes are recognised.

    Parameters
    ----------
    where
        The class: its folder and name.
    name
        What it is called in errors.
    magic
        The first bytes, by which files are distinguished.
    encoder, decoder
        Functions of this folder: ``encoder(thing)`` returns bytes; ``decoder(data, **agreed)`` an object, or raises
        `WireFormatError`.
    """

    where: str
    name: str
    magic: bytes
    encoder: str
    decoder: str

    @property
    def kind(self) -> type[Any]:
        """The class."""
        kind: type[Any] = _named(self.where)
        return kind

    def encode(self, thing: Any) -> bytes:
        """Return an object as bytes."""
        data: bytes = _named(f"wire.{self.encoder}")(thing)
        return data

    def decode(self, data: bytes, **agreed: Any) -> Any:
        """Return the object in bytes, or raise `WireFormatError`."""
        return _named(f"wire.{self.decoder}")(data, **agreed)


def is_of(kind: type[Any], codec: Codec) -> bool:
    """Return whether a class is that of a codec, or extends it."""
    folder, _, name = codec.where.rpartition(".")
    home = f"streamsketch.{folder}."
    return any(each.__qualname__ == name and each.__module__.startswith(home) for each in kind.__mro__)


# The magic is like PNG's: it reveals text-mode mangling and seven-bit transport.
RELEASES = Codec(
    "release.PrivateSketch",
    "private sketch",
    b"\x89SSK\r\n\x1a\n",
    "releases.encode_release",
    "releases.decode_release",
)
SIGNS = Codec("signs.SignSketch", "sign sketch", b"\x89SSG\r\n\x1a\n", "signs.encode_signs", "signs.decode_signs")
INDIVIDUAL_SIGNS = Codec(
    "signs.IndividualSignSketch",
    "individual sign sketch",
    b"\x89SSI\r\n\x1a\n",
    "signs.encode_signs",
    "signs.decode_individual_signs",
)
PRIVATE_TABLES = Codec(
    "release.PrivateTable",
    "table of private sketches",
    b"PAR1",
    "tables.encode_table",
    "tables.decode_private_table",
)
SIGN_TABLES = Codec(
    "signs.SignTable", "table of sign sketches", b"PAR1", "tables.encode_table", "tables.decode_sign_table"
)
REPORTS = Codec(
    "local.Report", "report", b"\x89SSR\r\n\x1a\n", "local_reports.encode_report", "local_reports.decode_report"
)
MEANS = Codec(
    "local.MeanAggregator",
    "local mean",
    b"\x89SSM\r\n\x1a\n",
    "local_reports.encode_aggregator",
    "local_reports.decode_aggregator",
)
CODECS = (RELEASES, SIGNS, INDIVIDUAL_SIGNS, PRIVATE_TABLES, SIGN_TABLES, REPORTS, MEANS)
LONGEST_MAGIC = max(len(codec.magic) for codec in CODECS)
