"""``streamsketch release``: publish rows, or a raw sketch, as an agreement says."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

import streamsketch as ss
from streamsketch.cli._agreed import ReleaseOfRows, check_output, check_released_at_once, known_without_rows, show_terms
from streamsketch.cli._agreeing import AssertBounds
from streamsketch.cli._cluster import ClusterRelease, split_beam
from streamsketch.cli._dry_run import DryRun, show_dry_run
from streamsketch.cli._fields import Field, set_fields, set_option
from streamsketch.cli._inputs import READING, Reading
from streamsketch.cli._options import option
from streamsketch.cli._reading import SIGNS, SKETCH, naming_raw
from streamsketch.cli._releasing import Again, DatasetOption, LedgerOption, ledger_for, remaining_facts, times, together
from streamsketch.cli._showing import AsJson, guarantee_fields, show_result
from streamsketch.cli._sketching import commands_of_release
from streamsketch.release.agreed_publisher import publisher_of
from streamsketch.storage.first_bytes import SUFFIX, is_raw
from streamsketch.storage.raw_files import RawTransaction, read_header, transaction
from streamsketch.storage.releases import (
    ReleasedBeforeError,
    check_adds_terms,
    release_loaded,
    release_loaded_as_agreed,
    released_before,
)
from streamsketch.storage.sketches import PastRelease, RawHeader, RawSketch

FIELDS = READING | {
    "claims": Field("DIR", "on a cluster, folder shared by all workers, for the secret of each run"),
    "run-id": Field("NAME", "on a cluster, name of this run in claims, by default a random one"),
    "root-key": Field("FILE", "on a cluster, file on every worker that holds a key of 32 bytes, mode 0600", Path),
}
"""What `--set` states."""

PUBLISHED = (SKETCH, SIGNS)


@dataclass
class _Further(Reading):
    """How rows are read, and by whom."""

    claims: str | None = None
    run_id: str | None = None
    root_key: Path | None = None


def release(  # noqa: PLR0913 - a command's options are its parameters
    inputs: Annotated[
        list[str],
        typer.Argument(
            help="Files of rows, with --agreement; or a .raw-sketch file. After --, options of Apache Beam, which then "
            "reads the rows on a cluster.",
            metavar="INPUT... [-- BEAM OPTION...]",
        ),
    ],
    *,
    agreement: Annotated[
        Path | None,
        option(
            "Input",
            "FILE",
            "Agreement that says what is published, and what a release spends: a JSON file. A raw sketch whose own "
            "agreement says it needs none.",
        ),
    ] = None,
    settings: Annotated[list[str] | None, set_option("Input", FIELDS)] = None,
    output: Annotated[
        str | None,
        option(
            "Output",
            "FILE",
            "File to publish: a .sketch file, a .parquet table if there are many keys, or .signs.",
            "--output",
            "-o",
        ),
    ] = None,
    again: Again = False,
    assert_bounds: AssertBounds = False,
    ledger: LedgerOption = None,
    dataset: DatasetOption = None,
    dry_run: Annotated[
        bool,
        option(
            "Privacy",
            "",
            "Show what would be published, its noise and its guarantee, and how long sums must be to stand out. The "
            "command then reads no sums, and writes and charges nothing.",
            "--dry-run",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Release rows, or a raw sketch, as an agreement says.

    Rows of CSV, JSON lines or Parquet are bounded, sketched and released in one step: nothing secret is written.

    A raw sketch is released as its own agreement says, or as --agreement says, which has the same map and columns and
    adds what is spent: `streamsketch agree RAW --epsilon EPSILON -o terms.json` makes one. The guarantee states whether
    its bound was enforced or is asserted. A bound that does not follow from what was enforced is refused, unless
    --assert-bounds asserts it: each event must then belong to one unit.

    With options of Beam after --, the rows of files or globs are released on a cluster, for all keys of the agreement:
    sketches.parquet, sketches/KEY.sketch, and cosines and distances as Parquet and CSV are written into the folder
    --output. If the agreement counts units, so are means, the distances of averages. The same rows give the same exact
    sketches as here.

    The raw file records the release. Without --again, the command refuses to release this file again, or a raw file in
    the same folder that shares data with it, such as a copy or a merge. This is because privacy losses add up. With
    --ledger, the release is charged to the budget of --dataset, or of the data set to which the file's data were
    charged before. The release is refused if it does not fit into this budget.

    With --dry-run, nothing is released, recorded or charged. The output then depends on how the data were processed and
    on the number of keys, not on any sum, so that no decision depends on the data. The exit status is 1 if the release
    would be refused.

    $ streamsketch release sales.csv --agreement terms.json -o sales.sketch

    $ streamsketch release 'sales/*.parquet' --agreement shops.json -o out -- --runner=DirectRunner

    $ streamsketch release north.raw-sketch --agreement north.json -o north.parquet
    """
    words, beam = split_beam(inputs)
    further = set_fields(_Further(), FIELDS, settings)
    if beam:
        cluster = ClusterRelease(
            beam=beam, output=output, claims=further.claims, run_id=further.run_id, root_key=further.root_key
        )
        others: dict[str, object] = {"again": again, "ledger": ledger, "dataset": dataset, "dry_run": dry_run}
        cluster.run(words, agreement, further, others | {"assert_bounds": assert_bounds}, as_json=as_json)
        return
    if (further.claims, further.run_id, further.root_key) != (None, None, None):
        raise ss.InvalidInputError(
            "--set claims, run-id and root-key are for a cluster; also give options of Beam after --"
        )
    files, target = [Path(word) for word in words], None if output is None else Path(output)
    account = ledger_for(ledger, dataset)
    if agreement is not None and not (len(files) == 1 and files[0].is_file() and is_raw(files[0])):
        if assert_bounds:
            raise ss.InvalidInputError("--assert-bounds is for raw sketches: rows are bounded as the agreement says")
        rows = ReleaseOfRows(
            agreement=ss.Agreement.load(agreement), name=agreement, output=target, ledger=account, dataset=dataset
        )
        rows.run(files, further, dry_run=dry_run, as_json=as_json)
        return
    file = _one_raw(files)
    if agreement is None and file.is_file() and file.suffix not in (SUFFIX, *PUBLISHED) and not is_raw(file):
        raise ss.InvalidInputError(
            f"rows are released by an agreement, and {file} is no raw sketch: `streamsketch agree {file} --index "
            "COLUMN --unit-column COLUMN --epsilon 1 --delta 1e-6 -o agreement.json`, then give --agreement "
            "agreement.json"
        )
    with naming_raw(file):
        header = read_header(file)
    raw = _Raw(
        file=file,
        header=header,
        agreed=_agreed_for(file, header, agreement),
        output=target,
        again=again,
        assert_bounds=assert_bounds,
        ledger=account,
        dataset=dataset,
    )
    raw.check()
    if dry_run:
        raw.show(as_json=as_json)
    else:
        raw.publish(as_json=as_json)


