"""What streams are compared by, and all pairs of sketches compared at once, by one matrix product."""

from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple, TypeAlias

from streamsketch.errors import InvalidInputError
from streamsketch.estimation.blocks import AnySketch, Block, block_of, check_comparable
from streamsketch.estimation.cosines import cosines_between, profiles_from
from streamsketch.estimation.distances import distances_between
from streamsketch.estimation.estimate import Estimates
from streamsketch.estimation.means import mean_distances_between

By: TypeAlias = Literal["distance", "cosine", "profile", "mean"]
"""What streams are compared by: squared distances, cosines, or squared distances of streams scaled to length 1, or of
averages over units."""


def pairwise(sketches: Iterable[AnySketch], *, by: By = "distance") -> Estimates:
    """Estimate all squared distances, or all cosines, between n sketches by one matrix product.

    Parameters
    ----------
    sketches
        n sketches of one projection, with independent noises.
    by
        ``"distance"`` for `squared_distance`, ``"cosine"`` for `cosine`, ``"profile"`` for `profile_distance`,
        ``"mean"`` for `mean_distance`. Distances of counts mostly show how large streams are. Cosines and profiles
        compare what streams consist of, and means compare what one unit adds on average.

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
    """
    sketches = list(sketches)
    if len(sketches) < 2:
        raise InvalidInputError(f"pairwise needs at least two sketches, got {len(sketches)}")
    check_by(by)
    check_comparable(sketches)
    block = block_of(sketches)
    return compare_blocks(block, block, by, same=True)


def check_by(by: str) -> None:
    """Raise `InvalidInputError` unless streams can be compared by this."""
    if by not in MEASURES:
        *others, last = map(repr, MEASURES)
        raise InvalidInputError(f"by must be {', '.join(others)} or {last}, got {by!r:.40}")


def compare_blocks(rows: Block, columns: Block, by: By, *, same: bool) -> Estimates:
    """Compare two blocks, or a block with itself if ``same``: (n, m) arrays; errors as `pairwise`."""
    return MEASURES[by].between(rows, columns, same)


class Measure(NamedTuple):
    """What streams are compared by: in `pairwise`, in Beam, by commands and in reports."""

    title: str
    """For people, in the singular."""
    between: Callable[[Block, Block, bool], Estimates]
    """Compares two blocks, or a block with itself: (n, m) arrays."""
    sign: int = 1
    """-1 if the greatest value is the nearest, as of cosines."""

    @property
    def column(self) -> str:
        """The name in tables and JSON."""
        return self.title.replace(" ", "_")


MEASURES: dict[By, Measure] = {
    "distance": Measure("squared distance", lambda rows, columns, same: distances_between(rows, columns, same=same)),
    "cosine": Measure("cosine", lambda rows, columns, same: cosines_between(rows, columns, same=same), sign=-1),
    "profile": Measure(
        "profile distance", lambda rows, columns, same: profiles_from(cosines_between(rows, columns, same=same))
    ),
    "mean": Measure("mean distance", lambda rows, columns, same: mean_distances_between(rows, columns, same=same)),
}
