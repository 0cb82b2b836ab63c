"""What there is to run: five commands, the entries of each by name."""

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks import accuracy, beam, speed, streams
from benchmarks.data import Data
from benchmarks.figures import afnnt, kkmm, ll, stausholm
from benchmarks.rows import Effort, Row
from benchmarks.study import Study

COMMANDS = {
    "speed": "Speed, as ratios to peers and limits within one run.",
    "accuracy": "What theory predicts beside what is observed.",
    "figures": "The papers' figures, computed again.",
    "beam": "Pipelines: events per second and memory.",
    "streams": "Endless jobs on Flink: events per second, delays, growth.",
}
STUDIES = ("accuracy", "figures")
"""Commands whose entries take data sets."""

# Folders, each with NAMES: name at the command line → module.
_FOLDERS: dict[str, tuple[tuple[str, Mapping[str, str]], ...]] = {
    "speed": (("benchmarks.speed", speed.NAMES),),
    "accuracy": (("benchmarks.accuracy", accuracy.NAMES),),
    "figures": tuple(
        (f"benchmarks.figures.{paper.__name__.rpartition('.')[2]}", paper.NAMES)
        for paper in (kkmm, stausholm, ll, afnnt)
    ),
    "beam": (("benchmarks.beam", beam.NAMES),),
    "streams": (("benchmarks.streams", streams.NAMES),),
}


@dataclass(frozen=True)
class Entry:
    """One benchmark or study, loaded when it is first asked for anything."""

    command: str
    name: str
    module: str

    @property
    def title(self) -> str:
        """The first line of the module's docstring, without its full stop."""
        return str(importlib.import_module(self.module).__doc__).partition("\n")[0].removesuffix(".")

    def run(self, effort: Effort, data: Data) -> Sequence[Row] | Study:
        """Run it: rows of times, or a study's tables, pictures and finding."""
        module = importlib.import_module(self.module)
        outcome: Sequence[Row] | Study = module.run(effort, data) if self.command in STUDIES else module.run(effort)
        return outcome


def entries(command: str) -> dict[str, Entry]:
    """Return a command's entries by name, in the order in which they run."""
    return {
        name: Entry(command, name, f"{folder}.{module}")
        for folder, names in _FOLDERS[command]
        for name, module in names.items()
    }
