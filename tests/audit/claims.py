"""The claims of the library: rows of ``claims.toml``, and the page that shows them."""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
FILE = Path(__file__).with_name("claims.toml")
DOCS = ROOT / "docs"
PAGE = DOCS / "explanation" / "audit.md"


@dataclass(frozen=True)
class Claim:
    """One row.

    Parameters
    ----------
    name
        A short name in letters and hyphens, by which pages refer to the row.
    group
        The heading under which the row stands.
    claim
        A sentence that can be false.
    place
        Where the code is that makes it true: ``privacy/laplace.py:DiscreteLaplace``, below ``streamsketch``.
    run
        What is run, in words.
    theorem
        The title of a section of the theory, or another source in words; empty if the claim follows from none.
    section
        The page and the anchor of that section, below ``docs/explanation``.
    tests
        Arguments of pytest.
    command
        Words of a command instead of tests, run in `folder`.
    folder
        Below the repository.
    margin
        The unit of the smallest margin; empty if none is measured.
    """

    name: str
    group: str
    claim: str
    place: str
    run: str
    theorem: str = ""
    section: str = ""
    tests: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    folder: str = ""
    margin: str = ""

    @property
    def files(self) -> tuple[str, ...]:
        """The files or folders of the tests, each once."""
        return tuple(dict.fromkeys(test.partition("::")[0] for test in self.tests))

    def covers(self, name: str) -> bool:
        """Return whether a test, by its full name, is one of the claim's."""
        return any(name.startswith(test) and name[len(test) :][:1] in ("", "/", ":", "[") for test in self.tests)

    def problem(self) -> str | None:  # noqa: PLR0911 - one return for each kind of mistake
        """Return what is wrong with the row; None if nothing is."""
        file, _, name = self.place.partition(":")
        path = ROOT / "streamsketch" / file
        if not path.is_file() or (name and not re.search(rf"\b{re.escape(name)}\b", path.read_text(encoding="utf-8"))):
            return f"{self.place} is not in the library"
        if missing := [one for one in self.files if not (ROOT / one).exists()]:
            return f"{', '.join(missing)} does not exist"
        for test in self.tests:
            file, _, name = test.partition("::")
            if name and f"def {name}(" not in (ROOT / file).read_text(encoding="utf-8"):
                return f"{file} has no test {name}"
        if bool(self.tests) == bool(self.command):
            return "it has tests or a command, one of the two"
        page, _, anchor = self.section.partition("#")
        if bool(self.section) > bool(self.theorem) or (page and not (PAGE.parent / page).is_file()):
            return f"{self.section} is not a page of the theory"
        if anchor and anchor not in anchors_of((PAGE.parent / page).read_text(encoding="utf-8")):
            return f"{page} has no section {anchor}"
        return None


def anchors_of(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and MyST make them."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def claims(file: Path = FILE) -> list[Claim]:
    """Return all rows, in the order of the file."""
    return [_claim(entry) for entry in tomllib.loads(file.read_text(encoding="utf-8"))["claim"]]


def _claim(entry: dict[str, Any]) -> Claim:
    fields: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()}
    return Claim(**fields)


_HEAD = """<!-- made by `make generated` of tests/audit/claims.toml -->

# What is claimed, and what checks it

Each row is a claim of this library, the theorem it rests on, the code that makes it true and the tests that check it.
`make audit` runs all of them with fresh randomness, in two minutes on two cores. It prints this table with the number
of cases and the smallest margin, which is how far the worst case was from failing. A statistical test fails a right
library with a small probability, which it states; it then runs again with other randomness. Anyone can run the audit,
and can [break the library first](#does-the-audit-see-faults). **No third party has audited this code.**
"""

_FOOT = """
## Does the audit see faults?

`make faults` puts small faults into the library, such as a forgotten factor or a missing check, and runs the tests that
should notice each. It prints the share that was noticed, by folder. Of those that concern privacy, all have to be.
`make test-salted` runs the tests with other randomness. It compares how often each rejects a right library with the
rate that it states.
"""


def page(rows: list[Claim] | None = None) -> str:
    """Return the page of the site."""
    groups: dict[str, list[Claim]] = {}
    rows = claims() if rows is None else rows
    numbers = numbers_of(rows)
    for row in rows:
        groups.setdefault(row.group, []).append(row)
    parts = [_HEAD]
    for group, each in groups.items():
        lines = [f"\n## {group}\n"]
        lines += ["| row | claim | theorem | code | what is run |", "| --- | --- | --- | --- | --- |"]
        lines += [_line(row, numbers[row.name]) for row in each]
        parts.append("\n".join(lines) + "\n")
    return "".join([*parts, _FOOT])


def numbers_of(rows: list[Claim]) -> dict[str, int]:
    """Return the number of each row on the page, by its name."""
    return {row.name: number for number, row in enumerate(rows, 1)}


def anchor_of(group: str) -> str:
    """Return the anchor of a group's heading on the page."""
    return group.lower().replace(" ", "-")


def footnote(row: Claim, number: int, folder: str = "explanation/") -> str:
    """Return the link by which a page refers to a row."""
    raised = str(number).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"[{raised}]({folder}audit.md#{anchor_of(row.group)})"


FOOTNOTE = re.compile(r"\[([⁰¹²³⁴⁵⁶⁷⁸⁹]+)\]\((?:[\w./]*/)?audit\.md#([\w-]+)\)")
"""A link to a row: its number, and the anchor of its group."""


def sentences_of(text: str) -> list[str]:
    """Return the sentences of a page, with their links, and each row of a table as one; no headings and no code."""
    text = re.sub(r"^```.*?^```\n|^<!--.*?-->\n|^#[^\n]*\n", "\n", text, flags=re.MULTILINE | re.DOTALL)
    parts: list[str] = []
    for block in re.split(r"\n\s*\n|\n(?=\d+\. |- |\|)", text):
        joined = re.sub(r"^(\d+\.|-) ", "", " ".join(block.split()))
        if joined.startswith("|"):
            parts += [joined] if re.search(r"\w", joined) else []
        else:
            found = re.split(r"(?<=[.?!:])((?:\[[⁰¹²³⁴⁵⁶⁷⁸⁹]+\]\([^)]*\))*)(?:\*\*)?\s+(?=[A-ZÀ-Ýε`*\[])", joined)
            parts += ["".join(pair) for pair in zip(found[::2], [*found[1::2], ""], strict=True)]
    return [part for part in parts if part]


def _line(row: Claim, number: int) -> str:
    theorem = f"[{row.theorem}]({row.section})" if row.section else row.theorem
    checks = ", ".join(f"`{file}`" for file in row.files) or f"`{' '.join(row.command)}`"
    file, _, name = row.place.partition(":")
    code = f"`{name}` in `{file}`" if name else f"`{file}`"
    return f"| {number} | {row.claim} | {theorem or '–'} | {code} | {row.run}: {checks} |"
