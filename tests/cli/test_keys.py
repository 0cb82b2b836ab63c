"""key, sign, verify, and --signer of the commands that read what others made."""

import json
import os
import pty
import subprocess
import termios
import time
from pathlib import Path

import pytest

import streamsketch as ss
from streamsketch.parties import Key, PublicKey, sign
from tests.cli.running import ENVIRONMENT, Forks
from tests.patience import PATIENCE

PROJECTION = ss.SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=3)
ONE = ss.L1(1, unit="sale")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with two releases, signs, and the keys of two parties."""
    for name in ("a", "b"):
        sketch = PROJECTION.sketch()
        sketch.update([1, 2], [500, 700])
        sketch.release(epsilon=1.0, neighbours=ONE).save(tmp_path / f"{name}.sketch")
        ss.signs.DPSignLogistic(epsilon=1, neighbours=ONE).release(sketch).save(tmp_path / f"{name}.signs")
    for name in ("north", "south"):
        key = Key.generate(name.title())
        key.save(tmp_path / f"{name}.pem")
        (tmp_path / f"{name}.pub").write_text(key.public.to_text())
    return tmp_path


def test_a_key_is_made_with_its_public_half_beside_it(tmp_path: Path, forks: Forks) -> None:
    made = json.loads(forks.succeeded("party", "key", "new", "west.pem", "--name", "West", "--json", cwd=tmp_path))
    assert (tmp_path / "west.pem").stat().st_mode & 0o777 == 0o600
    public = PublicKey.from_text((tmp_path / "west.pub").read_text())
    assert made == {"name": "West", "fingerprint": public.fingerprint, "public_key": public.to_text()}
    assert Key.load(tmp_path / "west.pem", name="West").public == public
    for file in ("west.pem", "west.pub"):
        assert json.loads(forks.succeeded("party", "key", "show", file, "--json", cwd=tmp_path)) == made
        assert public.fingerprint in forks.succeeded("party", "key", "show", file, cwd=tmp_path)
    assert "already exists" in forks.refused("party", "key", "new", "west.pem", "--name", "West", cwd=tmp_path)
    assert "named *.pem" in forks.refused("party", "key", "new", "west.key", "--name", "West", cwd=tmp_path)
    assert "printable" in forks.refused("party", "key", "new", "east.pem", "--name", "a\u202eb", cwd=tmp_path)
    (tmp_path / "bad.pub").write_bytes(b"\xff")
    (tmp_path / "worse.pub").write_text("hello")
    for file in ("bad.pub", "worse.pub"):
        assert f"{file} holds no public key" in forks.refused("party", "key", "show", file, cwd=tmp_path)


def test_a_passphrase_comes_from_a_file_the_environment_or_a_terminal(
    tmp_path: Path, forks: Forks, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pass").write_text("correct horse\n")
    monkeypatch.setitem(ENVIRONMENT, "STREAMSKETCH_PASSPHRASE_FILE", "pass")
    forks.succeeded("party", "key", "new", "west.pem", "--name", "W", "--protect", cwd=tmp_path)
    assert b"ENCRYPTED" in (tmp_path / "west.pem").read_bytes()
    forks.succeeded("party", "key", "show", "west.pem", cwd=tmp_path)
    monkeypatch.delitem(ENVIRONMENT, "STREAMSKETCH_PASSPHRASE_FILE")
    assert "no terminal to ask at" in forks.refused("party", "key", "show", "west.pem", cwd=tmp_path)
    monkeypatch.setitem(ENVIRONMENT, "STREAMSKETCH_PASSPHRASE", "correct horse")
    forks.succeeded("party", "key", "show", "west.pem", cwd=tmp_path)
    monkeypatch.setitem(ENVIRONMENT, "STREAMSKETCH_PASSPHRASE", "wrong")
    assert "passphrase is wrong" in forks.refused("party", "key", "show", "west.pem", cwd=tmp_path)
    monkeypatch.delitem(ENVIRONMENT, "STREAMSKETCH_PASSPHRASE")
    ours, theirs = pty.openpty()
    asked = ["party", "key", "show", "west.pem", "--json"]
    with forks.started(asked, tmp_path, TAKE_TERMINAL, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs) as running:
        seen = b""
        while b"Passphrase of west.pem" not in seen:
            seen += os.read(ours, 1000)
        while termios.tcgetattr(theirs)[3] & termios.ECHO:  # what is typed before would be thrown away
            time.sleep(0.01)
        os.write(ours, b"correct horse\n")
        assert json.loads(running.stdout.read())["name"] == "W"
        assert running.wait(PATIENCE) == 0
    os.close(ours)
    os.close(theirs)
    assert b"horse" not in seen


TAKE_TERMINAL = "import fcntl, os, termios\nos.setsid()\nfcntl.ioctl(0, termios.TIOCSCTTY, 0)"


def test_a_file_is_signed_and_verified(folder: Path, forks: Forks) -> None:
    shown = forks.succeeded(
        "party", "sign", "a.sketch", "b.sketch", "--key", "north.pem", "--expires", "2099-01-01", cwd=folder
    )
    assert "North (" in shown
    (one,) = json.loads(forks.succeeded("party", "verify", "a.sketch", "--signer", "north.pub", "--json", cwd=folder))
    assert (one["file"], one["holds"], one["agreement"], one["receipt"]) == ("a.sketch", "PrivateSketch", None, None)
    assert one["guarantee"].startswith("ε = 1, δ = 0 for one sale")
    assert one["expires"] == "2099-01-02T00:00:00+00:00"
    both = ("--signer", "south.pub", "--signer", "north.pub")
    assert "ε = 1" in forks.succeeded("party", "verify", "a.sketch", "b.sketch", *both, cwd=folder)
    for file, signers, why in (
        ("a.sketch", ["--signer", "south.pub"], "not by South"),
        ("a.signs", both, "not signed"),
    ):
        done = forks.run("party", "verify", file, *signers, cwd=folder)
        assert (done.returncode, done.stdout) == (1, "")
        assert why in done.stderr
    assert "state whose signature" in forks.refused("party", "verify", "a.sketch", cwd=folder)
    assert "expires must be in the future" in forks.refused(
        "party", "sign", "a.signs", "--key", "north.pem", "--expires", "2020-01-01", cwd=folder
    )
    receipt = f"7:{'ab' * 32}"
    forks.succeeded("party", "sign", "a.sketch", "--key", "north.pem", "--receipt", receipt, "--json", cwd=folder)
    (one,) = json.loads(forks.succeeded("party", "verify", "a.sketch", *both, "--json", cwd=folder))
    assert one["receipt"] == receipt
    assert "NUMBER:DIGEST" in forks.refused(
        "party", "sign", "a.signs", "--key", "north.pem", "--receipt", "7", cwd=folder
    )
    assert "does not hold" in forks.refused("party", "sign", "a.signs", "--key", "north.pub", cwd=folder)
    assert "other files cannot be signed" in forks.refused(
        "party", "sign", "south.pem", "--key", "north.pem", cwd=folder
    )


def test_a_table_is_signed_inside(folder: Path, forks: Forks) -> None:
    ss.PrivateTable({"a": ss.load(folder / "a.sketch")}).save(folder / "t.parquet")
    forks.succeeded("party", "sign", "t.parquet", "--key", "north.pem", "--inside", cwd=folder)
    assert not (folder / "t.parquet.intoto.jsonl").exists()
    assert "PrivateTable" in forks.succeeded("party", "verify", "t.parquet", "--signer", "north.pub", cwd=folder)
    assert "is not a table" in forks.refused("party", "sign", "a.sketch", "--key", "north.pem", "--inside", cwd=folder)


def test_a_key_that_others_can_read_is_warned_of(folder: Path, forks: Forks) -> None:
    (folder / "north.pem").chmod(0o640)
    done = forks.run("party", "sign", "a.sketch", "--key", "north.pem", cwd=folder)
    assert done.returncode == 0
    assert "others can read north.pem: chmod 600 north.pem" in done.stderr


READING = [
    ("compare", "{a}", "{b}"),
    ("nearest", "{a}", "{b}"),
    ("explain", "{a}", "{b}"),
    ("explain", "{a}"),
]
SKETCHES_ONLY = [
    ("merge", "--mean", "{a}", "{b}", "--populations", "overlapping", "-o", "mean.sketch"),
    ("merge", "{a}", "{b}", "--populations", "overlapping", "-o", "sum.sketch"),
    ("report", "{a}", "{b}", "-o", "report.html"),
]
CASES = [(case, suffix) for case in READING for suffix in ("sketch", "signs")]
CASES += [(case, "sketch") for case in SKETCHES_ONLY]


@pytest.mark.parametrize(("case", "suffix"), CASES, ids=lambda one: one if isinstance(one, str) else one[0])
def test_commands_take_only_what_a_signer_signed(
    case: tuple[str, ...], suffix: str, folder: Path, forks: Forks
) -> None:
    arguments = [part.format(a=f"a.{suffix}", b=f"b.{suffix}") for part in case]
    assert "is not signed" in forks.refused(*arguments, "--signer", "north.pub", cwd=folder)
    key = Key.load(folder / "north.pem")
    for name in ("a", "b"):
        sign(folder / f"{name}.{suffix}", key)
    assert "not by South" in forks.refused(*arguments, "--signer", "south.pub", cwd=folder)
    forks.succeeded(*arguments, "--signer", "north.pub", cwd=folder)


def test_raw_files_are_nobodys_to_sign(folder: Path, forks: Forks) -> None:
    ss.storage.save_raw(PROJECTION.sketch(), folder / "own.raw-sketch")
    assert "is your own" in forks.refused("explain", "own.raw-sketch", "--signer", "north.pub", cwd=folder)
    (folder / "other.raw-sketch").write_bytes((folder / "own.raw-sketch").read_bytes())
    raws = ("own.raw-sketch", "other.raw-sketch", "-o", "all.raw-sketch")
    assert "are your own" in forks.refused("merge", *raws, "--signer", "north.pub", cwd=folder)


WITHOUT_CRYPTOGRAPHY = """
import sys

for name in [*sys.modules]:
    if name.startswith(("cryptography", "streamsketch.cli", "streamsketch.parties")):
        del sys.modules[name]
sys.modules["cryptography"] = None
from streamsketch.cli.app import main
main()
"""


@pytest.mark.parametrize(
    "asked", ["party key show north.pub", "explain a.sketch --signer north.pub", "party verify a.sketch"]
)
def test_without_the_extra_commands_name_it(asked: str, folder: Path, forks: Forks) -> None:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with forks.started(asked.split(), folder, WITHOUT_CRYPTOGRAPHY, **pipes) as running:
        shown, said = running.stdout.read().decode(), running.stderr.read().decode()
        assert (running.wait(PATIENCE), shown) == (2, "")
    assert said.startswith("error: ")
    assert said.count("\n") == 1, "one sentence"
    assert "need cryptography (the extra `parties` of streamsketch)" in said
