"""Where rows go: a table on the terminal, JSON and Markdown on disk."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import machine
from benchmarks.rows import Effort, Row, Target

_COLUMNS = ("", "ours", "others", "time ratio", "target", "met")


def show(console: Console, title: str, rows: Iterable[Row]) -> None:
    """Print rows as a table."""
    table = Table(title=title, title_justify="left")
    for column in _COLUMNS:
        table.add_column(column)
    for row in rows:
        colour = {None: "", True: "green", False: "red"}[row.met]
        table.add_row(*_texts(row), style=colour)
    console.print(table)


def write(folder: Path, benchmark: str, effort: Effort, rows: Sequence[Row]) -> None:
    """Write ``<benchmark>.json``, with the machine card, and ``<benchmark>.md``, a table to paste."""
    folder.mkdir(parents=True, exist_ok=True)
    results = {
        "benchmark": benchmark,
        "effort": effort.name,
        "machine": machine.card(),
        "rows": [row.to_dict() for row in rows],
    }
    (folder / f"{benchmark}.json").write_text(
        json.dumps(results, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    lines = [_COLUMNS, ("---",) * len(_COLUMNS), *(_texts(row) for row in rows)]
    text = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    (folder / f"{benchmark}.md").write_text(text, encoding="utf-8")


def _texts(row: Row) -> tuple[str, ...]:
    others = "; ".join(f"{name} {_figure(value)}" for name, value in row.others.items())
    ratio = ""
    if row.ratio is not None:
        ratio = _figure(row.ratio)
        if row.quartiles is not None:
            ratio += f" ({_figure(row.quartiles[0])}-{_figure(row.quartiles[1])})"
    met = {None: "", True: "yes", False: "no"}[row.met]
    return row.name, f"{_figure(row.ours)} {row.unit}", others, ratio, _target(row.target, row.unit), met


def _target(target: Target | None, unit: str) -> str:
    if target is None:
        return ""
    return f"≤ {target.at_most:g} {unit}" if target.quantity == "ours" else f"ratio ≤ {target.at_most:g}"


def _figure(value: float) -> str:
    """Return three digits, without exponents."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
