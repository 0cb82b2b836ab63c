"""``streamsketch merge``: one sketch of several streams."""

from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, cast

import typer

import streamsketch as ss
from streamsketch.cli._keys import Signers
from streamsketch.cli._options import option
from streamsketch.cli._reading import find_duplicate, load_raw_file
from streamsketch.cli._releasing import PopulationsOption, check_single, sum_of_releases
from streamsketch.cli._saying import say
from streamsketch.cli._showing import (
    AsJson,
    Confidence,
    estimate_fields,
    guarantee_fields,
    plural,
    show_json,
    show_result,
)
from streamsketch.cli._sketching import bounds_of_sum
from streamsketch.cli._writing import new_file
from streamsketch.estimation.estimate import interval_text
from streamsketch.storage.first_bytes import SUFFIX, is_raw
from streamsketch.storage.raw_files import save_raw
from streamsketch.storage.sketches import RawSketch, distinct_releases


def merge(
    files: Annotated[list[Path], typer.Argument(help="All .raw-sketch files, or all .sketch files.", metavar="FILE")],
    *,
    output: Annotated[Path, option("Output", "FILE", "File to write, of the same kind.", "--output", "-o")],
    populations: PopulationsOption = None,
    mean: Annotated[
        bool, option("Estimates", "", "Average releases instead: the sketch of (x₁ + … + xₙ) / n.", "--mean")
    ] = False,
    confidence: Confidence = 0.95,
    signer: Signers = None,
    as_json: AsJson = False,
) -> None:
    """Add sketches up, raw ones or releases, or average releases.

    Raw sketches of one party are added exactly, those of many keys key by key. The result records all releases of its
    parts. With --populations disjoint, bounds that were enforced stay as they are, on the condition that no unit is in
    two of the files; otherwise they add up. The noise of a sum of releases is the sum of theirs.

    With --mean, the result is the release of the mean stream. Its noise is the average of n independent noises, so if
    these are alike, the standard deviation is √n times smaller. The mean is over streams, not over the units in them.
    Only the norm and the distances of the mean stream can be estimated, not a single entry.

    $ streamsketch merge north.sketch south.sketch --populations disjoint -o both.sketch

    $ streamsketch merge --mean north.sketch south.sketch --populations disjoint -o mean.sketch
    """
    if len(files) < 2:
        raise ss.InvalidInputError(f"merge needs at least two files, got {len(files)}")
    if twice := find_duplicate(files):
        raise ss.InvalidInputError(f"{twice}; its events would count twice")
    raw = [is_raw(file) for file in files]
    if any(raw) and mean:
        raise ss.InvalidInputError(
            f"{files[raw.index(True)]} is a raw sketch, which is secret, and --mean averages releases: release it first"
        )
    if any(raw) and not all(raw):
        raise ss.InvalidInputError(
            f"{files[raw.index(True)]} is raw and {files[raw.index(False)]} is not. Release the raw one first, or "
            f"merge files of one kind"
        )
    if all(raw):
        if signer:
            raise ss.InvalidInputError("--signer is about releases; raw sketches are your own")
        output = new_file(output, SUFFIX, "a sum of raw sketches")
        _merge_raw(files, output, disjoint_units=populations == "disjoint", as_json=as_json)
        return
    check_single(files, "merge")
    if mean:
        new_file(output, ".sketch", "a mean of releases")
        _merge_means(files, output, sum_of_releases(files, populations, signer), confidence, as_json=as_json)
        return
    new_file(output, ".sketch", "a sum of releases")
    total = sum_of_releases(files, populations, signer)
    total.save(output)
    facts = {"guarantee": str(total.guarantee), "squared norm": str(ss.squared_norm(total))}
    fields = {"file": str(output), "secret": False, "guarantee": guarantee_fields(total.guarantee)}
    show_result(str(output), facts, fields, as_json=as_json)


def _merge_means(files: list[Path], output: Path, total: ss.PrivateSketch, confidence: float, *, as_json: bool) -> None:
    average = total.scaled(Fraction(1, len(files)))
    norm = ss.squared_norm(average)
    interval = interval_text(norm, norm.interval(confidence))
    average.save(output)
    noise = average.cell_unit * average.noise.k2**0.5
    fields = {
        "file": str(output),
        "streams": len(files),
        "guarantee": guarantee_fields(average.guarantee),
        "noise_standard_deviation": noise,
        "squared_norm": estimate_fields(norm, confidence, "value"),
    }
    facts = {
        "mean of": f"{len(files)} streams",
        "guarantee": str(average.guarantee),
        "noise": f"a cell: ± {noise:.4g}, in data units",
        "squared norm": f"{norm}, {100 * confidence:.4g} % interval {interval}",
    }
    show_result(str(output), facts, fields, as_json=as_json)


def _merge_raw(files: list[Path], output: Path, *, disjoint_units: bool, as_json: bool) -> None:
    parts: list[RawSketch] = [load_raw_file(file) for file in files]
    kind = type(parts[0].state)
    total, bounds = parts[0].state, [part.state.bounds for part in parts]
    for file, part in zip(files[1:], parts[1:], strict=True):
        if type(part.state) is not kind:
            raise ss.InvalidInputError(
                f"{file} and {files[0]} differ: one holds one stream, the other one for each key"
            )
        if not total.data_ids.parts.isdisjoint(part.state.data_ids.parts):
            raise ss.InvalidInputError(
                f"{file} and a file before it hold the same data: one is a copy of the other, or a sum that contains "
                f"it. The data would count twice; name each part once"
            )
        cast("Any", total).merge(part.state, disjoint_units=disjoint_units)
    events = sum(part.events for part in parts)
    save_raw(RawSketch(total, events, distinct_releases([part.releases for part in parts])), output)
    if as_json:
        show_json({"file": str(output), "secret": True, "events": events, "fingerprint": total.projection.fingerprint})
        return
    if holding := bounds_of_sum(output, "several of the files", bounds, total.bounds):
        say(holding)
    say(f"{output}, secret: {plural(events, 'event')} of {len(files)} files.")
