"""``streamsketch choose-bound``: a bound on what one privacy unit adds, chosen privately from the data."""

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer

import streamsketch as ss
from streamsketch.cli._fields import Field, set_fields, set_option
from streamsketch.cli._inputs import READING, Reading
from streamsketch.cli._options import option
from streamsketch.cli._reading import find_duplicate
from streamsketch.cli._releasing import DatasetOption, LedgerOption, ledger_for
from streamsketch.cli._saying import say
from streamsketch.cli._showing import AsJson, show_result
from streamsketch.cli._writing import new_file
from streamsketch.core.documents import Json
from streamsketch.core.files import write_whole
from streamsketch.core.text import names_given
from streamsketch.intake.events import Events
from streamsketch.intake.files import RowReader
from streamsketch.intake.rows import Intake
from streamsketch.planning.bounds import BoundPlan
from streamsketch.privacy.budget import Budget
from streamsketch.report.bounds import picture_of
from streamsketch.sketching.bounding.units import totals_of

_CONFIDENCE = 0.95  # of the rank error
FIELDS = {name: field for name, field in READING.items() if name != "multiline"} | {
    "units": Field("NUMBER", "for --question, about how many units a key has, by default all", float),
    "items": Field("NUMBER", "for --question, about how many different items a unit has, by default 10", float),
    "trade-off": Field("FILE", "write the noise and bias of every candidate: .txt, .json or .svg, secret", Path),
    "squared-distance": Field("NUMBER", "for trade-off, the squared distance that matters, without a bound", float),
}
"""What `--set` states."""


@dataclass
class _Further(Reading):
    """How rows are read, and what is assumed of units."""

    units: float | None = None
    items: float = 10.0
    trade_off: Path | None = None
    squared_distance: float | None = None


def choose_bound(  # noqa: C901, PLR0913 - a command's options are its parameters
    inputs: Annotated[
        list[Path],
        typer.Argument(help="CSV, JSON lines or Parquet files with all events of each unit.", metavar="INPUT"),
    ],
    *,
    agreement: Annotated[
        Path,
        option(
            "Input",
            "FILE",
            "Agreement that names units, whose columns, projection and kind of bound are used: a JSON file.",
        ),
    ],
    candidates: Annotated[
        list[str],
        option(
            "Privacy", "BOUNDS", "Bounds to choose from, such as 5,10,20,50. Name them without looking at the data."
        ),
    ],
    epsilon: Annotated[
        float, option("Privacy", "EPSILON", "Privacy loss ε of the choice. It adds to the ε of the release.")
    ],
    share: Annotated[
        str | None, option("Privacy", "SHARE", "Share of units to keep within the bound, in (0, 1). By default 0.95.")
    ] = None,
    question: Annotated[
        str | None,
        option(
            "Privacy",
            "QUESTION",
            "Choose the bound with the least error for a question instead: cosine, distance, mean or point.",
        ),
    ] = None,
    settings: Annotated[list[str] | None, set_option("Input", FIELDS)] = None,
    ledger: LedgerOption = None,
    dataset: DatasetOption = None,
    as_json: AsJson = False,
) -> None:
    """Choose a bound that most units keep to, or with the least error, with differential privacy.

    The output hides each unit, whatever it adds, at the cost of --epsilon. So the parties may agree on the chosen
    bound. Each run spends ε again. With --ledger, this ε is charged first, to a data set of the same unit.

    The agreement says what a unit is and how rows are read. An L1 bound asks for a unit's total in a key, and a bound
    on sketches for the norm of its sketches over all keys together; its number, of the order of the candidates, only
    sets the grid. Rows with nulls or without a unit are dropped. If it states what a release spends, errors are
    predicted for that, otherwise for ε = 1.

    A bound that keeps a share of the units is right for totals. For cosines, such a bound is far too large: --question
    cosine weighs noise against bias instead, from noisy counts of units by size. `agree --set clip=equal` needs no
    bound at all.

    --set trade-off=FILE writes exact figures for the operator, readable by the owner only. A bound that is chosen from
    these figures is not private.

    $ streamsketch choose-bound sales.csv --agreement people.json --candidates 5,10,20,50 --epsilon 0.1
    """
    grid, further = names_given(candidates, "--candidates"), set_fields(_Further(), FIELDS, settings)
    trade_off, squared_distance = further.trade_off, further.squared_distance
    _check_files(inputs)
    if (trade_off is None) != (squared_distance is None):
        raise ss.InvalidInputError(
            "--set trade-off=FILE and squared-distance=NUMBER belong together: the noise is shown as a share of that "
            "distance"
        )
    if trade_off is not None:
        new_file(trade_off, (".txt", ".json", ".svg"), "a trade-off")
    agreed = ss.Agreement.load(agreement)
    if agreed.unit is None or agreed.neighbours is None:
        raise ss.InvalidInputError(f"{agreement} names no units, whose bound is chosen: `agree --unit-column COLUMN`")
    word, norm = agreed.neighbours.unit, "l2" if agreed.neighbours.of_sketches else "l1"
    projection, max_keys = agreed.projection, agreed.neighbours.max_keys
    spent = _release_of(agreed)
    reader = further.reader(agreed)
    relation = (ss.L1 if norm == "l1" else ss.SketchL2)(grid[0], word, max_keys)
    if norm == "l2" and trade_off is not None:
        raise ss.InvalidInputError("trade-off is about L1 bounds; ask with --question, whose JSON has all errors")
    accuracy = None
    if question is not None:
        accuracy = ss.bounding.Accuracy(
            question=question,  # type: ignore[arg-type] # it checks
            projection=projection,
            neighbours=relation,
            epsilon=spent.epsilon,
            delta=spent.delta,
            units=further.units,
            items=further.items,
        )

    def chosen_of(totals: object) -> ss.bounding.ChosenBound:
        return ss.bounding.choose_bound(totals, grid, epsilon=epsilon, share=share, accuracy=accuracy)

    planned = chosen_of([])  # finds mistakes before data are read
    for bound in grid if norm == "l1" else ():
        ss.L1(bound, word, max_keys).grid_steps(projection.grid)
    account = ledger_for(ledger, dataset)
    for each in () if account is None else account.datasets:
        if each.name == dataset and each.unit != word:
            raise ss.InvalidInputError(
                f"the budget of {dataset} is for one {each.unit}, and the choice protects one {word}: agree with "
                f"--unit {shlex.quote(each.unit)} if each value of the column {agreed.unit.name} is one {each.unit}"
            )
    totals = totals_of(_events(inputs, agreed, reader), projection, norm=norm)  # type: ignore[arg-type] # as checked
    if trade_off is not None and squared_distance is not None:
        plan = ss.bounding.plan_bounds(
            totals,
            grid,
            projection,
            squared_distance=squared_distance,
            epsilon=spent.epsilon,
            unit=word,
            max_keys=max_keys,
        )
        write_whole(trade_off, _shown(plan, trade_off.suffix).encode(), secret=True)
        say(f"{trade_off}, secret: noise against bias. A bound read off from it is not private.")
    if account is not None:  # for a unit, whatever it adds: a ledger asks for the unit alone
        account.charge(dataset, planned.guarantee(ss.L1(max(map(Fraction, grid)), word)))
    chosen = chosen_of(totals)
    asked = "" if question is None else f"{question}: at ε = {spent.epsilon:g}"
    flag = "--l1" if norm == "l1" else "--sketch-l2"
    facts, fields = _facts_of(chosen, word, asked)
    facts["next"] = f"agree, with {flag} {chosen.bound}"
    show_result("A bound, chosen privately", facts, fields | {"candidates": grid}, as_json=as_json)


