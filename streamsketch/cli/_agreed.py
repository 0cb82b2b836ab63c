"""Releases under an agreement with terms: of rows, which leave nothing secret behind, and of raw sketches."""

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import streamsketch as ss
from streamsketch.cli._reading import SIGNS, SKETCH, TABLE, find_duplicate, naming_raw, new_file
from streamsketch.cli._releasing import ledger_for, remaining_facts
from streamsketch.cli._saying import say
from streamsketch.cli._showing import guarantee_fields, show_result
from streamsketch.cli._sketching import tell_seen
from streamsketch.intake.events import Events
from streamsketch.intake.files import RowReader
from streamsketch.intake.rows import Intake
from streamsketch.release.agreed_publisher import publisher_of
from streamsketch.sketching.bounding.units import bound_batches
from streamsketch.storage.raw_files import read_header, transaction
from streamsketch.storage.releases import release_loaded_as_agreed


def _check_output(output: Path, agreed: ss.Agreement) -> Path:
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
    exact = _exact(agreed, paths, reader)
    tell_seen(reader.seen, None if agreed.unit is None else agreed.unit.name)
    return exact


def _exact(agreed: ss.Agreement, paths: list[Path], reader: RowReader) -> ss.Sketch | ss.SketchTable:
    windows = agreed.windows
    timed: dict[str, Any] = {}
    if windows is not None:
        timed = {"time": windows.time.name, "time_format": windows.format, "windows": windows.of_times}
    if agreed.unit is None:
        keyed = agreed.key is not None or windows is not None
        exact: ss.Sketch | ss.SketchTable = ss.SketchTable(agreed) if keyed else ss.Sketch(agreed)
        intake = Intake(agreed, **timed)
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
    exact = bound_batches(read, agreed, public_keys=listed, summary=summary, **timed)
    if summary.rows_dropped:
        say(f"secret: {100 * summary.rows_dropped / summary.rows_read:.2g} % of the rows were left out")
    return exact


@dataclasses.dataclass(frozen=True, kw_only=True)
class AgreedRelease:
    """How ``streamsketch release`` is called where an agreement says what is released.

    Parameters
    ----------
    output
        The file to write; None only for a dry run.
    ledger, dataset, again, dry_run, as_json
        Its options.
    given
        The names of other options that were given, which the agreement says instead.
    """

    output: Path | None
    ledger: str | None
    dataset: str | None
    again: bool
    dry_run: bool
    as_json: bool
    given: str

    def of_rows(self, paths: list[Path], agreement: Path, reading: dict[str, Any]) -> None:
        """Release the rows of files; ``reading`` are arguments of `RowReader`."""
        agreed = ss.Agreement.load(agreement)
        account = self._checked(agreed, str(agreement), "no row is read")
        if self.output is not None and not self.dry_run:
            time = None if agreed.windows is None else agreed.windows.time.name
            exact = sketch_of_rows(agreed, paths, RowReader(agreed, time=time, **reading))
            self._show(agreed.release(exact, ledger=account, dataset=self.dataset), account)

    def of_raw(self, file: Path, agreement: Path | None) -> None:
        """Release a raw sketch, and record it in its file; ``agreement`` must be that of the file."""
        with naming_raw(file):
            agreed = read_header(file).agreement
        if agreed is None or agreed.terms is None:
            whose = f"{file} follows no agreement that says it" if agreed is None else f"that of {file} does not say it"
            raise ss.InvalidInputError(
                f"state what the release spends: --epsilon EPSILON, or an agreement made with --epsilon; {whose}"
            )
        if agreement is not None:
            ss.Agreement.load(agreement).check_same(agreed)
        account = self._checked(agreed, f"the agreement of {file}", "no sum is read")
        if self.output is not None and not self.dry_run:
            with naming_raw(file), transaction(file) as raw_file:
                released = release_loaded_as_agreed(
                    raw_file.load(), raw_file, file, again=self.again, ledger=account, dataset=self.dataset
                )
            try:
                self._show(released, account)
            except OSError as error:
                raise ss.InvalidInputError(
                    f"{self.output} cannot be written: {error.strerror or error}. {file} has recorded the release "
                    "already. Once there is room, give --again, which counts as another release"
                ) from None

    def _checked(self, agreed: ss.Agreement, name: str, unread: str) -> ss.Ledger | None:
        """Return the ledger, once the agreement and the output are right; show what a dry run shows."""
        if self.given:
            raise ss.InvalidInputError(f"{name} says what is released, and how; leave out {self.given}")
        if agreed.terms is None:
            raise ss.InvalidInputError(
                f"{name} does not say what a release spends: make it with `streamsketch agree … --epsilon 1 --delta "
                "1e-6`; or sketch by it, and give --epsilon when you release the raw sketch"
            )
        if agreed.windows_are_releases:
            raise ss.InvalidInputError(
                f"{name} releases each window by itself, and this writes one release: `streamsketch stream file LOG "
                "--agreement FILE --job FILE -o STATE` follows it, and agreement.release(rows) in Python returns all "
                "windows of a table"
            )
        if (
            agreed.windows is not None
            and agreed.windows.first is not None
            and not isinstance(agreed.keys, tuple | None)
        ):
            raise ss.InvalidInputError(
                f"{name} leaves out rows of other windows although their keys are not listed, which "
                "agreement.release(rows) does in Python; list the keys, or leave out first and last of the windows"
            )
        guarantee = publisher_of(agreed).guarantee(agreed.projection)
        if self.output is not None:
            _check_output(self.output, agreed)
        elif not self.dry_run:
            raise ss.InvalidInputError("state where the release is written: --output FILE, or --dry-run for none")
        account = ledger_for(self.ledger, self.dataset)
        if self.dry_run:
            facts = {"release": str(agreed.terms), "guarantee": str(guarantee)}
            fields = {"agreement": agreed.fingerprint, "guarantee": guarantee_fields(guarantee)}
            title = f"Dry run: {unread}, and nothing is written or charged"
            show_result(title, facts, fields, as_json=self.as_json)
        return account

    def _show(self, released: Any, account: ss.Ledger | None) -> None:
        """Write a release, and show what it guarantees."""
        rows = released.rows
        guarantee = rows[0].guarantee
        released.save(self.output)
        left_fields, left_facts = remaining_facts(account, self.dataset)
        facts = {"guarantee": str(guarantee)} | left_facts
        if isinstance(released, Mapping):
            facts["keys"] = f"{len(rows):,}"
        fields = {"file": str(self.output), "sketches": len(rows), "guarantee": guarantee_fields(guarantee)}
        show_result(str(self.output), facts, fields | left_fields, as_json=self.as_json)
