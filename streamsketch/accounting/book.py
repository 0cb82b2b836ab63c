"""What a ledger's entries add up to: which budgets there are, what was charged to them, and what is left."""

import dataclasses
import datetime as dt
import hashlib
import json
import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import Any, Literal

from streamsketch.accounting.sensitivity import most_in_a_cell, sensitivity_of
from streamsketch.accounting.store import DamagedLedgerError
from streamsketch.core.documents import Json
from streamsketch.core.numbers import check_int, short
from streamsketch.core.text import check_text
from streamsketch.errors import InvalidInputError, LedgerError
from streamsketch.privacy.budget import Budget, exact_text, less, rounded_down, rounded_up, written
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.privacy.mechanism import KeySelection
from streamsketch.privacy.zcdp import epsilon_to_rho, pure_rho
from streamsketch.projections.base import Projection

Accounting = Literal["sum", "filter"]
"""How the charges of a data set add up: their sum, or a filter for many small ones, which needs δ > 0."""
ACCOUNTINGS: tuple[Accounting, ...] = ("sum", "filter")
ID_FIELDS = ("data_ids", "further_ids")
"""Fields of an entry for the ids of its data: those that a release publishes, and those of all parts of a large sum."""
START = "0" * 64
"""What the first entry calls the hash of the one before."""

_MOST_DAYS = 36_525
_DIGITS = 4  # of ρ as text, where these suffice
_ROUNDED_UP = 1e-5  # relative: what the ε of a noise may be rounded up by
_TERMS = ("unit", "epsilon", "delta", "accounting", "period_days")


@dataclasses.dataclass(frozen=True)
class Spending:
    """What one release takes from a budget.

    Parameters
    ----------
    epsilon, delta
        Of its guarantee.
    rho, rho_delta
        It is ρ-zCDP, but for a failure probability ``rho_delta``: 0 for Laplace and Gaussian noise, the δ of the choice
        of keys where they were chosen privately.
    """

    epsilon: float
    delta: float
    rho: float
    rho_delta: float


def spending_of(guarantee: Guarantee, projection: Projection | None = None) -> Spending:
    """Return what a release with this guarantee takes.

    Parameters
    ----------
    guarantee
        Of the release.
    projection
        Its public map, by which a Laplace noise is known to spend far less ρ than any other ε-DP release would; without
        it, or where the noise is not on the cells, ρ is that of any release with this ε and δ.
    """
    epsilon, delta = guarantee.epsilon, guarantee.delta
    choices = [step.budget for step in guarantee.mechanism.steps if isinstance(step, KeySelection)]
    by_noise = None if projection is None else _rho_of_noise(guarantee, projection, choices)
    if by_noise is None:
        return Spending(epsilon, delta, pure_rho(epsilon), delta)
    rho, times = by_noise
    chosen = math.fsum(pure_rho(budget.epsilon) for budget in choices)
    failing = rounded_up(times * sum(written(budget.delta) for budget in choices))
    return Spending(epsilon, delta, times * (rho + chosen), failing)


def _rho_of_noise(guarantee: Guarantee, projection: Projection, choices: Sequence[Budget]) -> tuple[float, int] | None:
    """Return the ρ of a guarantee's noise, and of how many such releases at most it may be the sum.

    Releases with one mechanism are composed to a guarantee that names it once, with the sum of their ε. So their number
    is at most the ε that is left of all after the choices of keys, over that of the noise. None if ρ is not known.
    """
    step = guarantee.mechanism.the_noise
    if step is None or (step.place, step.layers) != ("output", 1):
        return None
    sensitivity = sensitivity_of(projection, guarantee.neighbours, step.layout)
    cell = most_in_a_cell(projection, guarantee.neighbours, step.layout)
    rho = step.noise.rho(sensitivity, cell, 1 if step.shares is None else step.shares.honest)
    try:
        budget = guarantee.budget.minus(Budget.total(choices) if choices else None)
    except InvalidInputError:  # the choices spend all of it, so it is not the sum of these steps
        return None
    spent = step.noise.loss(sensitivity, budget).epsilon
    if rho is None or spent is None or not 0 < spent < math.inf:
        return None
    return rho, max(1, math.floor(budget.epsilon / spent * (1 + _ROUNDED_UP)))


