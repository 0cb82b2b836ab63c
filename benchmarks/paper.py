"""`paper/paper.md` and its figures: a template whose numbers are filled in from the results that are kept."""

import io
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from benchmarks import drawing, palette, report
from benchmarks.markdown import figure as digits
from benchmarks.rendering import result_of, results_in

MARK = re.compile(r"\{\{(\w+)\}\}")
"""A number of the template, by its name in `numbers`."""

_DPI = 200  # of print
_SIZE = (6.6, 4.0)  # inches
_PAPERS = ("Kenthapadi", "Stausholm", "Li and Li", "Asi")
_TOGETHER = "accuracy-together"
_BEST, _ALL = "The best over", "Root mean square errors"
_SITES = "Six sites"
_UPDATE, _EVENT = "s=8, k=1024, t=8, indices < 2^60", "one event, s=8, k=1024, index < 2^60"
_NOISE, _KEYS = "discrete Laplace, SystemBits", "100 keys, 1,000,000 events, s=8, k=1024"
_BEAM = "10,000,000 events, 100 keys, s=8, k=1024"
_BACKLOG = "10,000,000 events, Arrow batches of 20,000 rows"
_RATE = (
    r"(?P<soak_rate>[\d,]+) events a second for (?P<soak_minutes>\d+) minutes.* 99 % within (?P<soak_delay>[\d.]+) s"
)
_CLIPPED = {
    "ℓ1 bound on data, Laplace": "best L1, Laplace",
    "ℓ1 bound on data, Gaussian": "best L1, Gaussian",
    "in sketch space, scaled": "best sketch L2, scale",
    "in sketch space, one length": "best sketch L2, equal",
    "noisy histogram": "best noise on the histogram",
}
_BARS = (
    ("an update\nbeside its additions alone", "speed-update", _UPDATE, "additions alone"),
    ("beside C", "speed-update", _UPDATE, "C"),
    ("beside the textbook's loop", "speed-update", _UPDATE, "textbook"),
    ("one event in a loop of Python\nbeside an empty method", "speed-events", _EVENT, "empty method"),
    ("discrete Laplace noise\nbeside OpenDP", "speed-noise", _NOISE, "OpenDP"),
    ("an update of 100 keys\nbeside a loop over groups", "speed-table", _KEYS, "groupby loop"),
    ("distances of 1,000 releases\nbeside SciPy's cdist", "speed-pairwise", "1,000 releases, k=1024", "scipy cdist"),
    ("reading a release\nbeside pickle, which checks nothing", "speed-wire", "from_bytes", "pickle"),
    ("Beam, from files to releases\nbeside a CombineFn by element", "beam-ingest", _BEAM, "plain CombineFn"),
    ("Kafka and Flink\nbeside counting by key alone", "streams-backlog", _BACKLOG, "counted by key alone"),
)


class Kept:
    """The results in a folder, by study, table and row.

    Parameters
    ----------
    into
        The folder that has ``results/``.
    """

    def __init__(self, into: Path) -> None:
        self._into = into

    def result(self, study: str) -> dict[str, Any]:
        """Return what is kept of a study or benchmark."""
        return result_of(study, self._into)

    def checks(self, papers: Sequence[str]) -> list[bool | None]:
        """Return whether each statement of these papers holds in the studies that check it."""
        results = results_in(self._into / "results")
        chosen = [result for result in results if any(name in (result.get("source") or "") for name in papers)]
        return [check["holds"] for result in chosen for check in result["checks"]]

    def targets(self) -> list[bool]:
        """Return whether each target of a time is met."""
        rows = (row for result in results_in(self._into / "results") for row in result.get("rows", ()))
        return [row["met"] for row in rows if row["target"] is not None]

    def table(self, study: str, title: str, **where: object) -> list[dict[str, Any]]:
        """Return the rows of the table whose title begins so, those with these values in the columns of these names."""
        (table,) = (entry for entry in self.result(study)["tables"] if entry["title"].startswith(title))
        rows = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
        return [row for row in rows if all(row[column] == value for column, value in where.items())]

    def row(self, study: str, title: str, **where: object) -> dict[str, Any]:
        """Return the only such row."""
        (row,) = self.table(study, title, **where)
        return row

    def time(self, study: str, name: str, beside: str | None = None) -> dict[str, Any]:
        """Return the row of times of this name; ``beside`` is among the others, or not asked for."""
        rows = [row for row in self.result(study)["rows"] if row["name"] == name]
        row: dict[str, Any]
        (row,) = (row for row in rows if beside is None or beside in row["others"])
        return row

    def said(self, study: str, pattern: str) -> dict[str, str]:
        """Return the groups, by name, of a pattern that a study's finding has."""
        match = re.search(pattern, self.result(study)["finding"])
        if match is None:
            raise LookupError(f"the finding of {study} has nothing like {pattern}")
        return match.groupdict()


