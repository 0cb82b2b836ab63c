"""Ledger: what a party spends of its data sets' privacy budgets, charged before anything is released."""

import contextlib
import dataclasses
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from streamsketch.accounting.book import (
    ID_FIELDS,
    START,
    Accounting,
    Book,
    Dataset,
    Entry,
    Left,
    Spending,
    check_dataset,
    digest_of,
    ids_in,
    spending_of,
    text_of,
)
from streamsketch.accounting.store import DamagedLedgerError, FileStore, FollowedStore, Row, Store, Transaction
from streamsketch.core.documents import Json
from streamsketch.core.text import check_text
from streamsketch.core.wrong import LEDGER, wrong_type
from streamsketch.data.data_ids import DataIds
from streamsketch.errors import InvalidInputError, LedgerError
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.projections.base import Projection

_YEARS = (2000, 3000)  # what else a clock says is a mistake, and an entry would stay for ever


@dataclasses.dataclass(frozen=True)
class Receipt:
    """The proof of a charge.

    Parameters
    ----------
    number
        The entry's number.
    digest
        The entry's hash, which shows later whether the ledger up to this entry was changed.
    datasets
        The data sets that were charged.

    Examples
    --------
    >>> from streamsketch import L1, Ledger, SJLT
    >>> ledger = Ledger(getfixture("tmp_path") / "ledger.sqlite")
    >>> ledger.dataset("sales", unit="sale", epsilon=4.0)
    >>> sketch = SJLT(dim=1 << 40, sketch_dim=64, sparsity=4, seed=7).sketch()
    >>> guarantee = sketch.release(epsilon=1.0, neighbours=L1(1, unit="sale")).guarantee
    >>> receipt = ledger.charge("sales", guarantee)
    >>> receipt.number, receipt.datasets
    (2, ('sales',))
    """

    number: int
    digest: str
    datasets: tuple[str, ...]


