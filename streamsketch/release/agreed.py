"""Releases under an agreement with terms: who publishes, which keys, and the one call that does it."""

import os
from collections.abc import Mapping
from typing import Any

from streamsketch.accounting.ledger import Ledger, charge_for, check_ledger
from streamsketch.agreement.agreement import Agreement
from streamsketch.agreement.terms import Selected
from streamsketch.errors import IncompatibleAgreementsError, InvalidInputError
from streamsketch.privacy.bounds import Bounds
from streamsketch.privacy.neighbours import Neighbours
from streamsketch.release.additive_noise import AdditiveNoise
from streamsketch.release.agreed_publisher import publisher_of
from streamsketch.release.composition import compose
from streamsketch.release.in_windows import release_windows
from streamsketch.release.key_choice import KeyChoice
from streamsketch.release.published import load_published
from streamsketch.release.publishers import Publisher
from streamsketch.release.ready import Calibrated
from streamsketch.release.released_again import note_release, warn_of_another
from streamsketch.sketching.bounding.summary import BoundingSummary
from streamsketch.sketching.bounding.units import bound
from streamsketch.sketching.in_windows import sketch_by_windows, sketch_windows
from streamsketch.sketching.sketch import Sketch
from streamsketch.sketching.table import SketchTable


def sketch_agreed(
    agreement: Agreement,
    rows: object,
    *,
    summary: BoundingSummary | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> Any:
    """Return the exact, secret sketch of rows: bounded if the agreement has a unit column; see `Agreement.sketch`."""
    if agreement.layout.limits_windows and agreement.unit is not None:
        schedule: Any = agreement.schedule
        raise InvalidInputError(
            f"{schedule} keeps each unit to {schedule.most} of all windows, which sketches of parts do not show: "
            "release the rows of all windows at once, by agreement.release(rows)"
        )
    if agreement.unit is None or agreement.neighbours is None:
        if summary is not None or folder is not None:
            raise InvalidInputError(
                "the agreement has no unit column, so nothing is bounded: leave out summary and folder"
            )
        if agreement.windows is not None:
            return _by_windows(agreement, rows, None, None)
        exact: Sketch | SketchTable = Sketch(agreement) if agreement.key is None else SketchTable(agreement)
        exact.update_rows(rows)
        return exact
    if agreement.windows is not None:
        return _by_windows(agreement, rows, summary, folder)
    listed = agreement.keys if isinstance(agreement.keys, tuple) else None
    return bound(rows, agreement, public_keys=listed, summary=summary, folder=folder)


def _by_windows(
    agreement: Agreement, rows: object, summary: BoundingSummary | None, folder: str | os.PathLike[str] | None
) -> Any:
    if agreement.windows_are_keys:
        return sketch_by_windows(rows, agreement, summary=summary, folder=folder)
    windows: Any = agreement.windows
    exact = sketch_windows(rows, agreement, summary=summary, folder=folder)
    return {windows.of_times.name(number): sketch for number, sketch in exact.items()}


def release_agreed(
    agreement: Agreement,
    data: object,
    *,
    ledger: Ledger | None = None,
    dataset: str | None = None,
    again: bool = False,
    summary: BoundingSummary | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> Any:
    """Bound, sketch and draw under an agreement; see `Agreement.release`."""
    check_ledger(ledger)  # before rows are read
    publisher = publisher_of(agreement)
    if agreement.windows is not None and agreement.windows.period is not None:
        raise InvalidInputError(
            "the agreement keeps a unit to some windows of each period, which jobs on Beam do (streamsketch.beam, "
            "`streamsketch stream beam`); leave out period to release rows here"
        )
    calibrated = publisher.calibrated(agreement.projection)  # a refusal costs no reading of rows
    if agreement.windows_are_releases:
        return _release_windows(
            agreement, data, ledger=ledger, dataset=dataset, again=again, summary=summary, folder=folder
        )
    if isinstance(data, Sketch | SketchTable):
        _check_follows(data, agreement)
        exact = data
    else:
        exact = sketch_agreed(agreement, data, summary=summary, folder=folder)
    if isinstance(exact, Sketch):
        return publisher.release(exact, again=again, ledger=ledger, dataset=dataset)
    if isinstance(agreement.keys, Selected):
        return _release_selected(
            publisher, calibrated, exact, agreement.keys, again=again, ledger=ledger, dataset=dataset
        )
    keys = agreement.published_keys
    listed = keys if isinstance(keys, tuple) else None
    return publisher.release_table(
        exact, public_keys=listed, keys_are_public=listed is None, again=again, ledger=ledger, dataset=dataset
    )


def _release_windows(
    agreement: Agreement,
    data: object,
    *,
    ledger: Ledger | None,
    dataset: str | None,
    again: bool,
    summary: BoundingSummary | None,
    folder: str | os.PathLike[str] | None,
) -> dict[str, Any]:
    if isinstance(data, Sketch | SketchTable):
        raise InvalidInputError(
            "the agreement releases windows one by one, and this is one sketch: pass the rows, or what "
            "agreement.sketch(rows) returned, a sketch for each window"
        )
    if isinstance(data, Mapping) and all(isinstance(sketch, Sketch | SketchTable) for sketch in data.values()):
        for sketch in data.values():
            _check_follows(sketch, agreement)
        if agreement.layout.limits_windows and agreement.unit is not None:
            sketch_agreed(agreement, None)  # which refuses
        exact: Any = data
    else:
        windows: Any = agreement.windows
        exact = sketch_windows(data, agreement, summary=summary, folder=folder)
        exact = {windows.of_times.name(number): sketch for number, sketch in exact.items()}
    return release_windows(agreement, exact, ledger=ledger, dataset=dataset, again=again)


def load_agreed(agreement: Agreement, path: str | os.PathLike[str], **checked: Any) -> Any:
    """Return the release in a file that follows the agreement: `streamsketch.load` with ``expect``."""
    return load_published(path, expect=agreement, **checked)


def _release_selected(
    publisher: Publisher[Any],
    calibrated: Calibrated[Any],
    table: SketchTable,
    share: Selected,
    *,
    again: bool,
    ledger: Ledger | None,
    dataset: str | None,
) -> Any:
    """Return a release of the keys that are chosen privately: charged as a whole, then chosen, then drawn."""
    choice = KeyChoice.of(table, share.budget)
    whole = compose([calibrated.guarantee_for(table), choice.guarantee], populations="overlapping")
    warn_of_another(table.data_ids, whole, again=again)
    charge_for(ledger, dataset, whole, table.projection, table.data_ids)
    chosen = choice.draw()
    note_release(table.data_ids, whole)
    if not chosen:
        raise InvalidInputError(
            f"no key has enough units to be chosen with {share.budget}; the budget is spent. List keys that are known "
            "without looking at the data, or give the choice a larger share"
        )
    ready = calibrated.with_guarantee(whole).for_data({key: table.sketch_of(key) for key in chosen})
    return publisher.table_of(ready.draw())


def _check_follows(data: Sketch | SketchTable, agreement: Agreement) -> None:
    """Raise an error unless data were sketched under this agreement, and bounded if it has a unit column."""
    if data.agreement is None:
        raise IncompatibleAgreementsError(
            "these data follow no agreement: sketch them by agreement.sketch(rows), or release them with epsilon=…"
        )
    agreement.check_same(data.agreement)
    if agreement.unit is not None and not data.bounds.is_enforced:
        raise InvalidInputError(
            f"the agreement protects one {agreement.unit.name}, and these data were not bounded: pass the rows, or "
            "what agreement.sketch(rows) returns"
        )


def noise_asked(
    bounds: Bounds,
    agreement: Agreement | None,
    *,
    epsilon: float | None,
    delta: float | None,
    mechanism: str | None,
    neighbours: Neighbours | None,
) -> AdditiveNoise:
    """Return the noise that `Sketch.release` or `SketchTable.release` asks for, in the words of their parameters.

    What is left out is what the agreement or the bounds of the data state.

    Raises
    ------
    InvalidInputError
        If nothing states ε or the neighbours.
    """
    terms = None if agreement is None else agreement.terms
    if epsilon is None:
        if terms is None or agreement is None:
            raise InvalidInputError(
                "state what the release spends: epsilon=1.0 (and delta=1e-6 for a bound on sketches), or an agreement "
                "with terms, streamsketch.agree(…, epsilon=1, delta=1e-6)"
            )
        if not terms.is_noise or isinstance(agreement.keys, Selected):
            raise InvalidInputError(
                f"the agreement publishes by {terms}, which agreement.release(data) does; this adds noise alone"
            )
        epsilon = terms.budget.epsilon
        delta = terms.budget.delta if delta is None else delta
        mechanism = terms.mechanism if mechanism is None else mechanism
    if neighbours is None:
        neighbours = bounds.neighbours if bounds.is_enforced else None
        neighbours = neighbours or (None if agreement is None else agreement.neighbours)
    if neighbours is None:
        raise InvalidInputError(
            "state how much one unit can change: neighbours=L1(bound, unit=…) or SketchL2(bound, unit=…); only data "
            "that streamsketch.bound made, or whose agreement has neighbours, can leave it out"
        )
    noise = AdditiveNoise(
        epsilon=epsilon,
        delta=0.0 if delta is None else delta,
        mechanism="auto" if mechanism is None else mechanism,
        neighbours=neighbours,
    )
    return noise.counted_as(bounds, agreement)
