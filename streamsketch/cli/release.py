"""``streamsketch release``: publish a raw sketch with noise."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import streamsketch as ss
from streamsketch.cli._agreed import AgreedRelease
from streamsketch.cli._agreeing import L1, L2, AssertBounds, OneCoordinate, SketchL2, given_options, neighbours_of
from streamsketch.cli._cluster import ClusterRelease, split_beam
from streamsketch.cli._dry_run import DryRun
from streamsketch.cli._inputs import Decimal, Encoding, Format, Multiline
from streamsketch.cli._options import option
from streamsketch.cli._reading import naming_raw, new_file
from streamsketch.cli._releasing import Again, DatasetOption, Delta, LedgerOption, ledger_for, remaining_facts
from streamsketch.cli._showing import Json, guarantee_fields, show_result
from streamsketch.cli._sketching import release_options
from streamsketch.core.text import names_given
from streamsketch.data.readers.delimited import check_delimiter
from streamsketch.privacy.calibration import mechanism_names
from streamsketch.privacy.neighbours import Neighbours
from streamsketch.release.additive_noise import AdditiveNoise
from streamsketch.storage.first_bytes import is_raw
from streamsketch.storage.raw_files import read_header, transaction
from streamsketch.storage.releases import ReleasedBeforeError, release_loaded, released_before
from streamsketch.storage.sketches import PastRelease, RawHeader


def release(  # noqa: C901, PLR0913, PLR0915 - a command's options are its parameters
    inputs: Annotated[
        list[str],
        typer.Argument(
            help="A .raw-sketch file; or, with --agreement, files of rows. After --, options of Apache Beam, which "
            "then reads the rows on a cluster.",
            metavar="INPUT... [-- BEAM OPTION...]",
        ),
    ],
    *,
    agreement: Annotated[
        Path | None,
        option(
            "Input",
            "FILE",
            "Agreement that states what a release spends, a JSON file: rows are bounded, sketched and released as it "
            "says.",
        ),
    ] = None,
    output: Annotated[
        str | None,
        option(
            "Output",
            "FILE",
            "File to publish: a .sketch file, or a .parquet table if there are many keys.",
            "--output",
            "-o",
        ),
    ] = None,
    epsilon: Annotated[
        float | None, option("Privacy", "EPSILON", "Privacy loss ε, > 0. An agreement with terms states it.")
    ] = None,
    delta: Delta = 0.0,
    unit: Annotated[str | None, option("Privacy", "WORD", "Name of one unit, in a word. By default event.")] = None,
    l1: L1 = None,
    l2: L2 = None,
    sketch_l2: SketchL2 = None,
    one_coordinate: OneCoordinate = None,
    max_keys: Annotated[
        int | None, option("Privacy", "NUMBER", "Number of keys that one unit may be in. By default 1.")
    ] = None,
    mechanism: Annotated[
        str,
        option("Privacy", "NOISE", f"Kind of noise: {', '.join(mechanism_names())}.", autocompletion=mechanism_names),
    ] = "auto",
    public_key: Annotated[
        list[str] | None,
        option(
            "Privacy",
            "KEY",
            "Keys to release, separated by commas or one by one. Name them without looking at the data. Put a name "
            "with a comma in double quotes, as in CSV.",
        ),
    ] = None,
    keys_are_public: Annotated[
        bool,
        option(
            "Privacy",
            "",
            "Release all keys in the file, because it is no secret which keys are in it.",
            "--keys-are-public",
        ),
    ] = False,
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
    form: Annotated[
        Format | None,
        option(
            "Input", "csv|jsonl|parquet", "Format of the rows. By default, it follows from the file name.", "--format"
        ),
    ] = None,
    delimiter: Annotated[str, option("Input", "CHARACTER", "Character between the cells of CSV. \\t is a tab.")] = ",",
    encoding: Encoding = None,
    decimal: Decimal = ".",
    multiline: Multiline = None,
    claims: Annotated[
        str | None,
        option(
            "Workers",
            "DIR",
            "Folder shared by all workers, for the secret of each run. Required on Flink and Spark.",
        ),
    ] = None,
    run_id: Annotated[
        str | None, option("Workers", "NAME", "Name of this run in --claims. By default, a random one.")
    ] = None,
    root_key: Annotated[
        Path | None, option("Workers", "FILE", "File on every worker that holds a key of 32 bytes, mode 0600.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Release rows, or a raw sketch, as an agreement says.

    With --agreement, rows of CSV, JSON lines or Parquet are bounded, sketched and released in one step, as the
    agreement says: nothing secret is written. A raw sketch of such an agreement needs no other option, either. The
    other options below are for raw sketches whose agreement does not say what a release spends.

    --unit, --max-keys and --l1, --l2, --sketch-l2 or --one-coordinate state who is protected, and up to which bound. By
    default, the bound is the one that `sketch` enforced on the data, or the bound of their agreement. A bound that does
    not follow from these is refused, unless --assert-bounds asserts it. The guarantee states whether its bound was
    enforced or is asserted. If it is asserted, each event must belong to one unit. With --one-coordinate, each index
    must belong to one event, or the values must be multiples of the resolution.

    With options of Beam after --, the rows of files or globs are released on a cluster, for all keys of the agreement:
    sketches.parquet, sketches/KEY.sketch, and cosines and distances as Parquet and CSV are written into the folder
    --output. If the agreement counts units, so are means, the distances of averages. The same rows give the same exact
    sketches as here.

    A bound on sketches (--sketch-l2) needs --delta, such as 1e-6, or --mechanism laplace.

    The raw file records the release. Without --again, the command refuses to release this file again, or a raw file in
    the same folder that shares data with it, such as a copy or a merge. This is because privacy losses add up. With
    --ledger, the release is charged to the budget of --dataset, or of the data set to which the file's data were
    charged before. The release is refused if it does not fit into this budget.

    With --dry-run, nothing is released, recorded or charged. The output then depends on how the data were processed and
    on the number of keys, not on any sum, so that no decision depends on the data. The exit status is 1 if the release
    would be refused.

    $ streamsketch release sales.csv --agreement terms.json -o sales.sketch

    $ streamsketch release 'sales/*.parquet' --agreement shops.json -o out -- --runner=DirectRunner

    $ streamsketch release north.raw-sketch --epsilon 1 --delta 1e-6 --keys-are-public -o north.parquet
    """
    stated_by = {
        "epsilon": epsilon,
        "delta": delta or None,
        "mechanism": None if mechanism == "auto" else mechanism,
        "unit": unit,
        "max_keys": max_keys,
        "public_key": public_key,
        "keys_are_public": keys_are_public,
        "assert_bounds": assert_bounds,
        "l1": l1,
        "l2": l2,
        "sketch_l2": sketch_l2,
        "one_coordinate": one_coordinate,
    }
    words, beam = split_beam(inputs)
    if beam:
        cluster = ClusterRelease(beam=beam, output=output, claims=claims, run_id=run_id, root_key=root_key)
        read: dict[str, Any] = {"delimiter": check_delimiter(delimiter), "encoding": encoding, "decimal": decimal}
        others: dict[str, object] = {
            **stated_by,
            "format": form,
            "multiline": multiline,
            "again": again,
            "ledger": ledger,
        }
        cluster.run(words, agreement, read, others | {"dataset": dataset, "dry_run": dry_run}, as_json=as_json)
        return
    if given := given_options({"claims": claims, "run_id": run_id, "root_key": root_key}):
        raise ss.InvalidInputError(f"{given}: these are for a cluster; also give options of Beam after --")
    files, target = [Path(word) for word in words], None if output is None else Path(output)
    as_agreed: dict[str, Any] = {"output": target, "again": again, "dry_run": dry_run, "as_json": as_json}
    exit_by = AgreedRelease(ledger=ledger, dataset=dataset, given=given_options(stated_by), **as_agreed)
    written: dict[str, Any] = {"encoding": encoding, "decimal": decimal, "multiline": multiline}
    reading = {"format": form, "delimiter": check_delimiter(delimiter), **written}
    if agreement is not None and not (len(files) == 1 and files[0].is_file() and is_raw(files[0])):
        exit_by.of_rows(files, agreement, reading)
        return
    file = _one_raw(files)
    if epsilon is None:
        exit_by.of_raw(file, agreement)
        return
    public_keys = names_given(public_key or [], "--public-key")
    bounds = {"l1": l1, "l2": l2, "sketch_l2": sketch_l2, "one_coordinate": one_coordinate}
    stated = neighbours_of(bounds, unit or "event", max_keys)
    account = ledger_for(ledger, dataset)
    if dry_run:
        with naming_raw(file):
            header = read_header(file)
        neighbours = _checked(
            file, header, stated or _known(file, header, unit, max_keys), public_keys, keys_are_public=keys_are_public
        )
        neighbours.check_delta(delta, mechanism)
        if target is not None:
            _check_output(target, keyed=header.keys is not None)
        publisher = AdditiveNoise(epsilon=epsilon, delta=delta, neighbours=neighbours, mechanism=mechanism)
        dry = DryRun(file, header, publisher, public_keys, assert_bounds=assert_bounds, again=again)
        _show_dry_run(dry, account, dataset, as_json=as_json)
        return
    if target is None:
        raise ss.InvalidInputError("state where the release is written: --output FILE, or --dry-run for none")
    with naming_raw(file), transaction(file) as raw_file:
        raw = raw_file.load()
        header = RawHeader.of(raw)
        neighbours = _checked(
            file, header, stated or _known(file, header, unit, max_keys), public_keys, keys_are_public=keys_are_public
        )
        neighbours.check_delta(delta, mechanism)
        _check_output(target, keyed=header.keys is not None)
        noise: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "neighbours": neighbours, "mechanism": mechanism}
        keys: dict[str, Any] = {"public_keys": public_keys or None, "keys_are_public": keys_are_public}
        charged: dict[str, Any] = {"ledger": account, "dataset": dataset}
        # recorded before it is written: a failure between the two costs a release, not the guarantee
        try:
            released = release_loaded(
                raw, raw_file, file, again=again, assert_bounds=assert_bounds, **noise, **keys, **charged
            )
        except ReleasedBeforeError as error:
            guarantee = AdditiveNoise(**noise).guarantee(raw.projection)
            raise ss.InvalidInputError(_cost(error.data, error.releases, guarantee)) from None
        releases = released_before(raw, file)[1] if again else ()
    guarantee = released.rows[0].guarantee
    try:
        released.save(target)
    except OSError as error:
        raise ss.InvalidInputError(
            f"{target} cannot be written: {error.strerror or error}. {file} has recorded the release already. Once "
            f"there is room, give --again, which counts as another release"
        ) from None
    total = _together([*releases, PastRelease(guarantee, "")])
    left_fields, left_facts = remaining_facts(account, dataset)
    facts = {"guarantee": str(guarantee)} | left_facts
    if releases:
        facts["in all"] = f"{total}, with {len(releases)} before"
    if not isinstance(raw.state, ss.Sketch):
        facts["keys"] = f"{len(released.rows):,}"
    fields = {"file": str(target), "sketches": len(released.rows), "guarantee": guarantee_fields(guarantee)}
    show_result(str(target), facts, fields | {"together": total} | left_fields, as_json=as_json)


