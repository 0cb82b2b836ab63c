"""Output in encodings that lack characters, and names of files that are not UTF-8: no command ends in a traceback."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import streamsketch as ss
from streamsketch.core.libraries import pa, pq
from streamsketch.storage import save_raw
from streamsketch.storage.sketches import RawSketch
from tests.cli.agreeing import TERMS
from tests.cli.running import ENVIRONMENT, Forks
from tests.cli.test_help import COMMANDS, GROUPS
from tests.patience import PATIENCE

ENCODINGS = ["cp1252", "latin-1", "cp437", "gbk", "utf-16", "koi8-r"]
PROJECTION = ss.SJLT(sketch_dim=64, sparsity=4, seed=3)
READING = [
    "compare two.parquet",
    "compare two.parquet --by cosine",
    "explain two.parquet",
    "nearest two.parquet",
    "frequency two.parquet --items tea,jam",
    "history two.parquet",
    "plan --epsilon 1 --squared-distance 4000",
    "guide",
    "guide two-parties",
    "sketch missing-Łódź.csv --index item --projection p.json -o 漢.raw-sketch",
    "release raw.raw-sketch --epsilon 1 --l1 1 --dry-run",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("encodings")
    table = PROJECTION.table()
    for key in ("Łódź", "漢字", "😀"):
        table.update([key] * 200, PROJECTION.indices_of([f"{key} {item % 17}" for item in range(200)]), [1.0] * 200)
    table.release(epsilon=5.0, neighbours=ss.L1(1), keys_are_public=True).save(made / "two.parquet")
    save_raw(RawSketch(PROJECTION.sketch(), 1), made / "raw.raw-sketch")
    (made / "p.json").write_text(PROJECTION.to_json())
    return made


@pytest.mark.parametrize("command", ["", *GROUPS, *COMMANDS])
def test_every_command_shows_its_help_in_every_encoding(command: str, folder: Path, forks: Forks) -> None:
    for encoding in ("cp1252", "gbk"):
        done = forks.run(*command.split(), "--help", cwd=folder, encoding=encoding)
        assert (done.returncode, done.stderr) == (0, "")
        assert "streamsketch" in done.stdout


@pytest.mark.parametrize(
    ("command", "encoding"),
    [
        pytest.param(command, encoding, marks=[pytest.mark.long] * ((place + turn) % 3 > 0))
        for place, command in enumerate(READING)
        for turn, encoding in enumerate(ENCODINGS)
    ],
)
def test_results_and_mistakes_are_printed_in_every_encoding(
    command: str, encoding: str, folder: Path, forks: Forks
) -> None:
    plain = forks.run(*command.split(), cwd=folder)
    done = forks.run(*command.split(), cwd=folder, encoding=encoding)
    assert done.returncode == plain.returncode
    assert "Traceback" not in done.stderr
    assert bool(done.stdout) == bool(plain.stdout)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("command", ["compare two.parquet", "explain two.parquet", "nearest two.parquet"])
def test_json_is_the_same_json_in_every_encoding(command: str, encoding: str, folder: Path, forks: Forks) -> None:
    plain = forks.run(*command.split(), "--json", cwd=folder)
    done = forks.run(*command.split(), "--json", cwd=folder, encoding=encoding)
    assert (done.returncode, plain.returncode) == (0, 0), done.stderr
    assert json.loads(done.stdout) == json.loads(plain.stdout)
    wrong = forks.run("explain", "漢😀.sketch", "--json", cwd=folder, encoding=encoding)
    assert "漢😀.sketch" in json.loads(wrong.stderr)["error"]["message"]
    assert wrong.returncode == 2


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_a_process_of_its_own_prints_in_the_encoding_of_its_environment(encoding: str, folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "streamsketch", "explain", "two.parquet"], cwd=folder, capture_output=True, check=False,
        env=ENVIRONMENT | {"PYTHONIOENCODING": encoding}, timeout=PATIENCE,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")


def test_names_of_files_need_not_be_utf8(tmp_path: Path, forks: Forks) -> None:
    odd = os.fsdecode(b"odd \xff")
    (tmp_path / "p.json").write_text(PROJECTION.to_json())
    (tmp_path / f"{odd}.csv").write_text("item,n\ntea,1\njam,2\n")
    (tmp_path / f"{odd}.jsonl").write_text('{"item": "tea", "n": 1}\n{"item": "jam", "n": 2}\n')
    (tmp_path / f"{odd}.txt").write_text("tea\njam\n")
    pq.write_table(pa.table({"item": ["tea", "jam"], "n": [1, 2]}), tmp_path / "plain.parquet")
    (tmp_path / "plain.parquet").rename(tmp_path / f"{odd}.parquet")
    states = []
    for form in ("csv", "jsonl", "parquet"):
        out = f"{form}{odd}.raw-sketch"
        options = ["--index", "item", "--value", "n", "--projection", "p.json", "-o", out]
        forks.succeeded("sketch", f"{odd}.{form}", *options, cwd=tmp_path)
        states.append(ss.storage.load_raw(tmp_path / out).state)
    assert states[0] == states[1] == states[2]
    release = f"csv{odd}.raw-sketch", "--epsilon", 5, "--l1", 1, "-o", f"{odd}.sketch", "--json"
    assert json.loads(forks.succeeded("release", *release, cwd=tmp_path))["file"] == f"{odd}.sketch"
    for command in ("explain",):
        forks.succeeded(command, f"{odd}.sketch", cwd=tmp_path)
    forks.succeeded("frequency", f"{odd}.sketch", "--dictionary", f"{odd}.txt", "--agreement", TERMS, cwd=tmp_path)
    wrong = forks.refused("sketch", f"{odd}.no.csv", "--index", "item", "--projection", "p.json", "-o", "z.raw-sketch",
                          cwd=tmp_path)  # fmt: skip
    assert r"odd \udcff.no.csv does not exist" in wrong


@pytest.mark.parametrize(
    "error",
    ['UnicodeDecodeError("utf-8", b"secret word", 0, 1, "why")', 'UnicodeEncodeError("ascii", "secret", 0, 1, "why")'],
)
@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_text_that_cannot_be_decoded_is_not_shown(error: str, more: list[str]) -> None:
    """The error of Python holds the whole text, which may be a key."""
    code = f"import streamsketch.cli.app as app\ndef fail(**_): raise {error}\napp.app = fail\napp.main()"
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code, *more],
        capture_output=True,
        check=False,
        env=ENVIRONMENT,
        timeout=PATIENCE,
        text=True,
    )
    assert done.returncode == 2
    assert "cannot be read or written as UTF-8" in done.stderr
    assert "secret" not in done.stdout + done.stderr
