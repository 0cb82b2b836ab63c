"""The keys that a release is about: given as a list, a file or a collection, and never read off the data."""

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import apache_beam as beam
import numpy as np
from apache_beam.metrics import Metrics

from streamsketch.errors import InvalidInputError

METRICS = "streamsketch"

Keys: TypeAlias = Iterable[Any] | os.PathLike[str] | beam.PCollection


class PublicKeys:
    """Keys known without a look at the data.

    Parameters
    ----------
    keys
        Text, bytes or integers in a list; a `pathlib.Path` to a text file with one key a line, in UTF-8, on any file
        system Beam knows; or a PCollection of keys in the global window.

    Raises
    ------
    InvalidInputError
        For one string, an empty list, or keys of other types.
    """

    def __init__(self, keys: Keys) -> None:
        if isinstance(keys, str | bytes):
            raise InvalidInputError(
                f"public_keys must be a collection of keys, got one {type(keys).__name__}; a file is given as "
                f"pathlib.Path(…)"
            )
        self._path = os.fspath(keys) if isinstance(keys, os.PathLike) else None
        self._keys = keys if isinstance(keys, beam.PCollection) else None
        self._listed: list[Any] | None = None
        if not isinstance(keys, os.PathLike | beam.PCollection):
            self._listed = plain_keys(keys)
            if not self._listed:
                raise InvalidInputError("public_keys is empty, so nothing would be released; give at least one key")

    def collection(self, pipeline: beam.Pipeline) -> beam.PCollection:
        """Return the different keys, as a collection in the global window."""
        if self._listed is not None:
            return pipeline | "Public keys" >> beam.Create(self._listed)
        keys = self._keys
        if keys is None:
            lines = pipeline | "Read public keys" >> beam.io.ReadFromText(self._path)
            keys = lines | "Skip empty lines" >> beam.Filter(bool)
        checked = keys | "Check public keys" >> beam.Map(_plain_key).with_output_types(Any)
        return checked | "Different public keys" >> beam.Distinct()

    def keep(self, keyed: beam.PCollection, keys: beam.PCollection, *, count: bool) -> beam.PCollection:
        """Return those of ``KV[key, value]`` whose key is public; ``keys`` is what `collection` returned."""
        known = {} if self._listed is not None else {"known": as_dict(keys)}
        keep = beam.ParDo(KeepKeys(self.listed, count=count), **known)
        return keyed | "Keep public keys" >> keep.with_output_types(keyed.element_type)

    @property
    def listed(self) -> frozenset[Any] | None:
        """The keys, if they were given as a list."""
        return None if self._listed is None else frozenset(self._listed)


def as_dict(keys: beam.PCollection) -> beam.pvalue.AsDict:
    """Return a collection of keys as a side input that looks a key up fast."""
    return beam.pvalue.AsDict(keys | "With nothing" >> beam.Map(lambda key: (key, None)))


class KeepKeys(beam.DoFn):
    """Drop what is filed under keys that are not listed, or not in the side input."""

    def __init__(self, listed: frozenset[Any] | None, *, count: bool) -> None:
        self._listed, self._count = listed, count

    def process(self, keyed: tuple[Any, Any], known: Mapping[Any, None] | None = None) -> Iterator[tuple[Any, Any]]:
        """Yield the element if its key is known."""
        keys = known if self._listed is None else self._listed
        # only plain types: True and 1.0 equal 1 in Python
        if type(keyed[0]) in (str, bytes, int) and keys is not None and keyed[0] in keys:
            yield keyed
        elif self._count:
            Metrics.counter(METRICS, "keys_dropped").inc()


def plain_keys(keys: Iterable[Any]) -> list[Any]:
    """Return different keys; equal keys of other types would be released beside those of the data."""
    return list(dict.fromkeys(map(_plain_key, keys)))


def _plain_key(key: Any) -> Any:
    plain = key.item() if isinstance(key, np.generic) else key
    if type(plain) not in (str, bytes, int):
        raise InvalidInputError(f"public_keys must be text, bytes or integers, got {type(plain).__name__}; cast them")
    return plain