def _one_raw(inputs: list[Path]) -> Path:
    if len(inputs) > 1:
        raise ss.InvalidInputError(
            f"one raw sketch is released at a time, got {len(inputs)} files: merge them first (streamsketch merge); or "
            "release rows by --agreement"
        )
    return inputs[0]


def require_neighbours(neighbours: Neighbours | None) -> Neighbours:
    """Return the relation that options state; raise `InvalidInputError` if there is none."""
    if neighbours is None:
        raise ss.InvalidInputError(
            "state how much one unit can change: --l1 BOUND, in all its events together, --l2 BOUND, as a Euclidean "
            "norm, --sketch-l2 BOUND, as that of its sketch, or --one-coordinate BOUND; one of them"
        )
    return neighbours


def _known(file: Path, header: RawHeader, unit: str | None, max_keys: int | None) -> Neighbours | None:
    """Return the relation that is known of the data; refuse a unit or a number of keys that it does not have."""
    known = header.neighbours
    if known is not None and (unit not in (None, known.unit) or max_keys not in (None, known.max_keys)):
        given = [f"--unit {unit}"] * (unit is not None) + [f"--max-keys {max_keys}"] * (max_keys is not None)
        raise ss.InvalidInputError(
            f"{file} is released for {known} by default ({release_options(known)}), got {' and '.join(given)}: leave "
            f"that out, or state another bound as well, such as --l1 BOUND, and --assert-bounds"
        )
    return known


