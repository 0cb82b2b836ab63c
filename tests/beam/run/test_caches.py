"""Caches of secrets: each of their arguments, varied alone, gives another answer, whatever was asked before."""

import itertools
from pathlib import Path
from typing import Any

import pytest

import streamsketch as ss
from streamsketch.beam.run.runs import RunSecret
from streamsketch.beam.streams.secret import StreamSecret, claim_epoch
from streamsketch.once.root_keys import key_fingerprint


def key_in(path: Path, byte: bytes) -> Path:
    path.touch(mode=0o600)
    path.write_bytes(byte * 32)
    return path


def test_secrets_of_a_stream_depend_on_each_of_their_names(tmp_path: Path) -> None:
    """A second job in the process with another key file must not get the first one's key."""
    keys = [key_in(tmp_path / name, name.encode()) for name in "ab"]
    places = [str(tmp_path / name) for name in ("claims", "other claims", "third claims")]
    for place in places:
        for stream in ("sales", "returns"):
            claim_epoch(place, stream)
    asked: list[tuple[Any, ...]] = [("sales", 1, places[0], keys[0]), ("returns", 1, places[0], keys[0])]
    asked += [("sales", 1, places[1], keys[1]), ("sales", 1, places[2], keys[0])]
    for order in itertools.permutations(asked):
        found = [StreamSecret(*one).derive("noise", "label") for one in order]
        by = dict(zip(order, found, strict=True))
        assert len({by[asked[0]], by[asked[1]], by[asked[2]]}) == 3
        assert by[asked[0]] == by[asked[3]], "the place of the claims is not a secret"
    with pytest.raises(ss.InvalidInputError, match="began with another root key"):
        StreamSecret("sales", 1, places[0], keys[1]).derive("noise", "label")
    with pytest.raises(ss.InvalidInputError, match="has not been claimed"):
        StreamSecret("sales", 2, places[0], keys[0]).derive("noise", "label")
    claim_epoch(places[0], "sales")
    second = StreamSecret("sales", 2, places[0], keys[0])
    assert second.derive("noise", "label") != StreamSecret(*asked[3]).derive("noise", "label")
    for use in ("bounds", "data ids", "version"):
        assert second.derive(use, "label") == StreamSecret(*asked[3]).derive(use, "label"), "these outlive epochs"
    uses = [second.derive(use, label) for use in ("noise", "charge", "version") for label in ("a", "b")]
    assert len(set(uses)) == 6


def test_secrets_of_a_run_depend_on_each_of_their_names(tmp_path: Path) -> None:
    keys = [key_in(tmp_path / name, name.encode()) for name in "ab"]
    marks = [key_fingerprint(name.encode() * 32) for name in "ab"]
    asked: list[tuple[bytes, bytes, Any]] = [
        (b"1" * 32, marks[0], keys[0]),
        (b"2" * 32, marks[0], keys[0]),
        (b"1" * 32, marks[1], keys[1]),
        (b"1" * 32, b"", None),
        (b"2" * 32, b"", None),
    ]
    for order in itertools.permutations(asked):
        assert len({RunSecret(*one).derive("noise", "label") for one in order}) == len(asked)
    with pytest.raises(ss.InvalidInputError, match="other than the one that the run began with"):
        RunSecret(b"3" * 32, marks[0], keys[1]).derive("noise", "label")