@dataclasses.dataclass(frozen=True)
class Entry:
    """One line of a ledger.

    Parameters
    ----------
    number
        The entry's number, from 1 on without gaps.
    previous, digest
        The hash of the entry before, and its own: SHA-256 as hexadecimal text.
    body
        The fields: ``kind`` (``"dataset"``, ``"charge"`` or ``"refund"``), ``at`` (UTC), and those of its kind.

    Examples
    --------
    >>> from streamsketch import Ledger
    >>> ledger = Ledger(getfixture("tmp_path") / "ledger.sqlite")
    >>> ledger.dataset("visits", unit="patient", epsilon=4.0)
    >>> [(entry.number, entry.body["kind"], entry.body["epsilon"]) for entry in ledger.entries()]
    [(1, 'dataset', 4.0)]
    """

    number: int
    previous: str
    digest: str
    body: Json


@dataclasses.dataclass(frozen=True)
class Dataset:
    """A data set of a ledger, with its budget.

    Parameters
    ----------
    name
        The data set's name.
    unit
        The privacy unit that all its releases protect.
    budget
        The budget for all releases of a period together.
    accounting
        ``"sum"`` or ``"filter"``; see `Ledger.dataset`.
    period_days
        The number of days after which the budget is renewed; None for never.
    opened
        When the data set was added, in UTC.

    Examples
    --------
    >>> from streamsketch import Ledger
    >>> ledger = Ledger(getfixture("tmp_path") / "ledger.sqlite")
    >>> ledger.dataset("visits", unit="patient", epsilon=4.0, period_days=365)
    >>> (visits,) = ledger.datasets
    >>> visits.name, visits.unit, str(visits.budget), visits.period_days
    ('visits', 'patient', 'ε = 4, δ = 0', 365)
    """

    name: str
    unit: str
    budget: Budget
    accounting: Accounting
    period_days: int | None
    opened: dt.datetime

    @property
    def terms(self) -> tuple[Any, ...]:
        """The terms of the budget, which do not change."""
        return self.unit, self.budget, self.accounting, self.period_days

    @property
    def filter(self) -> tuple[float, float]:
        """The ρ that ``"filter"`` allows for half of δ, and that half, rounded down, which is for choices of keys."""
        half = rounded_down(written(self.budget.delta) / 2)
        budget = Budget(self.budget.epsilon, half).rounded_down()
        return epsilon_to_rho(budget.epsilon, budget.delta), half

    def period_of(self, time: dt.datetime) -> int:
        """Return the number of the period that contains a time."""
        return 0 if self.period_days is None else (time - self.opened) // dt.timedelta(days=self.period_days)

    def renewed_after(self, time: dt.datetime) -> dt.datetime | None:
        """Return when the next period begins; None where there is none, or not before the year 10,000."""
        if self.period_days is None:
            return None
        try:
            return self.opened + (self.period_of(time) + 1) * dt.timedelta(days=self.period_days)
        except OverflowError:
            return None


@dataclasses.dataclass(frozen=True)
class Left:
    """What is left of a budget.

    Parameters
    ----------
    epsilon, delta
        What one more release may spend, by sums.
    rho, rho_delta
        What one more release may spend of the privacy filter; None if only sums count.
    charges
        The number of charges in this period, without entries of more data that a charge covers.
    renewed
        When the budget is renewed, in UTC; None for never.
    """

    epsilon: float
    delta: float
    rho: float | None = None
    rho_delta: float | None = None
    charges: int = 0
    renewed: dt.datetime | None = None

    def __str__(self) -> str:
        if self.rho is None:
            return str_of(self.epsilon, self.delta)
        return self.text(_rounded(self.rho, ROUND_FLOOR, _DIGITS))

    def text(self, rho: str) -> str:
        """Return what is left by a filter, with its ρ as text."""
        return f"ε = {exact_text(self.epsilon)} with δ = 0, or ρ = {rho}"