def _one_raw(inputs: list[Path]) -> Path:
    if len(inputs) > 1:
        raise ss.InvalidInputError(
            f"one raw sketch is released at a time, got {len(inputs)} files: merge them first (streamsketch merge); or "
            "release rows by --agreement"
        )
    return inputs[0]


def _agreed_for(file: Path, header: RawHeader, path: Path | None) -> ss.Agreement:
    """Return the agreement by which a raw file is released; name the commands that make one if there is none."""
    own = header.agreement
    agreed = own if path is None else ss.Agreement.load(path)
    if agreed is None or agreed.terms is None:
        whose = f"{file} follows no agreement" if agreed is None else f"the agreement of {file} does not say"
        whose = f"{path} does not say" if path is not None else whose
        what = "that says what a release spends" if agreed is None else "what a release spends"
        needs = header.neighbours is not None and header.neighbours.of_sketches
        commands = commands_of_release(file, own, keyed=header.keys is not None, needs_delta=needs)
        raise ss.InvalidInputError(f"{whose} {what}. To add it: {commands}")
    if path is not None:
        check_adds_terms(own, agreed, header)
    return agreed


@dataclass(frozen=True, kw_only=True)
class _Raw:
    """The release of a raw file by an agreement with terms; the options are those of the command."""

    file: Path
    header: RawHeader
    agreed: ss.Agreement
    output: Path | None
    again: bool
    assert_bounds: bool
    ledger: ss.Ledger | None
    dataset: str | None

    @property
    def _units(self) -> str:
        neighbours = self.agreed.neighbours
        return "units" if neighbours is None else neighbours.units

    @property
    def _listed(self) -> list[Any]:
        """The keys that are published; none if all are, or there are none."""
        keys = self.agreed.published_keys
        return list(keys) if isinstance(keys, tuple) else []

    def check(self) -> None:
        """Raise `InvalidInputError` for what is not released from a raw sketch."""
        agreed, header = self.agreed, self.header
        check_released_at_once(agreed, f"the agreement of {self.file}")
        if agreed.unit is not None and not header.bounds.is_enforced and not self.assert_bounds:
            raise ss.InvalidInputError(
                f"the agreement protects one {agreed.unit.name}, and no bound was enforced on the rows of {self.file}: "
                "sketch them by the agreement, or assert with --assert-bounds that they keep to its bound"
            )
        counts = agreed.neighbours is not None and header.bounds.counts_for(agreed.neighbours)
        if agreed.layout.is_counted and not counts:
            needs = agreed.neighbours is not None and agreed.neighbours.of_sketches
            commands = commands_of_release(self.file, agreed, keyed=header.keys is not None, needs_delta=needs)
            raise ss.InvalidInputError(
                f"the agreement publishes a count of the {self._units}, and those of {self.file} were not counted, or "
                f"not for its bound; what holds for the file now is {header.neighbours}. To release it for that: "
                f"{commands}"
            )
        if header.keys == 0 and not self._listed:
            raise ss.InvalidInputError(f"{self.file} holds no key yet; there is nothing to release")
        if self.output is not None:
            check_output(self.output, agreed)

    def show(self, *, as_json: bool) -> None:
        """Show what would be released; exit with status 1 if it would be refused."""
        if not known_without_rows(self.agreed):
            show_terms(self.agreed, "no sum is read", as_json=as_json)
            return
        header = replace(self.header, agreement=self.agreed)
        dry = DryRun(self.file, header, self.agreed, assert_bounds=self.assert_bounds, again=self.again)
        show_dry_run(dry, f"the sums in {self.file} are not read", self.ledger, self.dataset, as_json=as_json)

    def publish(self, *, as_json: bool) -> None:
        """Release the file, and record it."""
        if self.output is None:
            raise ss.InvalidInputError("state where the release is written: --output FILE, or --dry-run for none")
        # recorded before it is written: a failure between the two costs a release, not the guarantee
        with naming_raw(self.file), transaction(self.file) as raw_file:
            raw = raw_file.load()
            try:
                released = self._released(raw, raw_file)
            except ReleasedBeforeError as error:
                guarantee = publisher_of(self.agreed).guarantee(self.agreed.projection)
                raise ss.InvalidInputError(_cost(error.data, error.releases, guarantee)) from None
            releases = released_before(raw, self.file)[1] if self.again else ()
        rows = getattr(released, "rows", (released,))
        guarantee = rows[0].guarantee
        try:
            released.save(self.output)
        except OSError as error:
            raise ss.InvalidInputError(
                f"{self.output} cannot be written: {error.strerror or error}. {self.file} has recorded the release "
                "already. Once there is room, give --again, which counts as another release"
            ) from None
        total = together([*releases, PastRelease(guarantee, "")])
        left_fields, left_facts = remaining_facts(self.ledger, self.dataset)
        facts = {"guarantee": str(guarantee)} | left_facts
        if releases:
            facts["in all"] = f"{total}, with {len(releases)} before"
        if self.header.keys is not None:
            facts["keys"] = f"{len(rows):,}"
        fields = {"file": str(self.output), "sketches": len(rows), "guarantee": guarantee_fields(guarantee)}
        show_result(str(self.output), facts, fields | {"together": total} | left_fields, as_json=as_json)

    def _released(self, raw: RawSketch, raw_file: RawTransaction) -> Any:
        if not known_without_rows(self.agreed):
            return release_loaded_as_agreed(
                raw, raw_file, self.file, self.agreed, again=self.again, ledger=self.ledger, dataset=self.dataset
            )
        listed = self._listed
        return release_loaded(
            raw,
            raw_file,
            self.file,
            publisher_of(self.agreed),
            agreed=self.agreed,
            again=self.again,
            public_keys=listed or None,
            keys_are_public=self.header.keys is not None and not listed,
            assert_bounds=self.assert_bounds,
            ledger=self.ledger,
            dataset=self.dataset,
        )


def _cost(which: str, releases: Sequence[PastRelease], guarantee: ss.Guarantee) -> str:
    return (
        f"{which} released {times(releases)} before: {'; '.join(str(past.guarantee) for past in releases)}. With this "
        f"one, {together([*releases, PastRelease(guarantee, '')])}. Use the release that is there, or give --again if "
        f"that is meant"
    )
