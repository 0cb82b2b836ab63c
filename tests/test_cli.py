"""The command, through the real executable."""

import subprocess
import sys
from pathlib import Path

import pytest

import streamsketch as ss

PROJECTION = ss.SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=3)


def streamsketch(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("streamsketch")), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = []
    for name, count in (("north", 500), ("south", 520), ("[east]", 9000)):
        sketch = PROJECTION.sketch()
        sketch.update([1, 2], [count, 700])
        sketch.release(epsilon=1.0, neighbours=ss.L1(1, unit="sale")).save(tmp_path / f"{name}.sketch")
        paths.append(tmp_path / f"{name}.sketch")
    return paths


def test_inspect_shows_the_promise_and_the_size(files: list[Path]) -> None:
    done = streamsketch("inspect", files[0])
    shown = " ".join(done.stdout.split())
    assert done.returncode == 0
    assert "ε = 1, δ = 0 for one sale of at most 1 (L1), by discrete Laplace, scale 4" in shown
    assert PROJECTION.fingerprint in shown
    assert "95 % interval" in shown


def test_inspect_says_where_the_noise_was_added(tmp_path: Path) -> None:
    released = ss.release_vector(PROJECTION, [1] * 1000, epsilon=1.0, neighbours=ss.L1(1), noise_place="input")
    released.save(tmp_path / "a.sketch")
    shown = " ".join(streamsketch("inspect", tmp_path / "a.sketch").stdout.split())
    assert "noise per coordinate standard deviation" in shown
    assert "scale 1, on the input" in shown


def test_compare_lists_the_nearest_pair_first(files: list[Path]) -> None:
    done = streamsketch("compare", *files, "--confidence", "0.9")
    assert done.returncode == 0
    assert "90 % interval" in done.stdout
    lines = [line for line in done.stdout.splitlines() if "–" in line]
    assert "north – south" in lines[0]
    assert sum("[east]" in line for line in lines) == 2


def test_files_of_one_name_are_told_apart_by_their_folders(files: list[Path]) -> None:
    twin = files[0].parent / "other" / files[0].name
    twin.parent.mkdir()
    twin.write_bytes(files[1].read_bytes())
    shown = streamsketch("compare", files[0], twin).stdout.replace("\n", "")
    assert "other" in shown.replace(" ", "")


def test_version_and_help() -> None:
    assert streamsketch("--version").stdout.strip() == ss.__version__
    assert "compare" in streamsketch("--help").stdout


def mistakes(files: list[Path]) -> list[tuple[list[object], str]]:
    cut = files[0].with_name("cut.sketch")
    cut.write_bytes(files[0].read_bytes()[:-1])
    other = files[0].with_name("other.sketch")
    stranger = PROJECTION.replace(seed=4).sketch()
    stranger.release(epsilon=1.0, neighbours=ss.L1(1)).save(other)
    copied = files[0].with_name("copy.sketch")
    copied.write_bytes(files[0].read_bytes())
    return [
        (["compare", files[0]], "at least two files, got 1"),
        (["compare", files[0], files[0]], "named twice"),
        (["compare", files[0], copied], "share the noise"),
        (["compare", files[0], other], "seed (3 here, 4 there)"),
        (["compare", files[0], files[1], "--confidence", "95"], "confidence must lie in (0, 1), got 95.0"),
        (["inspect", cut], "cut off"),
        (["inspect", Path(__file__)], "bytes 0-7"),
        (["inspect", files[0].parent], "cannot be read: Is a directory"),
        (["inspect", "nowhere.sketch"], "cannot be read: No such file"),
    ]


def test_mistakes_are_sentences_on_stderr_with_status_two(files: list[Path]) -> None:
    for arguments, message in mistakes(files):
        done = streamsketch(*arguments)
        assert done.returncode == 2, arguments
        assert message in done.stderr
        assert done.stderr.startswith("error: ")
        assert "Traceback" not in done.stderr
        assert done.stdout == ""
