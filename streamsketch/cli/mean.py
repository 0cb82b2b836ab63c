"""``streamsketch mean``: the average of released streams."""

from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer

import streamsketch as ss
from streamsketch.cli._keys import Signers
from streamsketch.cli._reading import new_file
from streamsketch.cli._releasing import PopulationsOption, check_single, sum_of_releases
from streamsketch.cli._showing import (
    Confidence,
    Json,
    estimate_fields,
    guarantee_fields,
    show_result,
)
from streamsketch.estimation.estimate import interval_text


def mean(
    files: Annotated[list[Path], typer.Argument(help="Files .sketch.", metavar="FILE")],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write, .sketch.")],
    populations: PopulationsOption = None,
    confidence: Confidence = 0.95,
    signer: Signers = None,
    as_json: Json = False,
) -> None:
    """Average releases: the sketch of the mean stream (x₁ + … + xₙ) / n.

    The mean is a release like any other: it can be compared and inspected. Its noise is the average of n independent
    noises, so if these are alike, the standard deviation is √n times smaller. The mean is over streams, not over the
    units in them. Only the norm and the distances of the mean stream can be estimated, not a single entry.

    $ streamsketch mean north.sketch south.sketch --populations disjoint -o mean.sketch
    """
    if len(files) < 2:
        raise ss.InvalidInputError(f"mean needs at least two files, got {len(files)}")
    check_single(files, "mean")
    new_file(output, ".sketch", "a mean of releases")
    average = sum_of_releases(files, populations, signer).scaled(Fraction(1, len(files)))
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