class Ledger:
    """A record of what was spent of each data set's privacy budget.

    A release is charged **before** it is drawn, in one transaction with the check that it fits. So processes that
    charge at the same time do not overspend, and a crash between charge and release costs budget, but no privacy.
    Entries are only appended, each with the hash of the one before. A ledger holds no data, but it shows what was
    released and when. Its time does not go back: a clock that was set back does not renew a period's budget. Nor do its
    entries: once those that were read or written are gone, as after an older copy was restored, every method refuses.

    Parameters
    ----------
    where
        Path of an SQLite file, which is made if it is missing and is readable only by its owner. A copy of it is
        another ledger: keep one, and back it up. For a team, the address of a PostgreSQL database, whose users need
        only SELECT and INSERT: ``postgresql+psycopg://ada@db.example.org/privacy?sslmode=verify-full``, with the extra
        ``postgres``; passwords belong into libpq's ``~/.pgpass``.

    Raises
    ------
    InvalidInputError
        If the file or the table is not a ledger, or cannot be written.
    LedgerError
        If entries were changed.

    Examples
    --------
    >>> from streamsketch import L1, SJLT, Ledger
    >>> ledger = Ledger(getfixture("tmp_path") / "ledger.sqlite")
    >>> ledger.dataset("sales", unit="customer", epsilon=4.0, delta=1e-6)
    >>> sketch = SJLT(dim=1 << 40, sketch_dim=64, sparsity=4, seed=7).sketch()
    >>> neighbours = L1(30, unit="customer")
    >>> released = sketch.release(epsilon=1.0, neighbours=neighbours, ledger=ledger, dataset="sales")
    >>> ledger.left("sales").epsilon
    3.0
    """

    def __init__(self, where: str | os.PathLike[str]) -> None:
        if not isinstance(where, str | os.PathLike):
            raise TypeError(f"a ledger is a file, or postgresql+psycopg://…, as text, got a {type(where).__name__}")
        self._store = FollowedStore(_store_at(where))
        self._book = Book()
        with self._read():
            pass

    # --- data sets ------------------------------------------------------------------------------------------

    def dataset(
        self,
        name: str,
        *,
        unit: str,
        epsilon: float,
        delta: float = 0.0,
        accounting: Accounting = "sum",
        period_days: int | None = None,
    ) -> None:
        """Add a data set and its budget. An existing budget cannot be changed.

        Parameters
        ----------
        name
            The data set's name.
        unit
            The privacy unit, as in ``L1(30, unit="customer")``: releases for another unit are refused.
        epsilon, delta
            The budget for all releases of a period together. Amounts count as the decimals that they print as: ten
            charges of 0.1 are 1.
        accounting
            ``"sum"`` keeps the sums of ε and δ within the budget, which is valid for any releases, however they are
            chosen. ``"filter"`` is for many small releases and needs δ > 0: either all releases have δ = 0 and the sum
            of their ε is within the budget, **or** the sum of their ρ is within the largest ρ whose guarantee at δ/2 is
            ε, with δ/2 left for choices of keys. This is valid even if releases are chosen after others were seen
            (Theory 9.4), for which composing privacy loss distributions is not.
        period_days
            The number of days after which the budget is renewed. The guarantee then holds for what is published in each
            period, by itself. A history that goes on is charged in each period in which a row of it is published.

        Raises
        ------
        InvalidInputError
            If the budget is out of range, or a text cannot be printed.
        LedgerError
            If there is already a data set of that name with another budget.
        """
        terms: dict[str, Any] = {"unit": unit, "accounting": accounting, "period_days": period_days}
        budget = check_dataset(name, epsilon=epsilon, delta=delta, **terms)
        with self._read() as (transaction, book):
            dataset = book.datasets.get(name)
            if dataset is None:
                fields = {"kind": "dataset", "dataset": name} | terms | budget.to_dict()
                self._append(transaction, fields)
            elif dataset.terms != (unit, budget, accounting, period_days):
                raise LedgerError(
                    f"data set {name!r} is in the ledger with {dataset.budget} for each {dataset.unit}, by "
                    f"{dataset.accounting}; a budget cannot change once it was promised to people. Use another name"
                )

    @property
    def datasets(self) -> list[Dataset]:
        """All data sets, by name."""
        with self._read() as (_, book):
            return [book.datasets[name] for name in sorted(book.datasets)]

    def left(self, dataset: str) -> Left:
        """Return what is now left of a data set's budget; raise `LedgerError` if the ledger does not have it."""
        with self._read() as (transaction, book):
            return book.left(self._dataset(dataset), book.time(transaction.now()))

    @property
    def newest(self) -> Entry | None:
        """The newest entry, or None. Keep its number and digest elsewhere to detect that later entries were cut off."""
        with self._read() as (_, book):
            return book.last

    # --- charges --------------------------------------------------------------------------------------------

    def charge(
        self,
        dataset: str | None,
        guarantee: Guarantee,
        *,
        projection: Projection | None = None,
        data_ids: DataIds | Iterable[bytes] = (),
        note: str = "",
        once: str | None = None,
    ) -> Receipt:
        """Charge a release, before it is drawn.

        Parameters
        ----------
        dataset
            The data set that is released from. Data that were charged to other data sets before are charged to those as
            well: the sketch itself, its copies, merges that it is in, and parts of a merge, as the ids in raw files and
            tables show them. Of a merge of more than 16 parts that an earlier version charged, its parts are not known.
            None for the data sets from which the data are known to come.
        guarantee
            The guarantee of the release.
        projection
            The public map of the release, for a tighter ρ.
        data_ids
            The ``data_ids`` of the sketch.
        note
            What the release is for.
        once
            An id of one draw, or of a history. A second charge under it costs nothing, so a job may be retried. If a
            period of a data set has begun since, it is charged again: what is published now counts in this period. The
            same id with another data set, other data ids or another guarantee is refused. After a refund the id is
            charged again. The caller must ensure that a retry publishes the same noise, or nothing.

        Returns
        -------
        Receipt
            The proof of the charge.

        Raises
        ------
        LedgerError
            If the charge does not fit, the unit is another, there is no such data set, or ``once`` was charged for
            something else. Nothing is charged then.
        """
        _check_guarantee(guarantee)
        if note:
            check_text("a note", note)
        spending = spending_of(guarantee, projection)
        fields, ids = _ids(data_ids)
        asked = {
            **dataclasses.asdict(spending),
            "neighbours": guarantee.neighbours.to_dict(),
            "mechanism": str(guarantee.mechanism),
            **fields,
        }
        with self._read() as (transaction, book):
            if once is not None and once in book.once:
                entry = _same(book.once[once], dataset, asked)
                names = entry.body["datasets"]
                if not book.is_renewed(entry, book.time(transaction.now())):
                    return Receipt(entry.number, entry.digest, tuple(names))
                ids, dataset = ids | {bytes.fromhex(text) for text in ids_in(entry.body)}, dataset or names[0]
            names = self._checked((transaction, book), dataset, guarantee, spending, ids)
            body = {"kind": "charge", "datasets": names, **asked, "note": note, "once": once}
            entry = self._append(transaction, body)
        return Receipt(entry.number, entry.digest, tuple(names))

    def cover(self, once: str, data_ids: DataIds | Iterable[bytes], *, what: str) -> Receipt:
        """Enter that a charge covers more data, such as those of later windows of a history, at no further cost.

        Other releases of these data are then charged to its data sets as well. Data that are entered already need no
        other entry.

        Parameters
        ----------
        once
            The id of the charge, as in `charge`.
        data_ids
            As in `charge`.
        what
            What the data are, for the error and the entry's note.

        Returns
        -------
        Receipt
            The proof that the data are entered: of the charge, if they were entered before.

        Raises
        ------
        LedgerError
            If there is no such charge, or the data were charged to other data sets before. Nothing is entered then.
        """
        check_text("a note", what)
        fields, ids = _ids(data_ids)
        with self._read() as (transaction, book):
            if once not in book.once:
                raise LedgerError(f"no charge has the id {once!r}; charge it first")
            entry = book.once[once]
            names = entry.body["datasets"]
            if others := {name for data_id in ids for name in book.owners.get(data_id.hex(), ())} - {*names}:
                raise LedgerError(
                    f"{what} holds data that were charged to {', '.join(map(repr, sorted(others)))} before, and the "
                    f"history was charged to {', '.join(map(repr, names))}, once for all windows. Leave these data "
                    f"out, or begin a history with them in its first window, which is charged to both"
                )
            if not all({*names} <= book.owners.get(text, set()) for texts in fields.values() for text in texts):
                nothing = dataclasses.asdict(Spending(0.0, 0.0, 0.0, 0.0))
                more = {**fields, "note": what, "once": None}
                body = {name: value for name, value in entry.body.items() if name not in {"at", *ID_FIELDS}}
                entry = self._append(transaction, body | nothing | more)
        return Receipt(entry.number, entry.digest, tuple(names))

    def draw(self, once: str, row: int, drawn: str) -> Receipt:
        """Enter which draw of a row of a history a charge covers, at no further cost, before it is drawn.

        One charge covers all rows of a history, each once. A second draw of a row, as after an older state was
        restored and what was published is gone, would be another release: it is refused.

        Parameters
        ----------
        once
            The id of the charge, as in `charge`.
        row
            The row's number in its history.
        drawn
            The id of the draw, which reveals nothing: draws with the same id publish the same bytes.

        Returns
        -------
        Receipt
            The proof of the entry, which may be older.

        Raises
        ------
        LedgerError
            If there is no such charge, or the row was drawn before under another id. Nothing is entered then.

        Examples
        --------
        >>> from streamsketch import L1, SJLT, Ledger
        >>> ledger = Ledger(getfixture("tmp_path") / "ledger.sqlite")
        >>> ledger.dataset("sales", unit="sale", epsilon=3.0)
        >>> sketch = SJLT(dim=1 << 40, sketch_dim=64, sparsity=4, seed=7).sketch()
        >>> guarantee = sketch.release(epsilon=1.0, neighbours=L1(1, unit="sale")).guarantee
        >>> receipt = ledger.charge("sales", guarantee, once="history 7")
        >>> ledger.draw("history 7", 0, "a3f1") == ledger.draw("history 7", 0, "a3f1")
        True
        """
        check_text("the id of a draw", drawn)
        own, what = f"{once} row {row}", f"row {row}, drawn as {drawn}"
        with self._read() as (transaction, book):
            if once not in book.once:
                raise LedgerError(f"no charge has the id {once!r}; charge it first")
            entry = book.once.get(own)
            if entry is None:
                nothing = dataclasses.asdict(Spending(0.0, 0.0, 0.0, 0.0)) | {"data_ids": []}
                body = {name: value for name, value in book.once[once].body.items() if name != "at"}
                entry = self._append(transaction, body | nothing | {"note": what, "once": own})
            elif entry.body["note"] != what:
                raise LedgerError(
                    f"entry {entry.number} is a draw of row {row} from other sums, or by another state, and the charge "
                    "covers each row once. Restore the newest state with its log, or begin a new history, which is "
                    "charged"
                )
        return Receipt(entry.number, entry.digest, tuple(entry.body["datasets"]))

    def check(
        self,
        dataset: str | None,
        guarantee: Guarantee,
        *,
        projection: Projection | None = None,
        data_ids: DataIds | Iterable[bytes] = (),
    ) -> tuple[str, ...]:
        """Return the names of the data sets that `charge` would charge, without charging them.

        Parameters
        ----------
        dataset, guarantee, projection, data_ids
            As in `charge`.

        Raises
        ------
        LedgerError
            As in `charge`, if it does not fit now.
        """
        _check_guarantee(guarantee)
        spending = spending_of(guarantee, projection)
        _, ids = _ids(data_ids)
        with self._read() as reading:
            return tuple(self._checked(reading, dataset, guarantee, spending, ids))

    def holders(self, data_ids: DataIds | Iterable[bytes]) -> tuple[str, ...]:
        """Return the names of the data sets to which these data, or parts of them, were charged before.

        Parameters
        ----------
        data_ids
            As in `charge`.
        """
        _, ids = _ids(data_ids)
        with self._read() as (_, book):
            return tuple(sorted({name for data_id in ids for name in book.owners.get(data_id.hex(), ())}))

    def refund(self, receipt: Receipt | int, *, nothing_was_published: str) -> None:
        """Refund a charge, on the assertion that nothing was published.

        Parameters
        ----------
        receipt
            The receipt of the charge, or the number of its entry.
        nothing_was_published
            Who asserts that, and why; the ledger keeps this text. Assert it only once the charged job has ended,
            because it may draw until then. If the assertion is wrong, the guarantee of the data set is wrong.

        Raises
        ------
        LedgerError
            If the charge does not exist, or was already refunded.
        """
        check_text("the reason of a refund", nothing_was_published)
        number = receipt.number if isinstance(receipt, Receipt) else receipt
        with self._read() as (transaction, book):
            book.check_charge(number)
            fields = {"kind": "refund", "charge": number, "reason": nothing_was_published}
            self._append(transaction, fields)

    # --- reading --------------------------------------------------------------------------------------------

    def entries(self) -> Iterator[Entry]:
        """Yield all entries, oldest first, and check that each follows the one before."""
        book = Book()
        with self._store.transaction() as transaction:
            rows = transaction.rows()
        for row in rows:
            entry = _entry(row)
            book.add(entry)
            yield entry

    def audit(self, *receipts: Receipt) -> int:
        """Check that all entries are as they were written, and return their number.

        The chain of hashes shows entries that were changed, removed or reordered. A receipt that was kept elsewhere
        also shows that newer entries were cut off, or that all hashes were rewritten.

        Raises
        ------
        LedgerError
            If an entry was removed, changed or reordered, or differs from a receipt.
        """
        digests = {entry.number: entry.digest for entry in self.entries()}
        for receipt in receipts:
            if digests.get(receipt.number) != receipt.digest:
                raise DamagedLedgerError(f"entry {receipt.number} in the ledger differs from its receipt")
        return len(digests)

    def __repr__(self) -> str:
        return f"<Ledger of {len(self._book.datasets)} data sets>"

    # --- inside ---------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _read(self) -> Iterator[tuple[Transaction, Book]]:
        """Begin a transaction, with all in the book that others have written; the book is read in transactions only."""
        with self._store.transaction() as transaction:
            for row in transaction.rows(0 if self._book.last is None else self._book.last.number):
                self._book.add(_entry(row))
            yield transaction, self._book

    def _append(self, transaction: Transaction, fields: Json) -> Entry:
        at = self._book.time(transaction.now())
        if not _YEARS[0] <= at.year <= _YEARS[1]:
            raise LedgerError(
                f"the clock of the machine that keeps the ledger shows {at:%Y-%m-%d}, and budgets are renewed by that "
                "clock: correct it"
            )
        body = fields | {"at": at.isoformat()}
        before = self._book.last
        number, previous = (1, START) if before is None else (before.number + 1, before.digest)
        entry = Entry(number, previous, digest_of(number, previous, body), body)
        transaction.add((number, previous, text_of(body), entry.digest))
        return entry

    def _dataset(self, name: str) -> Dataset:
        if name not in self._book.datasets:
            raise LedgerError(f"there is no data set {name!r} in the ledger; add it with its budget first")
        return self._book.datasets[name]

    def _checked(
        self,
        reading: tuple[Transaction, Book],
        dataset: str | None,
        guarantee: Guarantee,
        spending: Spending,
        ids: Iterable[bytes],
    ) -> list[str]:
        """Return the data sets to charge for data of known ids, once it is sure that the charge fits into each."""
        transaction, book = reading
        names = {name for data_id in ids for name in book.owners.get(data_id.hex(), ())}
        names |= {dataset} if dataset else set()
        if not names:
            raise LedgerError("these data are not in any data set of the ledger; name one: dataset='…'")
        now = book.time(transaction.now())
        for name in sorted(names):
            self._check_unit(self._dataset(name), guarantee)
            book.check(self._dataset(name), spending, now)
        return sorted(names)

    @staticmethod
    def _check_unit(dataset: Dataset, guarantee: Guarantee) -> None:
        if guarantee.neighbours.unit != dataset.unit:
            raise LedgerError(
                f"the release protects one {guarantee.neighbours.unit}, and the budget of {dataset.name!r} is for one "
                f"{dataset.unit}: bound what each {dataset.unit} contributes, and pass unit={dataset.unit!r}"
            )


