"""Releases of rows under an agreement with terms, which leave nothing secret behind."""

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import streamsketch as ss
from streamsketch.agreement.terms import Selected
from streamsketch.cli._dry_run import DryRun, show_dry_run
from streamsketch.cli._inputs import Reading
from streamsketch.cli._reading import SIGNS, SKETCH, TABLE, find_duplicate
from streamsketch.cli._releasing import remaining_facts
from streamsketch.cli._saying import say
from streamsketch.cli._showing import guarantee_fields, show_result
from streamsketch.cli._sketching import tell_seen
from streamsketch.cli._writing import new_file
from streamsketch.intake.events import Events
from streamsketch.intake.files import RowReader
from streamsketch.intake.rows import Intake
from streamsketch.release.agreed_publisher import publisher_of
from streamsketch.sketching.bounding.units import bound_batches
from streamsketch.storage.sketches import RawHeader, RawSketch


def check_output(output: Path, agreed: ss.Agreement) -> Path:
    """Return the file to write, once it is sure to be new and to have the suffix of what is agreed."""
    if agreed.key is not None or agreed.windows_are_keys:
        return new_file(output, TABLE, "a table of releases")
    if agreed.terms is not None and not agreed.terms.is_noise:
        return new_file(output, SIGNS, "a release of signs")
    return new_file(output, SKETCH, "a release")


def sketch_of_rows(agreed: ss.Agreement, paths: list[Path], reader: RowReader) -> ss.Sketch | ss.SketchTable:
    """Return the exact sketch of files, in memory alone; tell the operator the share of rows that were left out."""
    if twice := find_duplicate(paths):
        raise ss.InvalidInputError(f"{twice}; its rows would count twice")
    for path in paths:
        if not path.is_fifo():  # a pipe opens once
            path.open("rb").close()  # before an hour's work on the others, and whose error names the file
    exact = _exact(agreed, paths, reader)
    tell_seen(reader.seen, None if agreed.unit is None else agreed.unit.name)
    return exact


def _exact(agreed: ss.Agreement, paths: list[Path], reader: RowReader) -> ss.Sketch | ss.SketchTable:
    windows = agreed.windows
    time, of_times = (None, None) if windows is None else (windows.time.name, windows.of_times)
    time_format = None if windows is None else windows.format
    if agreed.unit is None:
        keyed = agreed.key is not None or windows is not None
        exact: ss.Sketch | ss.SketchTable = ss.SketchTable(agreed) if keyed else ss.Sketch(agreed)
        intake = Intake(agreed, time=time, time_format=time_format, windows=of_times)
        for path in paths:
            for events in reader.events(path, intake):
                exact.add_events(events if windows is None else events.keyed_by(windows.of_times))
        return exact
    summary = ss.bounding.BoundingSummary()

    def read(intake: Intake) -> Iterator[Events]:
        for path in paths:
            yield from reader.events(path, intake)

    published = agreed.published_keys
    listed = published if isinstance(published, tuple) else None
    exact = bound_batches(
        read, agreed, public_keys=listed, summary=summary, time=time, time_format=time_format, windows=of_times
    )
    if summary.rows_dropped:
        say(f"secret: {100 * summary.rows_dropped / summary.rows_read:.2g} % of the rows were left out")
    return exact


def check_released_at_once(agreed: ss.Agreement, name: str) -> None:
    """Raise `InvalidInputError` for windows that are released one by one, or of which some are left out."""
    if agreed.windows_are_releases:
        raise ss.InvalidInputError(
            f"{name} releases each window by itself, and this writes one release: `streamsketch stream file LOG "
            "--agreement FILE --job FILE` follows it, and agreement.release(rows) in Python returns all windows of a "
            "table"
        )
    if agreed.windows is not None and agreed.windows.first is not None and not isinstance(agreed.keys, tuple | None):
        raise ss.InvalidInputError(
            f"{name} leaves out rows of other windows although their keys are not listed, which "
            "agreement.release(rows) does in Python; list the keys, or leave out first and last of the windows"
        )


def known_without_rows(agreed: ss.Agreement) -> bool:
    """Return whether noise is added to cells of known keys; otherwise signs are published, or keys are chosen."""
    return agreed.terms is not None and agreed.terms.is_noise and not isinstance(agreed.keys, Selected)


def show_terms(agreed: ss.Agreement, unread: str, *, as_json: bool) -> None:
    """Show what a release would spend; nothing is read or drawn."""
    guarantee = publisher_of(agreed).guarantee(agreed.projection)
    facts = {"release": str(agreed.terms), "guarantee": str(guarantee)}
    fields = {"agreement": agreed.fingerprint, "guarantee": guarantee_fields(guarantee)}
    show_result(f"Dry run: {unread}, and nothing is written or charged", facts, fields, as_json=as_json)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReleaseOfRows:
    """How ``streamsketch release`` is called with rows.

    Parameters
    ----------
    agreement, name
        What is published, and the file that says it.
    output
        The file to write; None only for a dry run.
    ledger, dataset
        What is charged.
    """

    agreement: ss.Agreement
    name: Path
    output: Path | None
    ledger: ss.Ledger | None
    dataset: str | None

    def run(self, paths: list[Path], reading: Reading, *, dry_run: bool, as_json: bool) -> None:
        """Release the rows of files, or show what a release would spend."""
        agreed = self.agreement
        if agreed.terms is None:
            raise ss.InvalidInputError(
                f"{self.name} does not say what a release spends: `streamsketch agree {self.name} --epsilon 1 --delta "
                "1e-6 -o terms.json` adds it; then give --agreement terms.json"
            )
        check_released_at_once(agreed, str(self.name))
        publisher_of(agreed).guarantee(agreed.projection)
        if self.output is not None:
            check_output(self.output, agreed)
        elif not dry_run:
            raise ss.InvalidInputError("state where the release is written: --output FILE, or --dry-run for none")
        if dry_run:
            self._show_dry_run(as_json=as_json)
            return
        exact = sketch_of_rows(agreed, paths, reading.reader(agreed))
        self._show(agreed.release(exact, ledger=self.ledger, dataset=self.dataset), as_json=as_json)

    def _show_dry_run(self, *, as_json: bool) -> None:
        agreed = self.agreement
        if agreed.layout.by_rows or not known_without_rows(agreed):
            show_terms(agreed, "no row is read", as_json=as_json)
            return
        empty = RawHeader.of(RawSketch(_exact(agreed, [], Reading().reader(agreed))))
        show_dry_run(DryRun(self.name, empty, agreed), "no row is read", self.ledger, self.dataset, as_json=as_json)

    def _show(self, released: Any, *, as_json: bool) -> None:
        """Write a release, and show what it guarantees."""
        rows = released.rows
        guarantee = rows[0].guarantee
        released.save(self.output)
        left_fields, left_facts = remaining_facts(self.ledger, self.dataset)
        facts = {"guarantee": str(guarantee)} | left_facts
        if isinstance(released, Mapping):
            facts["keys"] = f"{len(rows):,}"
        fields = {"file": str(self.output), "sketches": len(rows), "guarantee": guarantee_fields(guarantee)}
        show_result(str(self.output), facts, fields | left_fields, as_json=as_json)
