"""The distinguishing game: neighbouring data, noise that hides the difference, and everything else that is seen.

For neighbouring data x and x' a mechanism draws noise η for x with the same chance, up to e^ε, as it draws the noise
that gives the same cells for x'. So the game lets it draw exactly that: whatever the data, the published cells are the
written-down `TARGET`, and published signs are its signs. All other randomness comes from one written-down tape. What
still differs between the two worlds is then not explained by the noise, and a player who sees it wins.
"""

import contextlib
import hashlib
import importlib
import io
import itertools
import logging
import os
import pkgutil
import re
import secrets
import stat
import sys
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

import streamsketch
from streamsketch.core.numbers import Ints
from streamsketch.parties import Key
from streamsketch.privacy.gaussian import DiscreteGaussian
from streamsketch.privacy.laplace import DiscreteLaplace
from streamsketch.privacy.noise import Noise
from tests.audit.record import judged

Seen = dict[str, Any]

_ELSEWHERE = ("__main__", "integrations.flower", "integrations.nvflare")  # the latter need frameworks of their own
for _module in pkgutil.walk_packages(streamsketch.__path__, "streamsketch."):
    if not _module.name.endswith(_ELSEWHERE):
        importlib.import_module(_module.name)  # libraries read random bytes on import, which names do when first used


def target(size: int) -> Ints:
    """Return the cells that every release of this many cells shows."""
    return (np.arange(size) * 37) % 101 - 50


_urandom = os.urandom


def uuid4() -> uuid.UUID:
    """Return what Numba names the temporary files of its cache by, when it compiles.

    Not from the tape: processes that compile at once would write the same file, and a world that compiles reads more.
    """
    return uuid.UUID(bytes=_urandom(16), version=4)


def fixed_key(number: int, name: str) -> Key:
    """Return a key that no randomness is in: the library draws keys where no tape reaches."""
    signing, agreement = bytes([number]) * 32, bytes([number + 10]) * 32
    return Key(Ed25519PrivateKey.from_private_bytes(signing), X25519PrivateKey.from_private_bytes(agreement), name)


class Tape:
    """Bytes in place of the operating system's, the same in every world; knows how many were read."""

    def __init__(self) -> None:
        self.read = 0

    def urandom(self, size: int) -> bytes:
        self.read += 1
        return hashlib.shake_128(b"%d/%d" % (self.read, size)).digest(size)


@contextlib.contextmanager
def hidden(monkeypatch: pytest.MonkeyPatch, exact: Iterable[Ints]) -> Iterator[None]:
    """Let every noise that is drawn, and every row of flips, hide the next of the exact vectors.

    They are given in the order in which they are published, which must not depend on the data.
    """
    vectors = iter(exact)

    def sample(_: Any, size: int, __: Any) -> Ints:
        return target(size) - next(vectors)

    def sample_share(_: Any, __: int, size: int, ___: Any) -> Ints:
        return target(size) - next(vectors)

    def flips(levels: Ints, _: Any, __: Any) -> Ints:
        cells = next(vectors)
        assert levels.size == cells.size
        flipped: Ints = ((cells > 0) ^ (target(cells.size) > 0)).astype(np.int64)
        return flipped

    with monkeypatch.context() as patch:
        for noise in (DiscreteLaplace, DiscreteGaussian):
            patch.setattr(noise, "sample", sample)
            patch.setattr(noise, "sample_each", Noise.sample_each)  # by `sample`
            patch.setattr(noise, "sample_share", sample_share)
        patch.setattr("streamsketch.signs.publishers.flips", flips)
        yield


def sealed(content: bytes) -> bytes:
    """Return a file's content, and of a claim of a window's version all but its seal, 64 digits.

    A seal is a keyed hash of a random salt: as good as random without the key, and as long for all data.
    """
    return re.sub(rb"(streamsketch version 1 [0-9a-f]{32}) [0-9a-f]{64}\n", rb"\1 seal", content)


def files_in(folder: Path) -> dict[str, tuple[int, str, bytes]]:
    """Return the mode, kind and content of everything in a folder, by name."""
    found = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        content = (
            str(path.readlink()).encode() if path.is_symlink() else sealed(path.read_bytes()) if path.is_file() else b""
        )
        found[str(path.relative_to(folder))] = stat.S_IMODE(mode), stat.filemode(mode)[0], content
    return found


@contextlib.contextmanager
def observed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Seen]:
    """Collect what an outsider sees of what runs inside: random bytes asked for, output, logs, and how it ended."""
    seen: Seen = {}
    tape, out, err, logs = Tape(), io.StringIO(), io.StringIO(), io.StringIO()
    handler = logging.StreamHandler(logs)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s %(message)s"))
    with monkeypatch.context() as patch:
        patch.setattr(os, "urandom", tape.urandom)
        patch.setattr(secrets, "token_bytes", tape.urandom)
        patch.setattr(uuid, "uuid4", uuid4)
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        logging.getLogger().addHandler(handler)
        try:
            yield seen
            seen["end"] = "done"
        except Exception as error:  # noqa: BLE001 - whatever it is, it is seen
            seen["end"] = f"{type(error).__name__}: {error}"
        finally:
            logging.getLogger().removeHandler(handler)
    seen["random reads"] = tape.read
    seen["stdout"], seen["stderr"] = out.getvalue(), err.getvalue()
    seen["logs"] = logs.getvalue()


def differences(worlds: list[Seen]) -> list[str]:
    """Return the names of what is not the same in all worlds."""
    names = sorted({name for seen in worlds for name in seen})
    return [
        name for name in names if any(one.get(name) != other.get(name) for one, other in itertools.pairwise(worlds))
    ]


def assert_alike(worlds: list[Seen]) -> None:
    """Assert that no player tells the worlds apart, and that something was published in each."""
    told = {name: [seen.get(name) for seen in worlds] for name in differences(worlds)}
    judged(cases=len(worlds))
    assert not told, f"not explained by the noise: {told}"
