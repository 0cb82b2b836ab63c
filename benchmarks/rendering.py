"""BENCHMARKS.md, a short page, from the JSON files that are kept of every benchmark and study."""

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks import drawing, markdown, report
from benchmarks.registry import entries
from benchmarks.report import Result

_HEADINGS = {
    "speed": "Speed",
    "beam": "Pipelines",
    "streams": "Streams",
    "accuracy": "Accuracy",
    "figures": "The papers' figures",
}
_FEW = 6
"""Rows of times that the page shows of a benchmark without targets."""
_HOW = """\
What one decides by, of the last run of each benchmark and study. Each name links to its JSON file, with every figure,
machine, date and command; `python -m benchmarks show NAME` prints it. [README.md](README.md) tells how to run them
and how they mislead. *Time ratio* is our time over that of the first beside it, the median over interleaved rounds:
below 1 ours is faster. Compare ratios, not times of different runs."""
_PAPERS = """\
Verdicts are computed from checks: a paper's statement, a tolerance, and what the run observed with its 95 %
half-width. A check cannot be told if that interval is partly outside the tolerance."""


def keep(run: Path, into: Path) -> list[str]:
    """Copy a run's results and pictures to ``results/`` and ``pictures/`` of a folder; return the stems of the results.

    A result replaces that of an earlier run with its pictures, but for the time ratios that were measured on other
    processors. Those of other benchmarks and studies stay.
    """
    kept, pictures = into / "results", into / "pictures"
    for folder in (kept, pictures):
        folder.mkdir(parents=True, exist_ok=True)
    read = results_in(run)
    for result in read:
        stem = _stem(result)
        if (kept / f"{stem}.json").exists():
            earlier = json.loads((kept / f"{stem}.json").read_text(encoding="utf-8"))
            for file in earlier["pictures"].values():
                (pictures / file).unlink(missing_ok=True)
            if others := _elsewhere(earlier, result):
                result["elsewhere"] = others
        for file in result["pictures"].values():
            shutil.copyfile(run / file, pictures / file)
        (kept / f"{stem}.json").write_text(report.text(result), encoding="utf-8")
    return [_stem(result) for result in read]


def write(into: Path) -> Path:
    """Write ``BENCHMARKS.md`` into a folder from its ``results/``, and return the page's path."""
    results = results_in(into / "results")
    parts = ["# Benchmarks", _HOW, *_targets(results, into / "pictures")]
    for command, heading in _HEADINGS.items():
        own = [result for result in results if result["command"] == command]
        if own:
            parts += [f"## {heading}", _machine(own), *([_PAPERS] if command == "figures" else ())]
            parts += _times([result for result in own if "rows" in result])
            for result in own:
                if "rows" not in result:
                    parts += _study(result, _date(own))
            absent = [name for name in entries(command) if name not in {result["name"] for result in own}]
            parts += [f"No run is kept of {', '.join(absent)}."] if absent else []
    page = into / "BENCHMARKS.md"
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return page


def result_of(name: str, into: Path) -> Result:
    """Return the result that is kept of a benchmark or study, by its name or with its command before it."""
    read = [result for result in results_in(into / "results") if name in (result["name"], _stem(result))]
    if len(read) != 1:
        raise LookupError(f"{len(read)} results in {into / 'results'} have the name {name}; give one as COMMAND-NAME")
    return read[0]


def results_in(folder: Path) -> list[Result]:
    """Return the results in a folder, in the order in which entries run; those of unknown entries are left out."""
    read = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    order = [(command, name) for command in _HEADINGS for name in entries(command)]
    results = {
        (result["command"], result["name"]): result
        for result in read
        if isinstance(result, dict) and "command" in result
    }
    return [results[place] for place in order if place in results]


def _elsewhere(earlier: Result, result: Result) -> dict[str, dict[str, float]]:
    """Return the time ratios that were measured on other processors than the result's: by processor and row."""
    ratios = {_row_name(row): row["ratio"] for row in earlier.get("rows", ()) if row["ratio"] is not None}
    measured = earlier.get("elsewhere", {}) | (
        {earlier["machine"].get("cpu", "not recorded"): ratios} if ratios else {}
    )
    return {cpu: kept for cpu, kept in measured.items() if cpu != result["machine"].get("cpu")}


def _row_name(row: dict[str, Any]) -> str:
    """Return what distinguishes a row from those beside other peers."""
    return f"{row['name']}, beside {next(iter(row['others']), 'nothing')}"


def _stem(result: Result) -> str:
    return f"{result['command']}-{result['name']}"


def _link(result: Result) -> str:
    return f"[{result['name']}](results/{_stem(result)}.json)"


def _date(results: list[Result]) -> str:
    """Return the date of most of the results whose machine is recorded, or of most."""
    recorded = [result for result in results if "cpu" in result["machine"]] or results
    dates: list[str] = [result["machine"]["date"] for result in recorded]
    return max(sorted(set(dates)), key=dates.count)