def _check_guarantee(guarantee: Guarantee) -> None:
    if not isinstance(guarantee, Guarantee):
        raise TypeError(
            f"only a Guarantee is charged, got a {type(guarantee).__name__}: individual guarantees do not add up"
        )


def _ids(data_ids: DataIds | Iterable[bytes]) -> tuple[dict[str, list[str]], frozenset[bytes]]:
    """Return the fields of an entry that hold ids of data, and the ids by which its data sets are known."""
    if not isinstance(data_ids, DataIds):
        published = list(data_ids)
        return {"data_ids": [data_id.hex() for data_id in published]}, frozenset(published)
    ids = {
        name: [data_id.hex() for data_id in group] for name, group in zip(ID_FIELDS, data_ids.entered(), strict=True)
    }
    return {name: texts for name, texts in ids.items() if texts or name == "data_ids"}, data_ids.recognised()


def _same(entry: Entry, dataset: str | None, asked: dict[str, Any]) -> Entry:
    """Return the charge under an id that is asked for again, once it is known to be the same."""
    charged = entry.body
    what = {"neighbours": "for other neighbours", "mechanism": "with another mechanism"}
    what |= dict.fromkeys(ID_FIELDS, "for other data")
    compared = {**asked, **{name: asked.get(name, []) for name in ID_FIELDS if name in charged}}
    if "further_ids" not in charged:  # as in ledgers of versions that entered none
        compared.pop("further_ids", None)
    differs = [what.get(name, "for another ε or δ") for name, value in compared.items() if charged.get(name) != value]
    if dataset is not None and dataset not in charged["datasets"]:
        differs = [f"to {', '.join(map(repr, charged['datasets']))}"]
    if differs:
        raise LedgerError(
            f"entry {entry.number} charged another release under the same id ({differs[0]}); use another id"
        )
    return entry


