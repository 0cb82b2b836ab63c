"""What streams are compared by, and all pairs of sketches compared at once, by one matrix product."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from streamsketch.core import sentences
from streamsketch.core.documents import TableKey
from streamsketch.errors import InvalidInputError
from streamsketch.estimation.blocks import AnySketch, Block, block_of, check_comparable, streams_of
from streamsketch.estimation.cosines import below_noise_floor, cosines_between, profiles_from
from streamsketch.estimation.distances import distances_between, products_among
from streamsketch.estimation.estimate_arrays import JOINT_BY, Estimates, JointBy
from streamsketch.estimation.means import few_units, mean_distances_between

By: TypeAlias = Literal["distance", "cosine", "profile", "mean"]
"""What streams are compared by: squared distances, cosines, or squared distances of streams scaled to length 1, or of
averages over units."""


def pairwise(
    sketches: Mapping[TableKey, AnySketch] | Iterable[AnySketch],
    *,
    by: By | Literal["product"] = "distance",
    together: bool = False,
    order: Literal["time"] | None = None,
) -> Estimates:
    """Estimate all squared distances, or all cosines, between n sketches by one matrix product, or by a joint model.

    Parameters
    ----------
    sketches
        n sketches of one projection, with independent noises: a table or another mapping, whose values are taken in the
        order of its keys, or an iterable. Ranges of different histories are such sketches, of whatever lengths; ranges
        of one history share noise, and are refused. Results of a mapping know its keys (``names``): they show them, and
        their ``to_arrow()`` needs no keys.
    by
        ``"distance"`` for `squared_distance`, ``"cosine"`` for `cosine`, ``"profile"`` for `profile_distance`,
        ``"mean"`` for `mean_distance`, ``"product"`` for `inner_product`. Distances of counts mostly show how large
        streams are. Cosines and profiles compare what streams consist of, and means compare what one unit adds on
        average.
    together
        Whether to estimate all pairs from all cells together, by everything but ``"mean"``. A table of n keys has n·k
        noisy cells for n(n - 1)/2 cosines: where noise dominates, joint estimates err by half as much or less, and they
        are never undefined. They are a function of the published cells, so they cost no privacy (Theory 4.9). They
        are numbers that vectors can have: matrices of cosines and products, with squared norms on the diagonal, are
        positive semidefinite, and distances and profiles are squared distances of points.
    order
        ``"time"`` if the sketches are in order of time, so that joint estimates may be drawn towards one cosine for
        each lag: drifts and seasons have such cosines. It is only used if cells that were held out confirm it. With
        None, joint estimates do not depend on the order.

    Returns
    -------
    Estimates
        Symmetric (n, n) float64 arrays with no error on the diagonal. ``estimates[i, j]`` is
        ``squared_distance(sketches[i], sketches[j])`` up to rounding, in squared data units, or the other measure.
        Cosines and profile distances of a sketch whose squared norm is within two standard errors of zero are NaN. So
        are distances of averages if a count of units is within two standard errors of zero.

    Raises
    ------
    InvalidInputError
        For fewer than two sketches, an unknown ``by``, cosines of releases with noise added before the map, and
        averages of sketches whose units were not counted.
    TypeError, IncompatibleProjectionsError, DependentNoiseError
        As in `squared_distance`.

    Examples
    --------
    >>> from streamsketch import CountSketch
    >>> projection = CountSketch(sketch_dim=256, seed=7)
    >>> shops = [projection.sketch() for _ in range(3)]
    >>> for shop, items in zip(shops, (["tea", "milk"], ["tea", "jam"], ["rice"])):
    ...     shop.update(items)
    >>> pairwise(shops).value.astype(int).tolist()
    [[0, 2, 3], [2, 0, 3], [3, 3, 0]]
    >>> round(pairwise(shops, by="cosine")[0, 1].value, 6)
    0.5
    >>> print(pairwise({"north": shops[0], "south": shops[1]}))
    2 by 2 estimates of north, south (secret: from a raw sketch)
    >>> from streamsketch import L1
    >>> days = [shop.release(epsilon=1.0, neighbours=L1(1)) for shop in shops]
    >>> joint = pairwise(days, by="cosine", together=True, order="time")
    >>> joint.value.shape, joint.model.folds
    ((3, 3), 2)
    """
    names = tuple(sketches) if isinstance(sketches, Mapping) else None
    sketches = streams_of(sketches, "pairwise compares several streams")
    if len(sketches) < 2:
        raise InvalidInputError(f"pairwise needs at least two sketches, got {len(sketches)}")
    if by != "product":
        check_by(by)
    check_together(by, together=together, order=order)
    check_comparable(sketches)
    estimates = compare_all(block_of(sketches), by, together=together, order=order)
    return estimates if names is None else dataclasses.replace(estimates, names=names)


def check_together(by: str, *, together: bool, order: str | None) -> None:
    """Raise `InvalidInputError` for an order without joint estimates, or a measure that has none."""
    if order not in (None, "time"):
        raise InvalidInputError(f"order must be None or 'time', got {order!r:.40}")
    if order and not together:
        raise InvalidInputError("order='time' needs together=True: without it each pair is estimated alone")
    if together and by not in JOINT_BY:
        raise InvalidInputError(f"together=True compares by {', '.join(map(repr, JOINT_BY))}, got {by!r:.40}")


def compare_all(
    block: Block, by: By | Literal["product"], *, together: bool = False, order: Literal["time"] | None = None
) -> Estimates:
    """Compare a block with itself, as `pairwise` does with what it has checked."""
    if together:
        from streamsketch.estimation.joint import joint_between  # noqa: PLC0415 - which pairs alone do not need

        return joint_between(block, cast("JointBy", by), in_time=order == "time")
    return products_among(block) if by == "product" else compare_blocks(block, block, by, same=True)


def check_by(by: str) -> None:
    """Raise `InvalidInputError` unless streams can be compared by this."""
    if by not in MEASURES:
        *others, last = map(repr, MEASURES)
        raise InvalidInputError(f"by must be {', '.join(others)} or {last}, got {by!r:.40}")


def compare_blocks(rows: Block, columns: Block, by: By, *, same: bool) -> Estimates:
    """Compare two blocks, or a block with itself if ``same``: (n, m) arrays; errors as `pairwise`."""
    return MEASURES[by].between(rows, columns, same)


@dataclasses.dataclass(frozen=True)
class Need:
    """What must stand out from the noise of a stream, or it is not compared by a measure.

    Parameters
    ----------
    lacking
        Returns which of a block's n sketches lack it, (n,) bool, where they were selected from so many streams.
    number
        Its name, for people, in the plural.
    level
        Where it lies if it is lacking, as in "the squared norms of 3 of the streams are …".
    refusal
        What to say where fewer than two streams have it. ``""``: a report shows distances instead.
    """

    lacking: Callable[[Block, int], NDArray[np.bool_]]
    number: str
    level: str
    refusal: str = ""


ABOVE_NOISE_FLOOR = Need(below_noise_floor, sentences.SQUARED_NORMS, f"below the noise floor: {sentences.LIKE_EMPTY}")
ENOUGH_UNITS = Need(
    lambda block, _: few_units(block),
    "numbers of units",
    "within two standard errors of 0",
    "fewer than two of these releases have an average: their numbers of units are within two standard errors of zero. "
    "Compare sums, or release more units together",
)


@dataclasses.dataclass(frozen=True)
class Measure:
    """What streams are compared by: in `pairwise`, in Beam, by commands and in reports, which read all else here.

    Parameters
    ----------
    title
        For people, in the singular.
    between
        Compares two blocks, or a block with itself: (n, m) arrays. The intervals of its `Estimates` follow from their
        range and their ``error_law``, which is ``"cosine"`` for what is made of cosines.
    about
        What its values mean: a paragraph of reports. Its first sentence is the measure's part of ``--by``'s help.
    plural
        The title in the plural, by default with an s.
    sign
        -1 if the greatest value is the nearest, as of cosines.
    limits
        The least and the greatest value, if there are both: pictures then have a linear scale, otherwise a logarithmic
        one.
    in_common
        The value for streams with nothing in common, if the measure says how alike streams are. None if it says how far
        apart they are.
    squares
        The measure of which the values are squared distances, for maps and trees. None if its own are.
    of_what
        Between what these distances are, if not between the streams themselves.
    needs
        What a stream must have to be compared. None if all can be: those below the noise floor are then listed last.

    Raises
    ------
    ValueError
        If the greatest value is the nearest, and either ``squares`` or ``in_common`` is missing.
    """

    title: str
    between: Callable[[Block, Block, bool], Estimates]
    about: str
    _: dataclasses.KW_ONLY
    plural: str = ""
    sign: Literal[1, -1] = 1
    limits: tuple[float, float] | None = None
    in_common: float | None = None
    squares: By | None = None
    of_what: str = ""
    needs: Need | None = None

    def __post_init__(self) -> None:
        if self.sign < 0 and (self.squares is None or self.in_common is None):
            raise ValueError(
                f"the greatest {self.title} is the nearest, so its values are no squared distances: state squares, the "
                f"measure whose values are, and in_common, the value for streams with nothing in common"
            )

    @property
    def column(self) -> str:
        """The name in tables and JSON."""
        return self.title.replace(" ", "_")

    @property
    def titles(self) -> str:
        """The title in the plural."""
        return self.plural or f"{self.title}s"

    @property
    def floor(self) -> Need:
        """What streams lack that are left out, or listed last."""
        return self.needs or ABOVE_NOISE_FLOOR

    @property
    def help(self) -> str:
        """The first sentence of ``about``."""
        return self.about.partition(". ")[0].removesuffix(".") + "."


MEASURES: dict[By, Measure] = {
    "distance": Measure(
        "squared distance",
        lambda rows, columns, same: distances_between(rows, columns, same=same),
        "Squared distances between the streams, in squared units of their values, which measure size as well as what "
        "streams consist of. Those of a small stream are mostly the sizes of the others. An estimate may be negative "
        "if noise dominates, and its interval is clipped at zero.",
        plural="distances",
    ),
    "cosine": Measure(
        "cosine",
        lambda rows, columns, same: cosines_between(rows, columns, same=same),
        "The cosine compares what streams consist of, whatever their size: 1 for proportional streams, 0 for streams "
        "with nothing in common. An estimate may exceed 1 by its error, and its interval is clipped.",
        sign=-1,
        limits=(-1.0, 1.0),
        in_common=0.0,
        squares="profile",
        needs=ABOVE_NOISE_FLOOR,
    ),
    "profile": Measure(
        "profile distance",
        lambda rows, columns, same: profiles_from(cosines_between(rows, columns, same=same)),
        "The squared distances of streams scaled to length 1, so of what they consist of, whatever their size: 0 for "
        "proportional streams, 2 for streams with nothing in common.",
        limits=(0.0, 4.0),
        in_common=2.0,
        of_what="streams scaled to length 1",
        needs=ABOVE_NOISE_FLOOR,
    ),
    "mean": Measure(
        "mean distance",
        lambda rows, columns, same: mean_distances_between(rows, columns, same=same),
        "Squared distances between averages: between what one unit adds on average in each stream, in squared units of "
        "the values. Streams of any number of units can be compared, if these were counted. The numbers were published "
        "with noise, which is in the errors. Two samples of like units do not have the distance 0: the fewer units, "
        "the farther apart.",
        plural="distances of averages",
        of_what="averages",
        needs=ENOUGH_UNITS,
    ),
}