@dataclasses.dataclass(frozen=True)
class _ChargeEntry:
    datasets: frozenset[str]
    spending: Spending
    at: dt.datetime
    once: str | None

    @classmethod
    def of(cls, body: Json, at: dt.datetime) -> "_ChargeEntry":
        amounts = [body[field.name] for field in dataclasses.fields(Spending)]
        if not all(type(amount) in {int, float} and 0 <= amount < math.inf for amount in amounts):
            raise ValueError
        if type(body["datasets"]) is not list:
            raise ValueError
        return cls(frozenset(body["datasets"]), Spending(*amounts), at, body["once"])


class Book:
    """The entries of a ledger, added up."""

    def __init__(self) -> None:
        self.datasets: dict[str, Dataset] = {}
        self.owners: dict[str, set[str]] = {}  # published data id → data sets
        self.once: dict[str, Entry] = {}
        self.last: Entry | None = None
        self._latest = dt.datetime.min.replace(tzinfo=dt.UTC)
        self._charges: dict[int, _ChargeEntry] = {}

    def add(self, entry: Entry) -> None:
        """Take the next entry, once it is known to follow the one before."""
        before, number = (START, 0) if self.last is None else (self.last.digest, self.last.number)
        if entry.number != number + 1:
            raise DamagedLedgerError(
                f"entry {entry.number} follows entry {number}: entries are missing or in another order"
            )
        if entry.previous != before:
            raise DamagedLedgerError(
                f"entry {entry.number} does not follow the entry before it: one of them was changed"
            )
        if entry.digest != digest_of(entry.number, entry.previous, entry.body):
            raise DamagedLedgerError(f"entry {entry.number} was changed after it was written")
        try:
            self._take(entry)
        except (KeyError, TypeError, ValueError, OverflowError):
            raise DamagedLedgerError(f"entry {entry.number} is not an entry that a ledger writes") from None
        self.last = entry

    def _take(self, entry: Entry) -> None:
        body = entry.body
        at = self.time(_written(body))
        match body["kind"]:
            case "dataset" if body["dataset"] not in self.datasets:
                name, terms = body["dataset"], {each: body[each] for each in _TERMS}
                budget = check_dataset(name, **terms)
                unit, accounting, days = terms["unit"], terms["accounting"], terms["period_days"]
                self.datasets[name] = Dataset(name, unit, budget, accounting, days, at)
            case "charge":
                charge = _ChargeEntry.of(body, at)
                ids = [str(bytes.fromhex(data_id).hex()) for data_id in ids_in(body)]
                if not charge.datasets or not charge.datasets <= set(self.datasets):
                    raise ValueError
                self._charges[entry.number] = charge
                for data_id in ids:
                    self.owners.setdefault(data_id, set()).update(charge.datasets)
                if charge.once is not None:
                    self.once[charge.once] = entry
            case "refund":
                once = self._charges.pop(body["charge"]).once
                if once is not None:
                    del self.once[once]  # who tries again is charged again
            case _:
                raise ValueError
        self._latest = at

    def time(self, clock: dt.datetime) -> dt.datetime:
        """Return the ledger's time at a clock's time: that of the newest entry, if the clock was set back since."""
        return max(clock, self._latest)

    def is_renewed(self, entry: Entry, time: dt.datetime) -> bool:
        """Return whether a budget that an entry was charged to was renewed since, at a time."""
        datasets = [self.datasets[name] for name in entry.body["datasets"]]
        at = self._charges[entry.number].at
        return any(dataset.period_of(at) != dataset.period_of(time) for dataset in datasets)

    def check_charge(self, number: int) -> None:
        """Raise `LedgerError` unless an entry is a charge that was not given back."""
        if number not in self._charges:
            raise LedgerError(f"entry {number} is not a charge, or has already been refunded")

    def charged(self, dataset: Dataset, time: dt.datetime) -> list[Spending]:
        """Return what was charged to a data set in the period that contains a time."""
        period = dataset.period_of(time)
        return [
            charge.spending
            for charge in self._charges.values()
            if dataset.name in charge.datasets and dataset.period_of(charge.at) == period
        ]

    def left(self, dataset: Dataset, time: dt.datetime) -> Left:
        """Return what is left of a budget at a time."""
        spent = self.charged(dataset, time)
        epsilon = less(dataset.budget.epsilon, [charge.epsilon for charge in spent])
        period: dict[str, Any] = {
            "charges": sum(charge.epsilon > 0 for charge in spent),
            "renewed": dataset.renewed_after(time),
        }
        if dataset.accounting == "sum":
            return Left(epsilon, less(dataset.budget.delta, [charge.delta for charge in spent]), **period)
        pure = epsilon if all(charge.delta == 0 for charge in spent) else 0.0
        total, half = dataset.filter
        rho = less(total, [charge.rho for charge in spent])
        return Left(pure, 0.0, rho, less(half, [charge.rho_delta for charge in spent]), **period)

    def check(self, dataset: Dataset, spending: Spending, time: dt.datetime) -> None:
        """Raise `LedgerError` if a charge does not fit."""
        left = self.left(dataset, time)
        if spending.epsilon <= left.epsilon and spending.delta <= left.delta:
            return
        wait = ""
        if left.renewed is not None and spending.epsilon <= dataset.budget.epsilon:
            wait = f", or wait until the budget is renewed at {left.renewed:%Y-%m-%d %H:%M} UTC"
        if left.rho is not None and left.rho_delta is not None:
            if spending.rho <= left.rho and spending.rho_delta <= left.rho_delta:
                return
            asked, rest = _apart(spending.rho, left.rho)
            raise LedgerError(
                f"{str_of(spending.epsilon, spending.delta)} (ρ = {asked}) does not fit into what is left of "
                f"{dataset.name!r}: {left.text(rest)}. Release with a smaller ε{wait}"
            )
        raise LedgerError(
            f"{str_of(spending.epsilon, spending.delta)} does not fit into what is left of {dataset.name!r}: {left}. "
            f"Release with no more than that{wait}"
        )


