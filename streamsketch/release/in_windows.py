"""Windows as an agreement states them: what each is published by, and all windows of rows at once."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from streamsketch.accounting.ledger import charge_for
from streamsketch.agreement.agreement import Agreement
from streamsketch.agreement.terms import Selected
from streamsketch.core.numbers import short
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.bounds import Basis
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.products import SERVICES
from streamsketch.release.agreed_publisher import publisher_of
from streamsketch.release.composition import compose
from streamsketch.release.key_choice import KeyChoice
from streamsketch.release.publishers import Publisher
from streamsketch.release.ready import Calibrated
from streamsketch.release.released_again import note_release, warn_of_another
from streamsketch.sketching.in_windows import windows_of
from streamsketch.sketching.sketch import Sketch
from streamsketch.sketching.table import SketchTable


def publisher_in_windows(agreement: Agreement) -> Publisher[Any]:
    """Return what publishes each window under an agreement, or each row of its schedule.

    Its unit is what pays for one release: the agreed unit in one window, or in as many windows as the schedule allows
    (Theory 11.2). Every engine that releases windows asks this function, so that one agreement has one guarantee.

    Raises
    ------
    InvalidInputError
        If the agreement has no windows that are releases; as in `publisher_of`.
    """
    windows, schedule = agreement.windows, agreement.schedule
    if windows is None or not agreement.windows_are_releases:
        raise InvalidInputError(
            "the agreement has no windows that are released one by one: agree on windows=streamsketch.Windows(time=…, "
            "every=…, first=…)"
        )
    publisher: Any = publisher_of(agreement)
    words, unit = windows.of_times.words, publisher.neighbours.unit
    length = words.removeprefix("one window of ")
    unit = f"{unit} in {words}" if schedule is None else schedule.unit_text(unit, length)
    within: Publisher[Any] = dataclasses.replace(
        publisher, neighbours=dataclasses.replace(publisher.neighbours, unit=unit)
    )
    return within


def window_guarantee(agreement: Agreement, conditions: Sequence[str] = ()) -> Calibrated[Any]:
    """Return the calibrated mechanism of each window, with the basis of its guarantee, which the agreement decides.

    ``"enforced"`` if it names units, whom every engine then clips; else ``"asserted"``. ``conditions`` are those of how
    rows are read.
    """
    calibrated = publisher_in_windows(agreement).calibrated(agreement.projection)
    return calibrated.with_guarantee(calibrated.guarantee.on(basis_of(agreement), conditions))


def basis_of(agreement: Agreement) -> Basis:
    """Return whether engines clip units, as the agreement names them, or the bound is asserted."""
    return "asserted" if agreement.unit is None else "enforced"


def spent_in_window(agreement: Agreement, stated: Guarantee) -> Guarantee:
    """Return what a window, or all rows of a schedule, spends of a data set: for one unit in all its windows."""
    return dataclasses.replace(stated, neighbours=publisher_of(agreement).neighbours)


def release_windows(
    agreement: Agreement,
    exact: Mapping[str, Sketch | SketchTable],
    *,
    ledger: Any = None,
    dataset: str | None = None,
    again: bool = False,
) -> dict[str, Any]:
    """Return a release of each window, by name: all are charged at once, then drawn; see `Agreement.release`."""
    windows: Any = agreement.windows
    names = windows.names_of(windows_of(agreement))
    if list(exact) != names:
        raise InvalidInputError(
            f"the agreement publishes the windows {short(names)}, each whether it has data or not, and these are "
            f"{short(list(exact))}: pass the rows, or what agreement.sketch(rows) returned"
        )
    if agreement.layout.by_rows:
        return _rows(agreement, exact, ledger=ledger, dataset=dataset, again=again)
    publisher, shares = publisher_in_windows(agreement), dict[str, Any]()
    judge = publisher_of(agreement).calibrated(agreement.projection)
    asked = [judge.guarantee_for(sketch) for sketch in exact.values()]  # every guard on what was enforced
    basis = "enforced" if all(guarantee.basis == "enforced" for guarantee in asked) else "asserted"
    conditions = sorted({condition for guarantee in asked for condition in guarantee.conditions})
    calibrated = publisher.calibrated(agreement.projection)
    calibrated = calibrated.with_guarantee(calibrated.guarantee.on(basis, conditions))
    stated = calibrated.guarantee
    if isinstance(agreement.keys, Selected):
        shares = {name: KeyChoice.of(table, agreement.keys.budget) for name, table in exact.items()}  # type: ignore[arg-type]
        (first, *_) = shares.values()
        choice = dataclasses.replace(first.guarantee, neighbours=stated.neighbours)
        stated = compose([stated, choice], populations="overlapping")
        calibrated = calibrated.with_guarantee(stated)
    spent = compose([spent_in_window(agreement, stated)] * len(exact), populations="overlapping")
    for sketch in exact.values():
        warn_of_another(sketch.data_ids, stated, again=again)
    ids = sorted({each for sketch in exact.values() for each in sketch.data_ids.published()})
    charge_for(ledger, dataset, spent, agreement.projection, ids)
    released = {}
    for name, sketch in exact.items():
        released[name] = _drawn(publisher, calibrated, agreement, sketch, shares.get(name))
        note_release(sketch.data_ids, stated)
    return released


def _drawn(
    publisher: Publisher[Any],
    calibrated: Calibrated[Any],
    agreement: Agreement,
    exact: Sketch | SketchTable,
    choice: KeyChoice | None,
) -> Any:
    if isinstance(exact, Sketch):
        return calibrated.for_data(exact).draw()
    if choice is not None:
        chosen = choice.draw()
        if not chosen:
            return None
        return publisher.table_of(calibrated.for_data({key: exact.sketch_of(key) for key in chosen}).draw())
    keys: dict[str, Any] = {"public_keys": agreement.keys if isinstance(agreement.keys, tuple) else None}
    if keys["public_keys"] is None and not len(exact):
        return None
    keys["keys_are_public"] = keys["public_keys"] is None
    return publisher.table_of(calibrated.for_data(exact, **keys).draw())


def _rows(
    agreement: Agreement, exact: Mapping[str, Sketch | SketchTable], *, ledger: Any, dataset: str | None, again: bool
) -> dict[str, Any]:
    """Return the rows of a schedule, by the names of windows: charged once, before the first is drawn."""
    calibrated = publisher_in_windows(agreement).calibrated(agreement.projection)
    basis = basis_of(agreement)
    conditions = set[str]()
    for sketch in exact.values():
        stated = calibrated.guarantee_for(sketch)
        conditions |= set(stated.conditions)
        basis = basis if stated.basis == basis else "asserted"
        warn_of_another(sketch.data_ids, stated, again=again)
    calibrated = calibrated.with_guarantee(calibrated.guarantee.on(basis, sorted(conditions)))
    ids = sorted({each for sketch in exact.values() for each in sketch.data_ids.published()})
    spent = spent_in_window(agreement, calibrated.guarantee)
    charge_for(ledger, dataset, spent, agreement.projection, ids)
    releaser = SERVICES.need("rows of a schedule", "the agreement has a schedule")(calibrated, agreement.projection)
    released = {name: releaser.add(sketch) for name, sketch in exact.items()}
    for sketch in exact.values():
        note_release(sketch.data_ids, calibrated.guarantee)
    return released
