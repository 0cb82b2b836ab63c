"""What a study of accuracy or a paper's figure returns: tables, pictures, and what was found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from matplotlib.figure import Figure

from benchmarks.verdicts import Check

Cell = str | int | float | bool | None


@dataclass(frozen=True)
class Table:
    """Figures with names: one tuple a row, a cell for each column.

    Parameters
    ----------
    title
        What is tabulated.
    columns, rows
        Names of columns, and the rows.
    shown
        Whether BENCHMARKS.md shows it: a reader decides by it, and it is short. Others are in the JSON file.
    """

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]
    shown: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the table for JSON."""
        shown = {"shown": True} if self.shown else {}
        return {"title": self.title, **shown, "columns": list(self.columns), "rows": [list(row) for row in self.rows]}


@dataclass(frozen=True)
class Study:
    """A study's results.

    Parameters
    ----------
    tables
        What was measured or computed.
    finding
        What was found, where it differs from the theory or the paper, and why: a paragraph or two of Markdown. Figures
        in it come from this very run, or it says of which run they are. It gives no verdict: that is computed. Its
        first sentences are what BENCHMARKS.md says: begin with what a reader decides by.
    pictures
        Name → picture; the name becomes a file name behind the study's own.
    source
        What of which paper it computes: "Asi et al. 2023, Figure 1". Empty if nothing.
    checks
        Statements of the paper or the theory, with tolerances; the verdict is computed from them.
    shortened
        Empty if run at the paper's full size; otherwise what was shortened, why, and the cost of the rest in hours of
        one core, computed or measured.
    """

    tables: Sequence[Table]
    finding: str
    pictures: Mapping[str, Figure] = field(default_factory=dict)
    source: str = ""
    checks: Sequence[Check] = ()
    shortened: str = ""