def _checked(
    file: Path, header: RawHeader, neighbours: Neighbours | None, public_keys: list[str], *, keys_are_public: bool
) -> Neighbours:
    """Return the relation, after a check that options state the keys to release if the file has keys."""
    neighbours = require_neighbours(neighbours)
    if header.keys is None:
        if public_keys or keys_are_public:
            raise ss.InvalidInputError(f"{file} holds one stream; --public-key and --keys-are-public are for many")
        if neighbours.max_keys != 1 and not neighbours.any_keys:
            raise ss.InvalidInputError(f"{file} holds one stream, so --max-keys must be 1, got {neighbours.max_keys}")
        return neighbours
    if bool(public_keys) == keys_are_public:
        raise ss.InvalidInputError(
            f"{file} holds many keys, and their names may be private: give --public-key NAME for each key that you "
            f"name without looking at the data, or --keys-are-public; one of the two"
        )
    if keys_are_public and not header.keys:
        raise ss.InvalidInputError(f"{file} holds no key yet; there is nothing to release")
    return neighbours


def _check_output(output: Path, *, keyed: bool) -> None:
    if keyed:
        new_file(output, ".parquet", "a table of releases")
    else:
        new_file(output, ".sketch", "a release")


def _show_dry_run(dry: DryRun, ledger: ss.Ledger | None, dataset: str | None, *, as_json: bool) -> None:
    """Print a description of a release; exit with status 1 if it would be refused."""
    facts, fields, refused = dry.facts(), dry.fields(), False
    data, releases = dry.released_before
    if releases:
        total = _together([*releases, PastRelease(dry.guarantee, "")])
        facts["before"] = f"{data} released {_times(releases)} before; with this one, {total}"
        facts["before"] += "" if dry.again else ". It would be refused without --again"
        fields |= {"released_before": len(releases), "together": total}
        refused = not dry.again
    if ledger is not None:
        facts["ledger"], fields["ledger"], fits = dry.charge(ledger, dataset)
        refused = refused or not fits
    fields["refused"] = refused
    show_result(
        f"Dry run: the sums in {dry.file} are not read, and nothing is written or charged",
        facts,
        fields,
        as_json=as_json,
    )
    if refused:
        raise typer.Exit(1)


def _cost(which: str, releases: Sequence[PastRelease], guarantee: ss.Guarantee) -> str:
    return (
        f"{which} released {_times(releases)} before: {'; '.join(str(past.guarantee) for past in releases)}. With this "
        f"one, {_together([*releases, PastRelease(guarantee, '')])}. Use the release that is there, or give --again if "
        f"that is meant"
    )


def _times(releases: Sequence[PastRelease]) -> str:
    return "once" if len(releases) == 1 else f"{len(releases)} times"


def _together(releases: Sequence[PastRelease]) -> str:
    guarantees = [past.guarantee for past in releases]
    if len({guarantee.neighbours for guarantee in guarantees}) > 1:
        return "the releases are for different neighbours, so their ε do not add up to one number; each is spent"
    try:
        total = ss.compose(guarantees, populations="overlapping")
    except ss.InvalidInputError as error:
        return str(error)
    only_if = f", only if: {'; '.join(total.conditions)}" if total.conditions else ""
    return f"{total.budget} for {total.neighbours} together{only_if}"
