"""Ledgers, as commands take them."""

import dataclasses
import re
from pathlib import Path
from typing import Annotated, Any

import typer

import streamsketch as ss
from streamsketch.accounting import Left

LedgerOption = Annotated[
    str | None,
    typer.Option(
        "--ledger", help="Charge it first to a budget in this ledger: a file, or postgresql://…", show_default=False
    ),
]
DatasetOption = Annotated[
    str | None, typer.Option("--dataset", help="What the ledger calls the data set.", show_default=False)
]


def name_of(where: str) -> str:
    """Return what a ledger is called in what is printed, without the password of a database."""
    return re.sub(r"\?.*", "", re.sub(r"(://[^/@]*?):[^/]*@", r"\1@", where)) if "://" in where else where


def opened(where: str) -> ss.Ledger:
    """Return a ledger that is there; a name that was mistyped makes no new one."""
    if "://" not in where and not Path(where).exists():
        raise ss.InvalidInputError(f"there is no ledger {where}; make it with `streamsketch ledger init {where}`")
    return ledger_at(where)


def ledger_at(where: str) -> ss.Ledger:
    """Return a ledger, which is made if it is not there."""
    try:
        return ss.Ledger(where)
    except ModuleNotFoundError as error:
        raise ss.InvalidInputError(str(error)) from None


def opened_for(where: str | None, dataset: str | None) -> ss.Ledger | None:
    """Return the ledger to charge, if one is named."""
    if where is None:
        if dataset is not None:
            raise ss.InvalidInputError(f"--dataset {dataset} names a data set of a ledger; say --ledger FILE as well")
        return None
    return opened(where)


def left_fields(left: Left) -> dict[str, Any]:
    """Return what is left of a budget as JSON fields."""
    return dataclasses.asdict(left) | {"renewed": None if left.renewed is None else left.renewed.isoformat()}


def left_told(ledger: ss.Ledger | None, dataset: str | None) -> tuple[dict[str, Any], dict[str, str]]:
    """Return what is left after a charge, as JSON fields and as facts; nothing where nothing was named."""
    if ledger is None or dataset is None:
        return {}, {}
    left = ledger.left(dataset)
    return {"left": left_fields(left)}, {"left": f"{left} of {dataset}"}
