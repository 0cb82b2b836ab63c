"""Secrets that follow from one secret, and streams that were begun before all of them did by HKDF."""

import hashlib
import shutil
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

import streamsketch as ss
from streamsketch.continual import Tree
from streamsketch.once.keys import StateSecret, hkdf, ids_from, joined
from streamsketch.once.root_keys import fetch_root_key
from streamsketch.release import AdditiveNoise
from streamsketch.streams import FileSink, ReleaseOnce, Stream
from streamsketch.streams.state import read_state, write_state
from tests.streams.naive import KEYS, Row, batch_of, policy_of

STATES = Path(__file__).parent / "states"
LOG = [
    Row(second, KEYS[second % 2], "abc"[second % 3], 1 + second % 9, f"c{second % 4}") for second in range(0, 290, 4)
]
READ = 45
KINDS: dict[str, dict[str, Any]] = {"single": {}, "rows": {"schedule": Tree(horizon=4)}}


@pytest.mark.parametrize("parts", [(), (b"",), (b"ab", b"c"), (b"a", b"bc"), (b"sales", b"noise", b"1")])
def test_every_secret_is_hkdf_of_its_names_with_their_lengths(parts: tuple[bytes, ...]) -> None:
    info = b"".join(len(part).to_bytes(8, "little") + part for part in parts)
    key = bytes(range(32))
    assert hkdf(key, *parts) == HKDF(SHA256(), 32, salt=b"streamsketch stream 1", info=info).derive(key)


def test_no_two_uses_of_a_secret_share_bytes() -> None:
    state = StateSecret(bytes(32))
    names = [b"", b"next", b"rows", b"history", bytes(8), b"\x01" + bytes(7)]
    found = [state.derive(use, name) for use in ("win", "drw", "his", "sid") for name in names]
    found += [hkdf(bytes(32), b"stream", b"version", bytes(8)), *(hkdf(bytes(32), joined([name])) for name in names)]
    assert len(set(found)) == len(found)


def test_ids_are_those_of_a_place_whoever_draws_and_tell_places_keys_and_secrets_apart() -> None:
    one = ids_from(bytes(32), b"a", b"b")
    assert one == ids_from(bytes(32), b"a", b"b")
    assert one.parts == ids_from(bytes(32), b"a").parts | ids_from(bytes(32), b"b").parts
    others = [ids_from(bytes(32), b"c"), ids_from(b"1" * 32, b"a"), one.of_key("north"), one.of_key("south")]
    assert all(other.parts.isdisjoint(one.parts) for other in others)


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_of_an_earlier_version_says_how_to_go_on(kind: str, tmp_path: Path) -> None:
    """It followed a policy, and its secrets do not follow as they do now."""
    (tmp_path / "out").mkdir()
    shutil.copy(STATES / f"{kind}.raw-stream", state := tmp_path / "s.raw-stream")
    state.chmod(0o600)
    with pytest.raises(ss.InvalidInputError, match="whose policy is now an agreement and a job: begin a new state"):
        Stream(*policy_of(tmp_path / "out", epsilon=1.0, **KINDS[kind]), state)
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_state_says_how_its_secrets_follow(kind: str, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    policy = policy_of(tmp_path / "out", epsilon=1.0, **KINDS[kind])
    stream = Stream(*policy, path := tmp_path / "s.raw-stream")
    stream.add(batch_of(LOG[:READ]), 1)
    stream.save({"row": READ})
    saved = read_state(path)
    assert saved.header["keys"] == 2
    saved.header["keys"] = 3
    write_state(saved, path)
    with pytest.raises(ss.InvalidInputError, match=r"header\.keys"):
        Stream(*policy, path)


def test_the_noise_of_a_fixed_secret_is_that_of_earlier_versions(tmp_path: Path) -> None:
    projection = ss.SJLT(sketch_dim=64, sparsity=4, seed=7)
    publisher = AdditiveNoise(epsilon=1.0, neighbours=ss.L1(5, unit="customer")).calibrated(projection)
    sketch = projection.sketch()
    sketch.update([3, 5], [1, 1])
    once = ReleaseOnce(publisher, bytes(range(32)), FileSink(tmp_path), "sales", public_keys=["north"])
    values = once.release(0, {"north": sketch}).held["north"].values
    digest = hashlib.sha256(values.astype("<i8").tobytes()).hexdigest()
    assert digest == "92ed7820facba5c88e8b2823328a1c747eab9946ef06168a969347e866482004"


@pytest.mark.parametrize("bit", [0o004, 0o002, 0o001])
def test_a_root_key_that_every_account_can_access_is_refused(bit: int, tmp_path: Path) -> None:
    """Whoever reads it knows all noise, and whoever writes it chooses the noise. A group may have it."""
    path = tmp_path / "key"
    path.write_bytes(bytes(range(32)))
    path.chmod(0o600 | bit)
    with pytest.raises(ss.InvalidInputError, match="set its mode to 0600"):
        fetch_root_key(path)
    path.chmod(0o600)
    assert fetch_root_key(path) == bytes(range(32))
