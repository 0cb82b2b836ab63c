"""What a study of accuracy or a paper's figure returns: tables, pictures, and what was found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from matplotlib.figure import Figure

Cell = str | int | float | bool | None


@dataclass(frozen=True)
class Table:
    """Figures with names: one tuple a row, a cell for each column."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]

    def to_dict(self) -> dict[str, Any]:
        """Return the table for JSON."""
        return {"title": self.title, "columns": list(self.columns), "rows": [list(row) for row in self.rows]}


@dataclass(frozen=True)
class Study:
    """A study's results.

    Parameters
    ----------
    tables
        What was measured or computed.
    finding
        Where it agrees with the theory or the paper, where it differs and why: a paragraph or two of Markdown. Figures
        in it come from this very run, or it says of which run they are.
    pictures
        Name → picture; the name becomes a file name behind the study's own.
    """

    tables: Sequence[Table]
    finding: str
    pictures: Mapping[str, Figure] = field(default_factory=dict)
