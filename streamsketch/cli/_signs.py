"""Published signs in `compare` and `nearest`: signs that differ, and angles where they can be told."""

import math
from collections.abc import Iterable
from typing import Annotated, Any, NamedTuple

import typer

import streamsketch as ss
from streamsketch.cli._reading import naming
from streamsketch.cli._showing import UNKNOWN, estimate_fields, interval_name, interval_text, listed, say
from streamsketch.signs import Signs, needs_norms

Norms = Annotated[
    list[str] | None,
    typer.Option(
        "--norm",
        help="Of published signs: the vectors' Euclidean norm, if it is public; NAME=NORM, once for each, where they "
        "differ. Angles need it where flips depend on the cells.",
        metavar="[NAME=]NORM",
        show_default=False,
    ),
]

_WITHOUT_NORMS = (
    "These signs were flipped with probabilities that depend on the cells, so angles need the vectors' Euclidean "
    "norms: give --norm if they are public. Hamming distances need none."
)
_NOT_ALIKE = (
    "These signs were not all published in one way, or not for vectors of one norm, so the order of their Hamming "
    "distances need not be that of the angles."
)
_DEGREES = 180 / math.pi


class Compared(NamedTuple):
    """Two releases of signs, by name."""

    first: str
    second: str
    differing: int
    cells: int
    angle: ss.Estimate | None
    """In degrees; None for want of a norm."""
    cosine: ss.Estimate | None
    """None for want of a norm, or where nothing is known of it."""

    def fields(self, confidence: float, candidates: int = 1) -> dict[str, Any]:
        """Return what is estimated as JSON fields; of ``candidates``, where the pair was selected."""
        each = for_each(confidence, candidates)
        angle, cosine = (
            None if one is None else estimate_fields(one, each, "value") | {"confidence": confidence}
            for one in (self.angle, self.cosine)
        )
        return {
            "hamming_distance": self.differing,
            "sketch_dim": self.cells,
            "angle_degrees": angle,
            "cosine": cosine,
        }


class SignPairs:
    """Pairs of published signs, with the norms that a user knows.

    Parameters
    ----------
    releases
        By name.
    norms
        What ``--norm`` was given.

    Raises
    ------
    InvalidInputError
        For norms that are not numbers, or names that are not among the releases.
    """

    def __init__(self, releases: dict[str, Signs], norms: list[str] | None) -> None:
        self._releases = releases
        self._norms = _norms_of(norms or [], list(releases))

    def pair(self, first: str, second: str) -> Compared:
        """Return how two of them differ."""
        x, y = self._releases[first], self._releases[second]
        norms = self._norms.get(first), self._norms.get(second)
        angle = cosine = None
        with naming(first, second):
            differing = ss.signs.hamming_distance(x, y)
            if None not in norms or not (needs_norms(x) or needs_norms(y)):
                angle = ss.signs.angle(x, y, norm_x=norms[0], norm_y=norms[1]).scaled(_DEGREES)
                cosine = _cosine(x, y, norms)
        return Compared(first, second, differing, x.projection.sketch_dim, angle, cosine)

    def nearest(self, name: str, top: int) -> list[Compared]:
        """Return the nearest others by Hamming distance, nearest first."""
        others = [other for other in self._releases if other != name]
        found = ss.signs.nearest(
            [self._releases[name]], [self._releases[other] for other in others], min(top, len(others))
        )
        return [self.pair(name, others[place]) for place in found.places[0]]

    def say_what_is_unknown(self, pairs: Iterable[Compared], *, by_hamming: bool) -> None:
        """Say why angles are missing, and where an order by Hamming distance may not be theirs."""
        if any(pair.angle is None for pair in pairs):
            say(_WITHOUT_NORMS)
        explanations = {release.explain() for release in self._releases.values()}
        if by_hamming and (len(explanations) > 1 or len(set(self._norms.values())) > 1):
            say(_NOT_ALIKE)


def for_each(confidence: float, candidates: int) -> float:
    """Return the confidence of each of many intervals that hold together with ``confidence`` (Bonferroni)."""
    return confidence if candidates == 1 else 1 - (1 - confidence) / candidates


def columns_of(pairs: list[Compared], confidence: float, candidates: int = 1) -> dict[str, list[str]]:
    """Return how pairs differ as the columns of a table for people, as narrow as can be; see `Compared.fields`."""
    each = for_each(confidence, candidates)
    columns = {"differ": [f"{pair.differing:,}" for pair in pairs]}
    if all(pair.angle is None for pair in pairs):
        return columns
    angles, cosines = [pair.angle for pair in pairs], [pair.cosine for pair in pairs]
    return {
        **columns,
        "angle": [UNKNOWN if one is None else str(one) for one in angles],
        interval_name(confidence): [UNKNOWN if one is None else interval_text(one, each) for one in angles],
        "cosine": [UNKNOWN if one is None else str(one) for one in cosines],
    }


def title_of(pairs: list[Compared]) -> str:
    """Return what stands over such a table."""
    degrees = "" if all(pair.angle is None for pair in pairs) else "; angles in degrees"
    return f"signs that differ, of {pairs[0].cells:,}{degrees}"


def refuse_norms(norms: list[str] | None) -> None:
    """Refuse norms for sketches, which need none."""
    if norms:
        raise ss.InvalidInputError("--norm is for published signs; these are sketches, which hold their norms")


def _cosine(x: Signs, y: Signs, norms: tuple[float | None, float | None]) -> ss.Estimate | None:
    try:
        return ss.signs.cosine(x, y, norm_x=norms[0], norm_y=norms[1])
    except ss.InvalidInputError:
        return None  # signs are below the noise floor; the norms were good enough for the angle


def _norms_of(given: list[str], names: list[str]) -> dict[str, float]:
    for_all: dict[str, float] = {}
    for_one: dict[str, float] = {}
    for text in given:
        name, named, number = text.rpartition("=")
        try:
            norm = float(number)
        except ValueError:
            raise ss.InvalidInputError(f"--norm takes a number, or NAME=number, got {text}") from None
        if named and name not in names:
            raise ss.InvalidInputError(f"--norm names {name}, and there are {listed(names)}")
        if not named and for_all:
            raise ss.InvalidInputError("--norm was given twice for all; give NAME=NORM where norms differ")
        if named:
            for_one[name] = norm
        else:
            for_all = dict.fromkeys(names, norm)
    return for_all | for_one
