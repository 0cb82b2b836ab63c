"""``streamsketch ledger``: the record of what was spent of each data set's privacy budget."""

import dataclasses
import datetime as dt
import json
from pathlib import Path
from typing import Annotated

import typer

import streamsketch as ss
from streamsketch.accounting.book import Dataset, Left, check_dataset
from streamsketch.cli._agreeing import neighbours_of
from streamsketch.cli._layout import show as show_table
from streamsketch.cli._layout import table_of
from streamsketch.cli._options import option
from streamsketch.cli._releasing import (
    Delta,
    Epsilon,
    ledger_at,
    ledger_name,
    left_fields,
    open_ledger,
    parse_receipt,
    receipt_text,
)
from streamsketch.cli._saying import kind_of, say_error
from streamsketch.cli._showing import AsJson, guarantee_fields, plural, show_json, show_result
from streamsketch.cli._writing import new_file
from streamsketch.core.documents import Json
from streamsketch.core.files import write_whole
from streamsketch.core.numbers import short
from streamsketch.errors import LedgerError
from streamsketch.privacy.mechanism import Mechanism
from streamsketch.privacy.neighbours import NEIGHBOURS

Where = Annotated[str, typer.Argument(help="An SQLite file, or postgresql+psycopg://…", metavar="LEDGER")]
Name = Annotated[str, option("Ledger", "NAME", "Name of the data set in the ledger.", "--dataset")]

_NEVER, _NONE = "never", "–"