def numbers(kept: Kept) -> dict[str, str]:
    """Return every number of the paper by its name in the template."""
    few, many = (kept.table("accuracy-people", _SITES, question="cosine")[place] for place in (0, -1))
    flown = kept.row("accuracy-people", "δ = 1e-06", data="flights", question="squared distance", ε=4)
    (errors,) = kept.result("accuracy-standard-error")["checks"]
    sparse = [row["observed"] for row in kept.table("accuracy-coverage", "VerySparse")]
    joint = [row['level="all"'] for row in kept.table("accuracy-coverage-all", "Share") if row["by"] == "distance"]
    rule = kept.table("accuracy-planner", "Standard error over the better")
    memory = next(check for check in kept.result("streams-soak")["checks"] if "memory" in check["claim"])
    checks, targets = kept.checks(_PAPERS), kept.targets()
    lost = sum(row["rule loses more than 5 %"] * row["settings"] for row in rule) / sum(r["settings"] for r in rule)
    return (
        _together(kept)
        | _speeds(kept)
        | {
            "few_items": digits(few["items of a typical person"]),
            "few_ratio": digits(few["best L1 / best in sketch space"]),
            "many_items": digits(many["items of a typical person"]),
            "many_l1": digits(many["best L1, Laplace"]),
            "many_sketch": digits(many["best sketch L2, equal"]),
            "flights_ratio": digits(flown["best L1 / best in sketch space"]),
            "joint_low": f"{100 * min(joint):.1f}",
            "joint_high": f"{100 * max(joint):.1f}",
            "rule_settings": f"{sum(row['settings'] for row in rule):,}",
            "rule_loses": f"{100 * lost:.0f}",
            "statements": str(len(checks)),
            "statements_hold": str(checks.count(True)),
            "statements_differ": str(checks.count(False)),
            "statements_undecided": str(checks.count(None)),
            "targets": str(len(targets)),
            "targets_missed": str(len(targets) - sum(targets)),
            "memory_growth": digits(memory["observed"]),
            "memory_error": digits(memory["error"]),
            **kept.said("streams-soak", _RATE),
            **kept.said(
                "accuracy-standard-error", r"lies between (?P<observed_low>[\d.]+) and (?P<observed_high>[\d.]+),"
            ),
            "observed_settings": errors["data"].removesuffix(" settings"),
            "sparse_low": f"{100 * min(sparse):.0f}",
        }
    )


def _together(kept: Kept) -> dict[str, str]:
    """Return the numbers of joint estimates."""
    numbers: dict[str, str] = {}
    for name, data in (("shop", "a shop by month"), ("visits", "visits by clinic")):
        row = kept.row(_TOGETHER, _BEST, data=data, ε=1)
        numbers |= {f"{name}_alone": digits(row["each pair alone"]), f"{name}_together": digits(row["together"])}
    best, every = kept.table(_TOGETHER, _BEST), kept.table(_TOGETHER, _ALL)
    worst = max(row["together"] / row["each pair alone"] for row in every)
    loud = kept.row(_TOGETHER, _BEST, data="visits by clinic", ε=8)
    covered = [row["covered by 95 %"] for row in every]
    (maps,) = (
        re.findall(r"(\d+) maps", table["title"])
        for table in kept.result(_TOGETHER)["tables"]
        if "maps" in table["title"]
    )
    beaten = {epsilon: _beaten(best, epsilon) for epsilon in {row["ε"] for row in best}}
    return numbers | {
        "worst_together": f"{worst:.4g}",
        "together_settings": str(len(every)),
        "together_maps": maps[0],
        "together_sets": str(len({row["data"] for row in best})),
        "covered_low": f"{100 * min(covered):.1f}",
        "covered_high": f"{100 * max(covered):.1f}",
        "loud_together": digits(loud["together"]),
        "loud_histogram": digits(loud["histogram"]),
        "beaten_at_two": str(beaten[2]),
        "beaten_at_four": str(beaten[4]),
        "beaten_at_half": str(beaten[0.5]),
    }


def _beaten(best: Sequence[Mapping[str, Any]], epsilon: float) -> int:
    """Return in how many data sets a noisy histogram errs less than joint estimates."""
    return sum(row["histogram"] < row["together"] for row in best if row["ε"] == epsilon)


