"""BENCHMARKS.md from the JSON files of one run."""

import json
import shutil
from pathlib import Path
from typing import Any

from benchmarks import drawing, markdown, report
from benchmarks.registry import STUDIES, entries

_HEADINGS = {
    "speed": "Speed",
    "beam": "Pipelines",
    "streams": "Streams",
    "accuracy": "Accuracy",
    "figures": "The papers' figures",
}
_TARGETS = "Targets"
_MOST = 80  # rows of a table in the document
_HOW = """\
How to run it again, what each one measures beside what, and how it can mislead: [README.md](README.md). *Time ratio* is
our time over that of the first one beside it: the median over interleaved rounds, with quartiles in brackets; below 1
ours is faster. Ratios within a run compare; times of different runs do not.
"""


def write(run: Path, into: Path) -> Path:
    """Write ``BENCHMARKS.md`` and ``pictures/`` into a folder from a run's results, and return the document's path.

    A chapter of which the run has no results stays as it is in the document, with its pictures. So do sections of which
    it has none, if it has some of their chapter. The overview of the papers' figures also counts studies of `accuracy`:
    run both.
    """
    results = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(run.glob("*.json"))]
    results = [result for result in results if isinstance(result, dict) and result.get("command") in _HEADINGS]
    results.sort(key=_place)
    if not results:
        raise SystemExit(f"there are no results in {run}")
    document, pictures = into / "BENCHMARKS.md", into / "pictures"
    pictures.mkdir(parents=True, exist_ok=True)
    chapters = _chapters(document)
    for command, heading in _HEADINGS.items():
        own = [result for result in results if result["command"] == command]
        if own:
            kept = _kept(chapters.get(heading, ""), command, {result["title"] for result in own})
            if not kept:
                for old in pictures.glob(f"{command}-*.png"):
                    old.unlink()
                kept = {"": "\n\n".join([_run(own), *(_overview(results) if command == "figures" else [])])}
            sections = kept | {result["title"]: _section(result, alone=len(kept) > 1) for result in own}
            titles = ["", *(entry.title for entry in entries(command).values()), *sections]
            chapters[heading] = "\n\n".join(sections[one] for one in dict.fromkeys(titles) if one in sections)
    for result in results:
        for file in result["pictures"].values():
            shutil.copyfile(run / file, pictures / file)
    if targets := _targets(results, pictures):
        chapters[_TARGETS] = "\n\n".join(targets)
    told = [
        f"## {heading}\n\n{chapters[heading]}" for heading in (_TARGETS, *_HEADINGS.values()) if heading in chapters
    ]
    document.write_text("\n\n".join(["# Benchmarks", _HOW.strip(), *told]) + "\n", encoding="utf-8")
    return document


def _chapters(document: Path) -> dict[str, str]:
    """Return the chapters of a document by their headings; none of one that does not exist."""
    if not document.exists():
        return {}
    _, *chapters = document.read_text(encoding="utf-8").split("\n## ")
    return {heading: text.strip() for heading, _, text in (chapter.partition("\n") for chapter in chapters)}


def _kept(chapter: str, command: str, measured: set[str]) -> dict[str, str]:
    """Return the sections of a chapter that stay, by title, and what is before them under ""; none if none stays."""
    before, *sections = f"\n{chapter}".split("\n### ")
    held = {title: f"### {title}\n{text}".strip() for title, _, text in (one.partition("\n") for one in sections)}
    known = {entry.title for entry in entries(command).values()}
    kept = {title: text for title, text in held.items() if title in known - measured}
    return {"": before.strip()} | kept if kept else {}


def _section(result: dict[str, Any], *, alone: bool) -> str:
    """Return the section of one result, which may be of a run of its own."""
    text = markdown.section(result, heading="###", pictures="pictures/", most=_MOST).strip()
    if not alone:
        return text
    title, _, rest = text.partition("\n")
    command = f"python -m benchmarks {result['command']} {result['name']}"
    return f"{title}\n\nA run of its own, {result['machine']['date']}, by `{command}`.\n{rest}"


def _place(result: dict[str, Any]) -> tuple[int, int]:
    """Return where a result stands: as its command's entries run; those no longer there come last."""
    names = list(entries(result["command"]))
    place = names.index(result["name"]) if result["name"] in names else len(names)
    return list(_HEADINGS).index(result["command"]), place


def _run(results: list[dict[str, Any]]) -> str:
    """Return the command, the machine and the versions of what one command wrote."""
    card, command = results[0]["machine"], results[0]["command"]
    quick = " --quick" if all(result["effort"] == "quick" for result in results) else ""
    data = " --data DATA" if command in STUDIES else ""
    minutes = sum(result["seconds"] for result in results) / 60
    versions = ", ".join(f"{name} {version}" for name, version in card["versions"].items() if version)
    dates = [result["machine"]["date"] for result in results]
    when = " to ".join(sorted({min(dates), max(dates)}))
    efforts = ", ".join(sorted({result["effort"] for result in results}))
    return (
        f"One run ({efforts}), {when}, {minutes:.0f} minutes, on {card['cpu']}, {card['cores']} cores, "
        f"{card['system']}, Python {card['python']}; {versions}. What it wrote, by\n\n"
        f"```bash\npython -m benchmarks {command}{quick}{data} --out RUN\npython -m benchmarks render --out RUN\n```"
    )


def _overview(results: list[dict[str, Any]]) -> list[str]:
    """Return each figure and table of the papers with its size and verdict, by paper."""
    own = [result for result in results if result["command"] == "figures" or result.get("source")]
    own.sort(key=lambda result: result["source"].partition(",")[0])
    lines = [
        (
            *(result["source"] or result["title"], f"{result['command']} {result['name']}"),
            *(markdown.size(result), result["verdict"]),
            "; ".join(dict.fromkeys(one["claim"] for one in result["checks"] if one["holds"] is False)),
        )
        for result in own
    ]
    text = (
        "Each verdict is computed from the checks of its section: what the paper says, a tolerance, and what this run "
        "found with its 95 % half-width. A check cannot be told if that interval is partly outside the tolerance."
    )
    return [text, markdown.grid(("paper", "run by", "size", "verdict", "differs in"), lines)]


def _targets(results: list[dict[str, Any]], pictures: Path) -> list[str]:
    """Return the overview: every row that has a target, and a picture of it."""
    lines, bars = [], []
    for result in results:
        for row in result.get("rows", ()):
            if row["target"] is None:
                continue
            met = "met" if row["met"] else "missed"
            beside = next(iter(row["others"]), "")
            ours = f"{markdown.figure(row['ours'])} {row['unit']}"
            lines.append((result["name"], row["name"], ours, beside, markdown.ratio(row), markdown.target(row), met))
            if row["ratio"]:
                label = f"{result['name']}: {row['name']}" + (f"\nbeside {beside}" if beside else "")
                bars.append((label, 1 / row["ratio"], 0 if row["met"] else 1))
    if not lines:
        return []
    parts = [markdown.grid(("", "", "ours", "beside", "time ratio", "target", ""), lines)]
    if bars:
        file = pictures / "targets.png"
        file.write_bytes(
            report.png(drawing.bar_chart("Where there is a target, by time ratio; orange misses it", bars))
        )
        parts.append("![How many times as long others take](pictures/targets.png)")
    return parts
