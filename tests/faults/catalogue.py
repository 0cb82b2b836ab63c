"""The faults of all files of this folder, and whether each can still be put into the library."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Self

ROOT = Path(__file__).parent.parent.parent
FOLDER = Path(__file__).parent
LIBRARY = ROOT / "streamsketch"


@dataclass(frozen=True)
class Fault:
    """One change of one source file, and the tests that must notice it.

    Parameters
    ----------
    name
        What the change forgets, in words.
    file
        The source file, below ``streamsketch``.
    before, after
        The text that is replaced, which the file has exactly once, and its replacement.
    tests
        Arguments of pytest: files, or tests.
    concerns
        ``"privacy"`` where the faulty library would reveal more than it states, ``"answers"`` where it would be wrong,
        ``"data"`` where it would lose or repeat rows.
    """

    name: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]
    concerns: str

    @classmethod
    def of(cls, entry: dict[str, object]) -> Self:
        """Return the fault that an entry of a file describes."""
        tests = entry.pop("tests")
        assert isinstance(tests, list)
        return cls(tests=tuple(tests), **entry)  # type: ignore[arg-type] # a wrong field is a TypeError

    @property
    def folder(self) -> str:
        """The folder of the library, such as ``privacy``."""
        return self.file.partition("/")[0]

    @property
    def source(self) -> str:
        """The text of the file, without the fault."""
        return (LIBRARY / self.file).read_text(encoding="utf-8")

    def problem(self) -> str | None:
        """Return why the fault cannot be put into the library as it is now."""
        if not (LIBRARY / self.file).is_file():
            return f"{self.file} does not exist"
        if (times := self.source.count(self.before)) != 1:
            return f"{self.file} has the replaced text {times} times, not once"
        missing = [test for test in self.tests if not (ROOT / test.partition("::")[0]).exists()]
        if missing or not self.tests:
            return f"the tests {missing} do not exist" if missing else "no test is named"
        if self.concerns not in ("privacy", "answers", "data"):
            return f"concerns is {self.concerns!r}, which is none of privacy, answers, data"
        return None


def faults() -> list[Fault]:
    """Return all faults, by file and in its order."""
    entries = [
        entry
        for path in sorted(FOLDER.glob("*.toml"))
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["fault"]
    ]
    return [Fault.of(entry) for entry in entries]