def _speeds(kept: Kept) -> dict[str, str]:
    """Return the numbers of costs."""
    alone, in_c = (kept.time("speed-update", _UPDATE, other) for other in ("additions alone", "C"))
    noise = kept.time("speed-noise", _NOISE)
    backlog = kept.time("streams-backlog", _BACKLOG)
    loop = kept.time("speed-events", _EVENT, "empty method")
    return {
        "cores": str(kept.result("speed-update")["machine"]["cores"]),
        "update": digits(alone["ours"]),
        "update_over_additions": digits(alone["ratio"]),
        "update_over_c": digits(in_c["ratio"]),
        "noise": digits(noise["ours"]),
        "noise_opendp": digits(noise["others"]["OpenDP"]),
        "beam": digits(kept.time("beam-marginal", "columns, from 10,000,000 events to 100,000,000")["ours"]),
        "beam_bounded": digits(kept.time("beam-marginal", "bounded, from 10,000,000 events to 40,000,000")["ours"]),
        "flink": digits(backlog["ours"]),
        "flink_counts": digits(backlog["others"]["counted by key alone"]),
        "loop_over_empty": digits(loop["ratio"]),
        "cold": digits(kept.time("speed-startup", "first update, cold")["ours"]),
        "reading_over_pickle": digits(kept.time("speed-wire", "from_bytes", "pickle")["ratio"]),
    }


def fill(template: str, by_name: Mapping[str, str]) -> str:
    """Return a template with its numbers filled in; both must have the same names."""
    differ = set(MARK.findall(template)) ^ by_name.keys()
    if differ:
        raise LookupError(f"in the template or among the numbers, but not in both: {', '.join(sorted(differ))}")
    return MARK.sub(lambda mark: by_name[mark[1]], template)


def series(kept: Kept) -> dict[str, Any]:
    """Return what each figure shows, as JSON has it: a figure is current if it was drawn from these."""
    best = kept.table(_TOGETHER, _BEST)
    sites = kept.table("accuracy-people", _SITES)
    labels = {"each pair alone": "each pair alone", "together": "together", "noisy histogram": "histogram"}
    lines: dict[str, Any] = {"together": {}, "clipping": {}}
    for data in dict.fromkeys(row["data"] for row in best):
        own = [row for row in best if row["data"] == data]
        lines["together"][data] = {label: [(row["ε"], row[name]) for row in own] for label, name in labels.items()}
    for question in ("cosine", "squared distance"):
        own = [row for row in sites if row["question"] == question]
        lines["clipping"][question] = {
            label: [(row["items of a typical person"], row[name]) for row in own] for label, name in _CLIPPED.items()
        }
    bars = [(label, 1 / kept.time(study, name, other)["ratio"]) for label, study, name, other in _BARS]
    return lines | {"speed": bars}


def figures(shown: Mapping[str, Any]) -> dict[str, Figure]:
    """Return the paper's figures of what `series` returns."""
    bars = drawing.bar_chart("", [(label, times, 0 if times >= 1 else 1) for label, times in shown["speed"]])
    bars.set_size_inches(*_SIZE)
    return {
        "together": _lines(shown["together"], "ε", "RMSE of cosines"),
        "clipping": _lines(shown["clipping"], "items of a typical person", "RMSE"),
        "speed": bars,
    }


def _lines(panels: Mapping[str, Any], across: str, up: str) -> Figure:
    """Return two panels a row, with logarithmic axes."""
    figure, axes = palette.panels(len(panels) // 2, 2, width=_SIZE[0] / 2, height=2.6, sharey=True)
    for panel, (title, lines) in zip(axes.flat, panels.items(), strict=True):
        for place, (label, pairs) in enumerate(lines.items()):
            style = {"marker": palette.MARKERS[place], "color": palette.COLOURS[place], "markersize": 4.5}
            panel.loglog(*zip(*pairs, strict=True), label=label, **style)
        ticks = [each for each, _ in next(iter(lines.values()))]
        panel.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        panel.xaxis.set_minor_locator(NullLocator())
        panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        panel.set_title(title, loc="left", fontsize=9)
        panel.set_xlabel(across, fontsize=9)
        panel.tick_params(labelsize=8)
    for panel in axes[:, 0]:
        panel.set_ylabel(up, fontsize=9)
    palette.legend_below(figure, axes[0][0], columns=3)
    return figure


def drawn_from(path: Path) -> Any:
    """Return what a figure was drawn from, which its file has as text."""
    with Image.open(path) as image:
        return json.loads(image.info["series"])


def write(into: Path, paper: Path) -> Path:
    """Write ``paper.md`` and its figures into a folder with ``template.md``, and return the page's path."""
    kept = Kept(into)
    page = paper / "paper.md"
    page.write_text(fill((paper / "template.md").read_text(encoding="utf-8"), numbers(kept)), encoding="utf-8")
    shown = series(kept)
    for name, figure in figures(shown).items():
        about = PngInfo()
        about.add_itxt("series", json.dumps(shown[name], ensure_ascii=False))
        image, content = Image.open(io.BytesIO(report.png(figure, _DPI))), io.BytesIO()
        image.save(content, format="PNG", optimize=True, pnginfo=about)
        (paper / f"{name}.png").write_bytes(content.getvalue())
    return page
