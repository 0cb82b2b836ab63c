"""How a release is charged to the budget of a data set, before it is drawn."""

from typing import Any, Protocol

from streamsketch.errors import InvalidInputError


class Account(Protocol):
    """What keeps budgets: `streamsketch.Ledger`, or anything that charges as it does."""

    def charge(self, dataset: str | None, guarantee: Any, *, projection: Any, data_ids: Any) -> Any:
        """Charge a release, or raise where it does not fit."""


def charge(ledger: Account | None, dataset: str | None, guarantee: Any, data: Any) -> None:
    """Charge what is about to be released of ``data``, a sketch or a table, if there is a ledger."""
    charge_for(ledger, dataset, guarantee, data.projection, data.data_ids)


def charge_for(
    ledger: Account | None, dataset: str | None, guarantee: Any, projection: Any, data_ids: Any = ()
) -> None:
    """Charge what is about to be released by a map, if there is a ledger; without ids the data are new."""
    if ledger is None:
        if dataset is not None:
            raise InvalidInputError(f"dataset={dataset!r} names a data set of a ledger; pass ledger= as well")
        return
    ledger.charge(dataset, guarantee, projection=projection, data_ids=data_ids)