def init(
    ledger: Where,
    *,
    dataset: Name,
    unit: Annotated[str, option("Privacy", "WORD", "Privacy unit that all releases protect, in a word.")],
    epsilon: Epsilon,
    delta: Delta = 0.0,
    accounting: Annotated[
        str,
        option(
            "Privacy",
            "sum|filter",
            "How releases add up: sum, or filter, which allows more small releases and needs δ > 0.",
        ),
    ] = "sum",
    period_days: Annotated[
        int | None, option("Privacy", "DAYS", "Number of days after which the full budget is available again.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Enter a data set and its budget; the ledger is made if it is not there.

    A budget that was entered cannot be changed. The file is readable by its owner only. It contains no data, but
    records what was released of which data set, and when. Keep one copy, and back it up.

    $ streamsketch ledger init ledger.db --dataset sales --unit customer --epsilon 10
    """
    check_dataset(
        dataset, unit=unit, epsilon=epsilon, delta=delta, accounting=accounting, period_days=period_days
    )  # before there is a file
    book = ledger_at(ledger)
    book.dataset(
        dataset,
        unit=unit,
        epsilon=epsilon,
        delta=delta,
        accounting=accounting,  # type: ignore[arg-type] # as checked
        period_days=period_days,
    )
    (entered,) = (each for each in book.datasets if each.name == dataset)
    facts = {
        "budget": f"{entered.budget} for each {unit}, by {entered.accounting}",
        "renewed": _NEVER if period_days is None else f"every {plural(period_days, 'day')}",
    }
    show_result(f"{dataset}, in {ledger_name(ledger)}", facts, _fields(entered, book.left(dataset)), as_json=as_json)


def show(ledger: Where, *, as_json: AsJson = False) -> None:
    """Show what is left of each data set's budget, and when the full budget is available again.

    $ streamsketch ledger show ledger.db
    """
    book = open_ledger(ledger)
    datasets = [(each, book.left(each.name)) for each in book.datasets]
    if as_json:
        show_json({"ledger": ledger_name(ledger), "datasets": [_fields(*each) for each in datasets]})
        return
    filtered = any(left.rho is not None for _, left in datasets)
    columns = {
        "data set": [each.name for each, _ in datasets],
        "unit": [each.unit for each, _ in datasets],
        "ε": [f"{each.budget.epsilon:g}" for each, _ in datasets],
        "ε left": [f"{left.epsilon:.6g}" for _, left in datasets],
        "δ": [f"{each.budget.delta:g}" for each, _ in datasets],
        "δ left": [f"{left.delta:.3g}" for _, left in datasets],
        **(
            {"or ρ left": [_NONE if left.rho is None else f"{left.rho:.4g}" for _, left in datasets]}
            if filtered
            else {}
        ),
        "renewed": [_day(left.renewed) for _, left in datasets],
    }
    show_table(table_of(columns, title=ledger_name(ledger)))


def charge(
    ledger: Where,
    *,
    dataset: Name,
    epsilon: Epsilon,
    delta: Delta = 0.0,
    bound: Annotated[
        str,
        option(
            "Privacy",
            "KIND=NUMBER",
            "How much one privacy unit can change: l1=NUMBER, l2=NUMBER, sketch-l2=NUMBER or one-coordinate=NUMBER.",
        ),
    ],
    note: Annotated[
        str, option("Ledger", "TEXT", "Description of what is released and how it is made private, in one line.")
    ],
    once: Annotated[
        str | None, option("Ledger", "ID", "Id of the job. A second charge with the same id costs nothing.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Charge a release that another program makes, before it is made.

    Keep the receipt elsewhere: `audit` needs it to detect that newer entries were cut off.

    $ streamsketch ledger charge ledger.db --dataset sales --epsilon 0.5 --bound l1=1 --note "dashboard, OpenDP Laplace"
    """
    book = open_ledger(ledger)
    units = {each.name: each.unit for each in book.datasets}
    kind, is_stated, number = bound.partition("=")
    if not is_stated or kind not in NEIGHBOURS:
        raise ss.InvalidInputError(
            f"--bound takes KIND=NUMBER, with one of {', '.join(NEIGHBOURS)}, got {short(bound)}"
        )
    neighbours = neighbours_of({kind.replace("-", "_"): number}, units.get(dataset, "event"), None)
    assert neighbours is not None  # noqa: S101 - one is stated
    guarantee = ss.Guarantee(epsilon, delta, neighbours, Mechanism.stated(note))
    receipt = book.charge(dataset, guarantee, note=note, once=once)
    left = book.left(dataset)
    text = f"{receipt.number}:{receipt.digest}"
    facts = {"charged": str(guarantee), "left": str(left), "receipt": text}
    fields = {"receipt": text, "guarantee": guarantee_fields(guarantee), "left": left_fields(left)}
    show_result(f"{dataset}, in {ledger_name(ledger)}", facts, fields, as_json=as_json)


def audit(
    ledger: Where,
    *,
    receipt: Annotated[
        list[str] | None, option("Ledger", "NUMBER:DIGEST", "Receipt of an earlier charge or audit. Repeatable.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check that no entry was removed, changed or reordered; ends with 1 if one was, and names it.

    The ledger alone cannot show that its newest entries were cut off, or that all hashes were computed again. A receipt
    that is kept elsewhere can show this: the receipt of a charge, or of an earlier audit.

    $ streamsketch ledger audit ledger.db
    """
    kept = [parse_receipt(text) for text in receipt or []]
    try:
        book = open_ledger(ledger)
        count = book.audit(*kept)
    except LedgerError as error:
        if as_json:
            show_json({"ledger": ledger_name(ledger), "intact": False, "reason": str(error)})
        say_error(f"{ledger_name(ledger)}: {error}", kind_of(error))
        raise typer.Exit(1) from None
    newest = receipt_text(book.newest)
    facts = {"entries": f"{count:,}, each as it was written"} | ({} if newest is None else {"receipt": newest})
    fields = {"ledger": ledger_name(ledger), "intact": True, "entries": count, "receipt": newest}
    show_result(ledger_name(ledger), facts, fields, as_json=as_json)


def export(
    ledger: Where,
    *,
    output: Annotated[
        Path | None,
        option("Output", "FILE", "Write to a .jsonl file. By default, to standard output.", "--output", "-o"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write all entries as JSON lines, oldest first; with --json as one object.

    $ streamsketch ledger export ledger.db -o ledger.jsonl
    """
    if output is not None:
        new_file(output, ".jsonl", "an export")
    entries = [dataclasses.asdict(entry) for entry in open_ledger(ledger).entries()]
    lines = [json.dumps(entry, sort_keys=True) for entry in entries]
    if output is not None:
        write_whole(output, "".join(f"{line}\n" for line in lines).encode(), secret=True)
    if as_json:
        place = {"entries": entries} if output is None else {"file": str(output), "entries": len(entries)}
        show_json({"ledger": ledger_name(ledger), **place})
    elif output is None:
        for line in lines:
            typer.echo(line)


def _fields(dataset: Dataset, left: Left) -> Json:
    return {
        "dataset": dataset.name,
        "unit": dataset.unit,
        **dataset.budget.to_dict(),
        "accounting": dataset.accounting,
        "period_days": dataset.period_days,
        "left": left_fields(left),
    }


def _day(time: dt.datetime | None) -> str:
    return _NEVER if time is None else f"{time:%Y-%m-%d}"
