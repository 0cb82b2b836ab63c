"""Sums of releases, as several commands make them."""

from pathlib import Path
from typing import Annotated

import typer

import streamsketch as ss
from streamsketch.cli._reading import load_published
from streamsketch.privacy import Populations, sharing_data

PopulationsOption = Annotated[
    Populations | None,
    typer.Option(
        help="Whether one privacy unit may be in several of the streams: disjoint keeps the largest ε, overlapping "
        "adds them up.",
        show_default=False,
    ),
]


NOT_DISJOINT = "{} and {} share data, so their populations are not disjoint: say --populations overlapping"


def sum_of_releases(files: list[Path], populations: Populations | None, signer: list[Path] | None) -> ss.PrivateSketch:
    """Return the release of all streams together; its noise is the sum of theirs.

    Raises
    ------
    InvalidInputError
        Unless ``populations`` is given: it decides the guarantee, and nobody else can know it. If they are said to be
        disjoint and two of the files hold some of the same data.
    SignatureError
        If one of ``signer`` must have signed, and did not.
    """
    if populations is None:
        raise ss.InvalidInputError(
            "releases are added up with --populations disjoint, if no privacy unit is in two of the streams, or "
            "--populations overlapping: it decides the guarantee of the result"
        )
    releases: list[ss.PrivateSketch] = [load_published(file, ss.PrivateSketch, signer=signer) for file in files]
    if populations == "disjoint":
        for one, two in sharing_data(releases):
            raise ss.InvalidInputError(NOT_DISJOINT.format(files[one], files[two]))
    total, *others = releases
    for other in others:
        total = total.combine(other, populations=populations)
    return total
