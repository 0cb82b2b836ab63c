"""Results as Markdown, and the texts of their cells."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

_COLUMNS = ("", "ours", "others", "time ratio", "target", "met")
_CHECKS = ("claim", "data", "tolerance", "this run", "holds")
_LONG = 24  # rows beyond which a table is folded away
_SENTENCES, _WORDS = 3, 60  # of a finding, on the page

_HOLDS = {None: ("cannot be told", ""), True: ("yes", "green"), False: ("no", "red")}

Texts = tuple[str, ...]


def section(result: dict[str, Any]) -> str:
    """Return one result: title, finding, checks, pictures and tables."""
    parts = [f"# {result['title']}"]
    if "finding" in result:
        parts.append(result["finding"].strip())
    for title, columns, rows, _ in checks(result):
        parts += [f"**{title}** {size(result)}".strip(), grid(columns, rows)]
    parts += [f"![{result['title']}: {name}]({file})" for name, file in result["pictures"].items()]
    for title, columns, rows, _ in tables(result):
        text, summary = grid(columns, rows), title or result["title"]
        if len(rows) > _LONG:
            text = f"<details><summary>{summary}: {len(rows)} rows</summary>\n\n{text}\n\n</details>"
        elif title:
            text = f"**{title}**\n\n{text}"
        parts.append(text)
    return "\n\n".join(parts) + "\n"


def lead(finding: str) -> str:
    """Return the first sentences of a finding: three, or fewer if they have many words."""
    sentences = re.split(r"(?<=\.)\s+(?=[A-Z*0-9ε])", finding.partition("\n\n")[0].strip())
    taken = sentences[:1]
    for sentence in sentences[1:_SENTENCES]:
        if len(" ".join([*taken, sentence]).split()) > _WORDS:
            break
        taken.append(sentence)
    return " ".join(taken)


def grid(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)


def tables(result: dict[str, Any]) -> Iterator[tuple[str, Texts, list[Texts], list[str]]]:
    """Yield title, columns and rows of each table, as texts, and the colour of each row."""
    if "rows" in result:
        colours = [{None: "", True: "green", False: "red"}[row["met"]] for row in result["rows"]]
        yield "", _COLUMNS, [_texts(row) for row in result["rows"]], colours
    for table in result.get("tables", ()):
        rows = [tuple(cell(value) for value in row) for row in table["rows"]]
        yield table["title"], tuple(table["columns"]), rows, [""] * len(rows)


def checks(result: dict[str, Any]) -> Iterator[tuple[str, Texts, list[Texts], list[str]]]:
    """Yield the table of a study's checks as `tables` does, its title the verdict; nothing without checks."""
    outcomes = result.get("checks", ())
    if outcomes:
        rows: list[Texts] = [
            (check["claim"], check["data"], _tolerance(check), _observed(check), _HOLDS[check["holds"]][0])
            for check in outcomes
        ]
        colours = [_HOLDS[check["holds"]][1] for check in outcomes]
        about = f"{result['source']}: " if result["source"] else ""
        yield f"{about}{result['verdict']}.", _CHECKS, rows, colours


def size(result: dict[str, Any]) -> str:
    """Return at which size a study ran, for the report; nothing if it computes no paper's figure."""
    if not result.get("source"):
        return ""
    if result["effort"] != "full":
        return f"A {result['effort']} run, not the paper's size."
    return f"Shortened: {result['shortened']}" if result["shortened"] else "Full size."


def cell(value: Any) -> str:
    """Return a study's cell: four digits of a float."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 10_000 else str(value)
    if isinstance(value, float):
        return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.4g}"
    return str(value)


def target(row: dict[str, Any]) -> str:
    """Return a row's target."""
    if row["target"] is None:
        return ""
    ((quantity, at_most),) = row["target"].items()
    return f"≤ {at_most:g} {row['unit']}" if quantity == "ours" else f"ratio ≤ {figure(at_most)}"


def ratio(row: dict[str, Any]) -> str:
    """Return a row's time ratio, with quartiles in brackets."""
    if row["ratio"] is None:
        return ""
    text = figure(row["ratio"])
    if row["ratio_quartiles"] is not None:
        text += f" ({figure(row['ratio_quartiles'][0])}-{figure(row['ratio_quartiles'][1])})"
    return text


def figure(value: float) -> str:
    """Return three digits, without exponents."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _tolerance(check: dict[str, Any]) -> str:
    """Return a check's tolerance; of JSON, where infinities are texts."""
    low, high = (cell(check[end]) for end in ("low", "high"))
    if check["low"] == check["high"]:
        text = low
    elif check["low"] == "-∞":
        text = f"≤ {high}"
    else:
        text = f"≥ {low}" if check["high"] == "∞" else f"{low} to {high}"
    return f"{text} {check['unit']}".strip()


def _observed(check: dict[str, Any]) -> str:
    error = f" ± {check['error']:.2g}" if check["error"] else ""
    return f"{cell(check['observed'])}{error} {check['unit']}".strip()


def _texts(row: dict[str, Any]) -> Texts:
    others = "; ".join(f"{name} {figure(value)}" for name, value in row["others"].items())
    met = {None: "", True: "yes", False: "no"}[row["met"]]
    return row["name"], f"{figure(row['ours'])} {row['unit']}", others, ratio(row), target(row), met