def _release_of(agreed: ss.Agreement) -> Budget:
    """Return what a release spends for which errors are predicted."""
    return Budget(1.0) if agreed.terms is None else agreed.terms.budget


def _facts_of(chosen: ss.bounding.ChosenBound, unit: str, asked: str) -> tuple[dict[str, str], Json]:
    """Return the result and the cost of a choice, for people and for JSON."""
    fields: Json = {"bound": str(chosen.bound), **chosen.budget.to_dict()}
    facts = {
        "bound": f"{chosen.bound}, of {chosen.candidates} candidates",
        "spent": f"{chosen.budget} for one {unit}, whatever it adds, in addition to what releases spend",
    }
    if chosen.share is None:
        fields |= {"question": asked.partition(":")[0], "errors": list(chosen.errors), "counts": list(chosen.counts)}
        facts["question"] = f"{asked}, the predicted error is ± {min(chosen.errors):.2g}"
    else:
        error = chosen.rank_error(_CONFIDENCE)
        fields |= {"share": str(chosen.share), "rank_error": error, "confidence": _CONFIDENCE}
        facts["rank error"] = (
            f"with {100 * _CONFIDENCE:g} % confidence, the number of units within this bound differs from the target, "
            f"{100 * float(chosen.share):.4g} % of all, by at most {error:,.0f} more than the best candidate's does"
        )
    return facts, fields


def _check_files(inputs: list[Path]) -> None:
    if twice := find_duplicate(inputs):
        raise ss.InvalidInputError(f"{twice}; its events would count twice")
    for path in inputs:
        if path.exists() and not path.is_file():
            raise ss.InvalidInputError(f"{path} is not a file: all events of a unit are needed, so files are read")
        path.open("rb").close()


def _events(paths: list[Path], agreement: ss.Agreement, reader: RowReader) -> Iterator[Events]:
    intake = Intake(agreement, bounded=True)
    for path in paths:
        yield from reader.events(path, intake)


def _shown(plan: BoundPlan, suffix: str) -> str:
    if suffix == ".svg":
        return picture_of(plan)
    return f"{plan}\n" if suffix == ".txt" else json.dumps(plan.to_dict(), indent=2) + "\n"
