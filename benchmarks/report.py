"""Where results go: a table on the terminal; JSON, Markdown and pictures on disk."""

import io
import json
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks import drawing, machine, markdown
from benchmarks.data import Data
from benchmarks.registry import Entry
from benchmarks.rows import Effort
from benchmarks.study import Study
from benchmarks.verdicts import verdict

Result = dict[str, Any]
"""What stands in a JSON file."""

_COLOURS = 64


def measure(entry: Entry, effort: Effort, data: Data, folder: Path) -> Result:
    """Run an entry, write ``<command>-<name>.json``, ``.md`` and pictures, and return what the JSON holds."""
    title, start = entry.title, time.perf_counter()
    outcome = entry.run(effort, data)
    result: Result = {
        "command": entry.command,
        "name": entry.name,
        "title": title,
        "effort": effort.name,
        "ran": _command(entry, effort, data),
        "seconds": round(time.perf_counter() - start, 1),
        "machine": machine.card(),
    }
    pictures: Mapping[str, Figure]
    if isinstance(outcome, Study):
        result |= {
            "source": outcome.source,
            "shortened": outcome.shortened,
            "verdict": verdict([check.holds for check in outcome.checks]),
            "checks": [check.to_dict() for check in outcome.checks],
            "tables": [table.to_dict() for table in outcome.tables],
            "finding": outcome.finding,
        }
        pictures = outcome.pictures
    else:
        result["rows"] = [row.to_dict() for row in outcome]
        figure = drawing.speed_ups(title, result["rows"])
        pictures = {} if figure is None else {"ratios": figure}
    stem = f"{entry.command}-{entry.name}"
    result["pictures"] = {name: f"{stem}-{name}.png" if name else f"{stem}.png" for name in pictures}
    result = plain(result)
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in pictures.items():
        (folder / result["pictures"][name]).write_bytes(png(figure))
    (folder / f"{stem}.json").write_text(text(result), encoding="utf-8")
    (folder / f"{stem}.md").write_text(markdown.section(result), encoding="utf-8")
    return result


def _command(entry: Entry, effort: Effort, data: Data) -> str:
    """Return the command that measures an entry again."""
    quick = " --quick" if effort.name == "quick" else ""
    return f"python -m benchmarks {entry.command} {entry.name}{quick}" + (" --data DIR" if data.folder else "")


def text(result: Result) -> str:
    """Return a result as JSON that `git diff` shows well: each row of a table is a line."""
    return _json(result, "") + "\n"


def _json(value: Any, indent: str) -> str:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if not any(isinstance(item, dict | list) for item in items):
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    inner = f"{indent}  "
    if isinstance(value, dict):
        lines = [f"{inner}{json.dumps(key, ensure_ascii=False)}: {_json(item, inner)}" for key, item in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    return "[\n" + ",\n".join(inner + _json(item, inner) for item in value) + f"\n{indent}]"


def show(console: Console, result: Result) -> None:
    """Print an entry's tables, what a study found, and its checks."""
    for title, columns, rows, colours in (*markdown.tables(result), *markdown.checks(result)):
        table = Table(title=escape(title or result["title"]), title_justify="left")
        for column in columns:
            table.add_column(escape(column))
        for row, colour in zip(rows, colours, strict=True):
            table.add_row(*map(escape, row), style=colour)
        console.print(table)
    if "finding" in result:
        console.print(result["finding"], markup=False, highlight=False)
        console.print(markdown.size(result), markup=False, highlight=False)


def plain(value: Any) -> Any:
    """Return a value of JSON's types: NumPy's numbers made Python's, infinities text and NaN null."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("∞" if value > 0 else "-∞")
    return value


def png(figure: Figure, dpi: int = 100) -> bytes:
    """Return a figure as a small PNG, of few colours and without a date."""
    figure.set_dpi(dpi)
    figure.set_facecolor("white")
    canvas, content = FigureCanvasAgg(figure), io.BytesIO()
    canvas.draw()  # once: `savefig` would draw twice, to find the layout first
    image = Image.frombuffer("RGBA", canvas.get_width_height(), canvas.buffer_rgba(), "raw", "RGBA", 0, 1)
    image.convert("RGB").quantize(_COLOURS).save(content, format="PNG", optimize=True)
    return content.getvalue()
