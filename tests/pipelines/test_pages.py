"""The commands of jobs on the pages about clusters are right, as far as one machine can tell."""

import importlib
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from pipelines import private_distances, stream_distances

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "docs" / "how-to" / f"{name}.md" for name in ("flink", "dataflow", "kafka", "operate")]
TEXT = "\n".join(page.read_text() for page in PAGES)
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
COMMANDS = [
    line for _, text in BLOCKS for line in text.replace("\\\n", " ").splitlines() if "private_distances" in line
]
WATCH = [line for _, text in BLOCKS for line in text.replace("\\\n", " ").splitlines() if "stream_watch" in line]
STREAMS = [line for _, text in BLOCKS for line in text.replace("\\\n", " ").splitlines() if "stream_distances" in line]
LINES_OF_OPTIONS = [line.strip() for line in TEXT.splitlines() if line.startswith("    --")]


def arguments_of(command: str) -> list[str]:
    return shlex.split(command.partition("pipelines.private_distances")[2])


def check(arguments: list[str]) -> None:
    """End as the job would if it or Beam does not know an option."""
    parser = private_distances._parser()
    _, rest = parser.parse_known_args(arguments)
    private_distances._beam_options(parser, rest)


def test_no_block_is_left_out() -> None:
    assert {language for language, _ in BLOCKS} == {"sh", "Dockerfile"}
    assert len(COMMANDS) == 4
    assert len(LINES_OF_OPTIONS) == 2


@pytest.mark.parametrize("command", COMMANDS)
def test_the_job_takes_the_options_of_every_command(command: str) -> None:
    check(arguments_of(command))


@pytest.mark.parametrize("line", LINES_OF_OPTIONS)
def test_the_job_takes_every_line_of_options(line: str) -> None:
    check([*arguments_of(COMMANDS[0]), *shlex.split(line)])


def test_the_stream_and_its_watch_take_the_options_of_their_commands() -> None:
    (stream,), (watch,) = STREAMS, WATCH
    known, _ = stream_distances.parsed(shlex.split(stream)[3:])
    assert known.sketch_dim == 1024
    pytest.importorskip("prometheus_client")
    watched = importlib.import_module("pipelines.stream_watch")._parser().parse_args(shlex.split(watch)[3:])
    assert (watched.stream, watched.start) == (known.stream, known.start)
    assert str(watched.alarms) == f"{known.claims}/{known.stream}.alarms"


def test_the_first_command_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert private_distances.main([*arguments_of(COMMANDS[0]), "--output", str(tmp_path)]) == 0
    assert (tmp_path / "distances.csv").is_file()


def test_the_make_targets_are_there() -> None:
    targets = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout  # noqa: S607
    for name in re.findall(r"(?m)(?:^|`)make ([a-z-]+)", TEXT + (ROOT / "pipelines/README.md").read_text()):
        assert re.search(rf"^{name} ", targets, re.MULTILINE), name