def _machine(results: list[Result]) -> str:
    """Return the date and the machine of most of one command's results."""
    date = _date(results)
    card = next(result["machine"] for result in results if result["machine"]["date"] == date)
    machine = f", on {card['cpu']}, {card['cores']} cores, Python {card['python']}" if "cpu" in card else ""
    quick = " Quick runs, not worth quoting." if any(result["effort"] != "full" for result in results) else ""
    return f"Measured {date} unless said otherwise{machine}.{quick}"


def _times(results: list[Result]) -> list[str]:
    """Return one table of the rows of times that have targets, or of all that a benchmark without them has, if few.

    It has a column for the time ratios on each other processor that was measured. What stands beside several others
    is named once.
    """
    lines, others_of = [], {result["name"]: result.get("elsewhere", {}) for result in results}
    processors = sorted({cpu for ratios in others_of.values() for cpu in ratios})
    for result in results:
        rows = [row for row in result["rows"] if row["target"] is not None] or result["rows"][:_FEW]
        above = None
        for row in rows:
            named = _link(result) if row is rows[0] else ""
            is_again, above = row["name"] == above, row["name"]
            beside = next(iter(row["others"].items()), None)
            others = "" if beside is None else f"{beside[0]} {markdown.figure(beside[1])}"
            ratio = "" if row["ratio"] is None else markdown.figure(row["ratio"])
            target = markdown.target(row) + (" missed" if row["met"] is False else "")
            ours = f"{markdown.figure(row['ours'])} {row['unit']}"
            elsewhere = [others_of[result["name"]].get(cpu, {}).get(_row_name(row)) for cpu in processors]
            columns = ["" if value is None else markdown.figure(value) for value in elsewhere]
            what = ("", "") if is_again else (row["name"], ours)
            lines.append((named, *what, others, ratio, *columns, target))
    if not lines:
        return []
    on_others = [f"ratio on {cpu}" for cpu in processors]
    table = markdown.grid(("", "", "ours", "beside", "time ratio", *on_others, "target"), lines)
    pictures = [f"[{result['name']}](pictures/{file})" for result in results for file in result["pictures"].values()]
    return [table, *([f"Pictures: {', '.join(pictures)}."] if pictures else ())]


def _study(result: Result, date: str) -> list[str]:
    """Return a study's section: what it decides, its verdict, its first picture and the tables that it marks."""
    own = result["machine"]["date"]
    machine = "" if "cpu" in result["machine"] else ", machine not recorded"
    said = [markdown.lead(result["finding"]), *([f"Measured {own}{machine}."] if own != date else ())]
    if result["checks"]:
        verdict = result["verdict"] if result["source"] else result["verdict"].capitalize()
        said.append(f"**{': '.join(filter(None, (result['source'], verdict)))}.**")
        differs = dict.fromkeys(check["claim"] for check in result["checks"] if check["holds"] is False)
        said += [f"Differs in: {'; '.join(differs)}."] if differs else []
        said += ["Shortened."] if result["shortened"] else []
    pictures = list(result["pictures"].items())
    links = [f"[{name}](pictures/{file})" for name, file in pictures[1:]]
    said.append(f"({', '.join([_link(result), *links])})")
    parts = [f"### {result['title']}", " ".join(filter(None, said))]
    parts += [f"![{name or result['name']}](pictures/{file})" for name, file in pictures[:1]]
    shown = [table for table in result["tables"] if table.get("shown")]
    return parts + [
        f"**{title}**\n\n{markdown.grid(columns, rows)}"
        for title, columns, rows, _ in markdown.tables({"tables": shown})
    ]


def _targets(results: Iterable[Result], pictures: Path) -> list[str]:
    """Return how many rows meet their targets, and a picture of them."""
    rows: list[tuple[str, dict[str, Any]]] = [
        (result["name"], row) for result in results for row in result.get("rows", ()) if row["target"] is not None
    ]
    if not rows:
        return []
    missed = dict.fromkeys(name for name, row in rows if not row["met"])
    said = f"{sum(bool(row['met']) for _, row in rows)} of {len(rows)} targets are met"
    said += f"; {', '.join(missed)} miss some." if missed else "."
    bars = []
    for name, row in rows:
        if row["ratio"]:
            beside = next(iter(row["others"]), "")
            label = f"{name}: {row['name']}" + (f"\nbeside {beside}" if beside else "")
            bars.append((label, 1 / row["ratio"], 0 if row["met"] else 1))
    if not bars:
        return ["## Targets", said]
    pictures.mkdir(parents=True, exist_ok=True)
    figure = drawing.bar_chart("Where there is a target, by time ratio; orange misses it", bars)
    (pictures / "targets.png").write_bytes(report.png(figure))
    return ["## Targets", said, "![How many times as long others take](pictures/targets.png)"]
