"""What all releasing commands have in common: budgets, ledgers, receipts and sums of releases."""

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import streamsketch as ss
from streamsketch import accounting
from streamsketch.cli._options import option
from streamsketch.cli._reading import holds_table, load_published
from streamsketch.core.documents import Json
from streamsketch.privacy.guarantee import Populations
from streamsketch.release.redundancy import sharing_data

if TYPE_CHECKING:
    from streamsketch.accounting.book import Entry, Left
    from streamsketch.accounting.ledger import Ledger, Receipt
    from streamsketch.storage.sketches import PastRelease

Epsilon = Annotated[float, option("Privacy", "EPSILON", "Privacy loss ε, > 0.")]
Delta = Annotated[float, option("Privacy", "DELTA", "Probability δ in [0, 1) with which the bound ε may fail.")]
Again = Annotated[bool, option("Privacy", "", "Release once more. This adds to the privacy loss.", "--again")]
LedgerOption = Annotated[
    str | None,
    option(
        "Ledger", "LEDGER", "Charge the release to a budget in this ledger first: a file, or postgresql://…", "--ledger"
    ),
]
DatasetOption = Annotated[str | None, option("Ledger", "NAME", "Name of the data set in the ledger.", "--dataset")]
PopulationsOption = Annotated[
    Populations | None,
    option(
        "Privacy",
        "disjoint|overlapping",
        "Whether one privacy unit may be in several of the streams. overlapping (the default): it may be in all, "
        "and ε adds up. disjoint: you assert that it is in one only, and the largest ε holds.",
    ),
]

NOT_DISJOINT = "{} and {} share data, so their populations are not disjoint: give --populations overlapping"
_RECEIPT = re.compile(r"(\d{1,15}):([0-9a-f]{64})")


def ledger_name(where: str) -> str:
    """Return the name of a ledger for people, without the password of a database."""
    return re.sub(r"\?.*", "", re.sub(r"(://[^/@]*?):[^/]*@", r"\1@", where)) if "://" in where else where


def open_ledger(where: str) -> "Ledger":
    """Return an existing ledger; a mistyped name does not make a new one."""
    if "://" not in where and not Path(where).exists():
        raise ss.InvalidInputError(
            f"there is no ledger {where}; make it with `streamsketch ledger init {where} --dataset NAME --unit WORD "
            f"--epsilon EPSILON`"
        )
    return ledger_at(where)


def ledger_at(where: str) -> "Ledger":
    """Return a ledger, made if it does not exist."""
    try:
        return ss.Ledger(where)
    except ModuleNotFoundError as error:
        raise ss.InvalidInputError(str(error)) from None


def ledger_for(where: str | None, dataset: str | None) -> "Ledger | None":
    """Return the ledger to charge, if one is named."""
    if where is None:
        if dataset is not None:
            raise ss.InvalidInputError(f"--dataset {dataset} names a data set of a ledger; give --ledger FILE as well")
        return None
    return open_ledger(where)


def left_fields(left: "Left") -> Json:
    """Return what is left of a budget as JSON fields."""
    return dataclasses.asdict(left) | {"renewed": None if left.renewed is None else left.renewed.isoformat()}


def remaining_facts(ledger: "Ledger | None", dataset: str | None) -> tuple[Json, dict[str, str]]:
    """Return what is left after a charge, as JSON fields and as facts; nothing if no ledger was named."""
    if ledger is None or dataset is None:
        return {}, {}
    left = ledger.left(dataset)
    return {"left": left_fields(left)}, {"left": f"{left} of {dataset}"}


def parse_receipt(text: str) -> "Receipt":
    """Return the receipt in NUMBER:DIGEST; raise `InvalidInputError` if it is none."""
    match = _RECEIPT.fullmatch(text)
    if match is None:
        raise ss.InvalidInputError(f"--receipt is NUMBER:DIGEST, as `ledger charge` prints it, got {text[:80]}")
    return accounting.Receipt(int(match[1]), match[2], ())


def receipt_text(receipt: "Receipt | Entry | None") -> str | None:
    """Return a receipt, or that of an entry, as NUMBER:DIGEST."""
    return None if receipt is None else f"{receipt.number}:{receipt.digest}"


def times(releases: Sequence["PastRelease"]) -> str:
    """Return how many releases there were, as an adverb."""
    return "once" if len(releases) == 1 else f"{len(releases)} times"


def together(releases: Sequence["PastRelease"]) -> str:
    """Return what releases of the same data spend together, in words."""
    guarantees = [past.guarantee for past in releases]
    if len({guarantee.neighbours for guarantee in guarantees}) > 1:
        return "the releases are for different neighbours, so their ε do not add up to one number; each is spent"
    try:
        total = ss.compose(guarantees, populations="overlapping")
    except ss.InvalidInputError as error:
        return str(error)
    only_if = f", only if: {'; '.join(total.conditions)}" if total.conditions else ""
    return f"{total.budget} for {total.neighbours} together{only_if}"


def check_single(files: list[Path], command: str) -> None:
    """Raise `InvalidInputError` for a table of releases, which a command does not add up."""
    for file in files:
        if holds_table(file):
            raise ss.InvalidInputError(
                f"{file} holds a table, and {command} takes files of one release each. In Python, "
                f"ss.load(FILE).combine(…) adds up tables of the same keys, and ss.load(FILE)[KEY] is one release"
            )


def sum_of_releases(files: list[Path], populations: Populations | None, signer: list[Path] | None) -> ss.PrivateSketch:
    """Return the release of all streams together; its noise is the sum of theirs.

    Raises
    ------
    InvalidInputError
        If populations are stated to be disjoint, and two of the files share data.
    SignatureError
        If one of ``signer`` must have signed, and did not.
    """
    releases: list[ss.PrivateSketch] = [load_published(file, ss.PrivateSketch, signer=signer) for file in files]
    if populations == "disjoint":
        for first, second in sharing_data(releases):
            raise ss.InvalidInputError(NOT_DISJOINT.format(files[first], files[second]))
    total, *others = releases
    for other in others:
        total = total.combine(other, populations=populations or "overlapping")
    return total