def _entry(row: Row) -> Entry:
    number, previous, text, digest = row
    try:
        body = json.loads(text)
        valid = isinstance(body, dict) and text_of(body) == text
    except (ValueError, RecursionError):
        valid = False
    if not valid:
        raise DamagedLedgerError(f"entry {number} was changed after it was written")
    return Entry(number, previous, digest, body)


def _store_at(where: str | os.PathLike[str]) -> Store:
    if "://" not in os.fspath(where):
        return FileStore(Path(where))
    from streamsketch.accounting.database import DatabaseStore  # noqa: PLC0415 - an extra

    return DatabaseStore(os.fspath(where))


def charge(ledger: Ledger | None, dataset: str | None, guarantee: Any, data: Any) -> None:
    """Charge what is about to be released of ``data``, a sketch or a table, if there is a ledger."""
    charge_for(ledger, dataset, guarantee, data.projection, data.data_ids)


def charge_for(ledger: Ledger | None, dataset: str | None, guarantee: Any, projection: Any, data_ids: Any = ()) -> None:
    """Charge what is about to be released by a map, if there is a ledger; without ids the data are new."""
    if ledger is None:
        if dataset is not None:
            raise InvalidInputError(f"dataset={dataset!r} names a data set of a ledger; pass ledger= as well")
        return
    check_ledger(ledger)
    ledger.charge(dataset, guarantee, projection=projection, data_ids=data_ids)


def check_ledger(ledger: object) -> None:
    """Raise `TypeError` unless this is a ledger, or None."""
    if not isinstance(ledger, Ledger | None):
        raise wrong_type("ledger must be a Ledger", ledger, LEDGER)
