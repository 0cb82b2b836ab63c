"""What `load` takes from others: signed by whom, under which agreement."""

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import streamsketch as ss
from streamsketch.errors import InvalidInputError, SignatureError, WireFormatError
from streamsketch.parties import Key, sign, signing
from streamsketch.products import SERVICES
from tests.parties.test_signing import AGREEMENT, NORTH, ONE, PROJECTION, SOUTH, a_release, everything

LOADED = ("PrivateSketch", "PrivateTable", "SignSketch", "SignTable")


def test_everything_that_is_published_is_loaded_by_who_signed_it(tmp_path: Path) -> None:
    for kind, path in everything(tmp_path).items():
        if kind not in LOADED:
            continue
        with pytest.raises(SignatureError, match=f"{kind} is not signed"):
            ss.load(path, signer=NORTH.public)
        sign(path, NORTH)
        assert ss.load(path, signer=NORTH.public) == ss.load(path)
        assert ss.load(path, signer=[SOUTH.public, NORTH.public]) == ss.load(path)
        with pytest.raises(SignatureError, match="not by South"):
            ss.load(path, signer=SOUTH.public)
        path.write_bytes(ss.load(path).to_bytes() + b" ")
        with pytest.raises((SignatureError, WireFormatError)):
            ss.load(path, signer=NORTH.public)


def test_what_is_not_a_release_is_read_from_the_verified_bytes(tmp_path: Path) -> None:
    paths = everything(tmp_path)
    for path in paths.values():
        sign(path, NORTH)
    content = {kind: ss.parties.verify(path, NORTH.public).content for kind, path in paths.items()}
    assert ss.Agreement.from_json(content["Agreement"]) == AGREEMENT
    assert ss.local.MeanAggregator.from_bytes(content["MeanAggregator"]).count == 4
    assert ss.parties.Round.from_json(content["Round"]).parties == (NORTH.public, SOUTH.public)


@pytest.mark.parametrize("name", ["a.sketch", "a.parquet"])
def test_the_bytes_that_are_read_are_those_that_were_verified(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    table = PROJECTION.table()
    table.update(["a"], ["x"])
    release = table.release(epsilon=1.0, neighbours=ONE, keys_are_public=True)
    signed: Any = release if name.endswith("parquet") else release["a"]
    other: Any = table.release(epsilon=1.0, neighbours=ONE, keys_are_public=True)
    signed.save(path)
    sign(path, NORTH)
    verify = signing.verify

    def swapping(*arguments: Any, **options: Any) -> Any:
        found = verify(*arguments, **options)
        with path.open("r+b") as file:  # in place: who has the file open sees it
            file.write((other if name.endswith("parquet") else other["a"]).to_bytes())
            file.truncate()
        return found

    SERVICES.enter("signatures", swapping)
    try:
        assert ss.load(path, signer=NORTH.public) == signed
    finally:
        SERVICES.enter("signatures", verify)
    assert ss.load(path) != signed


def test_another_agreement_is_refused_in_files_and_bytes(tmp_path: Path) -> None:
    path = a_release(tmp_path)
    released = ss.load(path, expect=AGREEMENT)
    assert ss.load(path, expect=AGREEMENT.fingerprint) == ss.load(path, expect=PROJECTION) == released
    assert ss.PrivateSketch.from_bytes(path.read_bytes(), expect=AGREEMENT) == released
    other = AGREEMENT.replace(missing="drop")
    nothing = PROJECTION.sketch().release(epsilon=1.0, neighbours=ONE)
    nothing.save(tmp_path / "none.sketch")
    elsewhere = AGREEMENT.replace(projection=ss.SJLT(sketch_dim=64, sparsity=4, seed=8))
    for name, expect, said in (
        ("a.sketch", other, f"agreement is {AGREEMENT.fingerprint}, and {other.fingerprint} was expected"),
        ("a.sketch", other.fingerprint, f"and {other.fingerprint} was expected"),
        ("none.sketch", AGREEMENT, "agreement: names none"),
        ("a.sketch", elsewhere, "projection is not the expected one"),
    ):
        for read in (ss.load, lambda path, **given: ss.PrivateSketch.from_bytes(path.read_bytes(), **given)):
            with pytest.raises(WireFormatError, match=said) as caught:
                read(tmp_path / name, expect=expect)
            assert (str(tmp_path / name) in str(caught.value)) == (read is ss.load)
    with pytest.raises(InvalidInputError, match="fingerprint"):
        ss.load(path, expect="sales.json")
    with pytest.raises(TypeError, match="expect a Projection"):
        ss.load(path, expect=7)  # type: ignore[arg-type]


def test_a_pipe_is_verified_as_well(tmp_path: Path) -> None:
    path, pipe = a_release(tmp_path), tmp_path / "pipe"
    os.mkfifo(pipe)
    sign(path, NORTH).rename(tmp_path / "pipe.intoto.jsonl")
    for data, sound in ((path.read_bytes(), True), (a_release(tmp_path, "b.sketch").read_bytes(), False)):
        writer = threading.Thread(target=pipe.write_bytes, args=(data,))
        writer.start()
        if sound:
            assert ss.load(pipe, signer=NORTH.public) == ss.load(path)
        else:
            with pytest.raises(SignatureError, match=r"is of another file, a\.sketch"):
                ss.load(pipe, signer=NORTH.public)
        writer.join()


def test_files_are_loaded_without_cryptography_and_signers_name_the_extra(tmp_path: Path) -> None:
    path = a_release(tmp_path)
    (tmp_path / "key").write_text(Key.generate().public.to_text())
    code = (
        "import sys\n"
        "sys.modules['cryptography'] = None\n"
        "import streamsketch as ss\n"
        f"print(ss.load({str(path)!r}).guarantee.epsilon)\n"
        f"ss.load({str(path)!r}, signer=object())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603
    assert done.stdout == "1.0\n"
    assert done.stderr.splitlines()[-1].endswith("need cryptography (the extra `parties` of streamsketch)")
