"""``streamsketch choose-bound``: a bound on what one privacy unit adds, chosen privately from the data."""

import json
import shlex
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer

import streamsketch as ss
from streamsketch.cli._agreeing import load_projection
from streamsketch.cli._inputs import Decimal, Delimiter, Encoding, Format
from streamsketch.cli._reading import find_duplicate, new_file
from streamsketch.cli._releasing import DatasetOption, LedgerOption, ledger_for
from streamsketch.cli._saying import say
from streamsketch.cli._showing import Json, show_result
from streamsketch.core.files import write_whole
from streamsketch.core.text import names_given
from streamsketch.data.readers.delimited import check_delimiter
from streamsketch.intake.events import Events
from streamsketch.intake.files import RowReader
from streamsketch.intake.rows import Intake
from streamsketch.planning.bounds import BoundPlan
from streamsketch.report.bounds import picture_of
from streamsketch.sketching.bounding.units import totals_of

_CONFIDENCE = 0.95  # of the rank error


def choose_bound(  # noqa: PLR0913 - a command's options are its parameters
    inputs: Annotated[
        list[Path],
        typer.Argument(help="CSV, JSON lines or Parquet files with all events of each unit.", metavar="INPUT"),
    ],
    *,
    unit_column: Annotated[str, typer.Option(help="Column that identifies the privacy unit.")],
    index: Annotated[
        list[str],
        typer.Option(
            help="Column that identifies an item or event. Several columns, separated by commas or given "
            "one by one, are read as a tuple."
        ),
    ],
    candidates: Annotated[
        list[str],
        typer.Option(help="Bounds to choose from, such as 5,10,20,50. Name them without looking at the data."),
    ],
    epsilon: Annotated[float, typer.Option(help="Privacy loss ε of the choice. It adds to the ε of the release.")],
    projection: Annotated[Path, typer.Option(help="Projection that the sketch will have: a JSON file.")],
    unit: Annotated[
        str | None,
        typer.Option(help="Name of one unit, in a word. By default, the name of its column.", show_default=False),
    ] = None,
    share: Annotated[
        str | None,
        typer.Option(help="Share of units to keep within the bound, in (0, 1). By default 0.95.", show_default=False),
    ] = None,
    question: Annotated[
        str | None,
        typer.Option(
            help="Choose the bound with the least error for a question instead: cosine, distance, mean or point.",
            show_default=False,
        ),
    ] = None,
    norm: Annotated[
        str,
        typer.Option(
            help="Size to be bounded: l1, a unit's total in a key, or l2, the norm of its sketches over "
            "all keys together."
        ),
    ] = "l1",
    value: Annotated[
        str | None,
        typer.Option(help="Column of numbers to add up. By default, each event counts 1.", show_default=False),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            help="Column of keys. A unit's largest total over keys is compared with the bound.", show_default=False
        ),
    ] = None,
    form: Annotated[
        Format | None, typer.Option("--format", help="Format of the files. By default, it follows from the file names.")
    ] = None,
    delimiter: Delimiter = ",",
    encoding: Encoding = None,
    decimal: Decimal = ".",
    trade_off: Annotated[
        Path | None,
        typer.Option(
            help="Write the noise and the bias of every candidate: a .txt or .json table, or an .svg picture. Secret.",
            show_default=False,
        ),
    ] = None,
    squared_distance: Annotated[
        float | None, typer.Option(help="Squared distance that matters, without a bound (for --trade-off).")
    ] = None,
    release_epsilon: Annotated[float, typer.Option(help="ε of the release.")] = 1.0,
    release_delta: Annotated[float, typer.Option(help="δ of the release (for --question).")] = 0.0,
    max_keys: Annotated[int, typer.Option(help="Number of keys that a unit keeps.")] = 1,
    units: Annotated[
        float | None,
        typer.Option(
            help="Approximate number of units in a key (for --question). By default, all units.", show_default=False
        ),
    ] = None,
    items: Annotated[
        float, typer.Option(help="Approximate number of different items of a unit (for --question).")
    ] = 10.0,
    ledger: LedgerOption = None,
    dataset: DatasetOption = None,
    as_json: Json = False,
) -> None:
    r"""Choose a bound that most units keep to, or with the least error, with differential privacy.

    The output hides each unit, whatever it adds, at the cost of --epsilon. So the parties may agree on the chosen
    bound: `agree --l1`. Each run spends ε again. With --ledger, this ε is charged first, to a data set of the same
    --unit. A unit's events are summed by key and index first, and rows with nulls or without a unit are dropped, as by
    `sketch --unit-column`.

    A bound that keeps a share of the units is right for totals. For cosines, such a bound is far too large: --question
    cosine weighs noise against bias instead, from noisy counts of units by size. `agree --clip equal` needs no bound at
    all.

    --trade-off writes exact figures for the operator, readable by the owner only. A bound that is chosen from these
    figures is not private.

    $ streamsketch choose-bound sales.csv --unit-column customer --index item --candidates 5,10,20,50 --epsilon 0.1 \
        --projection projection.json
    """
    word = unit or unit_column
    names = names_given(index, "--index")
    grid = names_given(candidates, "--candidates")
    _check_files(inputs)
    if (trade_off is None) != (squared_distance is None):
        raise ss.InvalidInputError(
            "--trade-off FILE and --squared-distance belong together: the noise is shown as a share of that distance"
        )
    if trade_off is not None:
        new_file(trade_off, (".txt", ".json", ".svg"), "a trade-off")
    agreed = load_projection(
        projection, "a bound is chosen before one, by the projection that `plan` or `sketch --write-projection` writes"
    )
    agreement = ss.Agreement.of(agreed, index=names, key=key, value=value, unit=unit_column)
    written: dict[str, Any] = {"delimiter": check_delimiter(delimiter), "encoding": encoding, "decimal": decimal}
    reader = RowReader(agreement, format=form, **written)
    relation = _relation(norm, grid, word, max_keys)
    if norm == "l2" and trade_off is not None:
        raise ss.InvalidInputError("--trade-off is about --norm l1; ask with --question, whose JSON has all errors")
    accuracy = None
    if question is not None:
        accuracy = ss.bounding.Accuracy(
            question=question,  # type: ignore[arg-type] # it checks
            projection=agreed,
            neighbours=relation,
            epsilon=release_epsilon,
            delta=release_delta,
            units=units,
            items=items,
        )
    by: dict[str, Any] = {"epsilon": epsilon, "share": share, "accuracy": accuracy}
    planned = ss.bounding.choose_bound([], grid, **by)  # finds mistakes before data are read
    for bound in grid if norm == "l1" else ():
        ss.L1(bound, word, max_keys).grid_steps(agreed.grid)
    account = ledger_for(ledger, dataset)
    for each in () if account is None else account.datasets:
        if each.name == dataset and each.unit != word:
            raise ss.InvalidInputError(
                f"the budget of {dataset} is for one {each.unit}, and the choice protects one {word}: give "
                f"--unit {shlex.quote(each.unit)} if each value of the column {unit_column} is one {each.unit}"
            )
    totals = totals_of(_events(inputs, agreement, reader), agreed, norm=norm)  # type: ignore[arg-type] # as checked
    if trade_off is not None and squared_distance is not None:
        plan = ss.bounding.plan_bounds(
            totals,
            grid,
            agreed,
            squared_distance=squared_distance,
            epsilon=release_epsilon,
            unit=word,
            max_keys=max_keys,
        )
        write_whole(trade_off, _shown(plan, trade_off.suffix).encode(), secret=True)
        say(f"{trade_off}, secret: noise against bias. A bound read off from it is not private.")
    if account is not None:  # for a unit, whatever it adds: a ledger asks for the unit alone
        account.charge(dataset, planned.guarantee(ss.L1(max(map(Fraction, grid)), word)))
    chosen = ss.bounding.choose_bound(totals, grid, **by)
    asked = "" if question is None else f"{question}: at ε = {release_epsilon:g}"
    option = "--l1" if norm == "l1" else "--sketch-l2"
    facts, fields = _facts_of(chosen, word, asked)
    facts["next"] = f"agree, or sketch --unit-column, with {option} {chosen.bound}"
    show_result("A bound, chosen privately", facts, fields | {"candidates": grid}, as_json=as_json)


def _relation(norm: str, grid: list[str], unit: str, max_keys: int) -> ss.L1 | ss.SketchL2:
    if norm not in ("l1", "l2"):
        raise ss.InvalidInputError(f"--norm must be l1 or l2, got {norm!r:.40}")
    return (ss.L1 if norm == "l1" else ss.SketchL2)(grid[0], unit, max_keys)


def _facts_of(chosen: ss.bounding.ChosenBound, unit: str, asked: str) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the result and the cost of a choice, for people and for JSON."""
    fields: dict[str, Any] = {"bound": str(chosen.bound), **chosen.budget.to_dict()}
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
