"""Ledgers, as commands take them."""

import re
from pathlib import Path
from typing import Annotated

import typer

import streamsketch as ss

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
    return re.sub(r"(://[^/@]*?):[^/]*@", r"\1@", where)


def opened(where: str) -> ss.Ledger:
    """Return a ledger that is there; a name that was mistyped makes no new one."""
    if "://" not in where and not Path(where).exists():
        raise ss.InvalidInputError(f"there is no ledger {where}; make it with `streamsketch ledger init {where}`")
    return ss.Ledger(where)


def opened_for(where: str | None, dataset: str | None) -> ss.Ledger | None:
    """Return the ledger to charge, if one is named."""
    if where is None:
        if dataset is not None:
            raise ss.InvalidInputError(f"--dataset {dataset} names a data set of a ledger; say --ledger FILE as well")
        return None
    return opened(where)