def ids_in(body: Json) -> list[str]:
    """Return the ids of data in an entry, as hexadecimal text; older versions entered no further ones."""
    return [*body["data_ids"], *body.get("further_ids", [])]


def digest_of(number: int, previous: str, body: Json) -> str:
    """Return the hash of an entry: of its number, the hash before and its text."""
    return hashlib.sha256(f"streamsketch.ledger.1\n{number}\n{previous}\n{text_of(body)}".encode()).hexdigest()


def text_of(body: Json) -> str:
    """Return an entry's text: canonical JSON."""
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _written(body: Json) -> dt.datetime:
    """Return when an entry was written, in UTC; raise `ValueError` or `OverflowError` unless it has a time zone."""
    time = dt.datetime.fromisoformat(body["at"])
    if time.tzinfo is None:
        raise ValueError
    return time.astimezone(dt.UTC)


def check_dataset(
    name: str, *, unit: str, epsilon: float, delta: float, accounting: str, period_days: int | None
) -> Budget:
    """Return the budget of a data set that could be entered; parameters and errors as `Ledger.dataset`."""
    check_text("the name of a data set", name)
    check_text("the privacy unit", unit)
    budget = Budget(epsilon, delta)
    if accounting not in ACCOUNTINGS:
        raise InvalidInputError(f"accounting must be one of {', '.join(ACCOUNTINGS)}, got {short(accounting)}")
    if accounting == "filter" and budget.delta == 0:
        raise InvalidInputError("accounting='filter' needs delta > 0, such as 1e-9; accounting='sum' does not")
    if period_days is not None:
        check_int(period_days, "period_days", 1, _MOST_DAYS)
    return budget


def str_of(epsilon: float, delta: float) -> str:
    """Return two amounts in all the digits that they have as decimals: no two different ones look alike."""
    return f"ε = {exact_text(epsilon)}, δ = {exact_text(delta)}"


def _apart(asked: float, left: float) -> tuple[str, str]:
    """Return two amounts as texts of few digits, rounded up and down, that differ if the first is larger."""
    for digits in range(_DIGITS, 18):
        texts = _rounded(asked, ROUND_CEILING, digits), _rounded(left, ROUND_FLOOR, digits)
        if asked <= left or texts[0] != texts[1]:
            return texts
    return exact_text(asked), exact_text(left)


def _rounded(amount: float, rounding: str, digits: int) -> str:
    return f"{Context(prec=digits, rounding=rounding).create_decimal(repr(amount)).normalize():g}"
