"""The largest entries of a stream among the items of a public dictionary, and what the dictionary misses."""

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from streamsketch.agreement.agreement import Agreement
from streamsketch.core.numbers import Floats, Ints, check_int
from streamsketch.errors import InvalidInputError
from streamsketch.estimation.blocks import AnySketch, Block, block_of, check_comparable, mark_secret
from streamsketch.estimation.distances import norms_of
from streamsketch.estimation.estimate import SECRECY, Estimate, value_text
from streamsketch.estimation.intervals import miss_of
from streamsketch.estimation.items import distinct_items
from streamsketch.estimation.noise_effect import OutputNoise
from streamsketch.estimation.points import PointEstimator, points_of
from streamsketch.projections.base import Projection
from streamsketch.projections.identity import Identity

if TYPE_CHECKING:
    from streamsketch.core.libraries import pa

_ROUNDING = 2.0**-50  # of a sum of squares


@dataclasses.dataclass(frozen=True, eq=False)
class Top:
    """The largest items of a dictionary, as `streamsketch.top` finds them.

    Parameters
    ----------
    table
        One row per item, the largest estimate first: ``item``, ``estimate``, ``error``, ``low`` and ``high``.
    candidates
        Number of different items in the dictionary. The intervals hold for all of them at once.
    missed
        The squared norm of the part of the stream that is not in the dictionary, Σ x_j² over all other items, in
        squared data units.
    squared_norm
        The squared norm of the whole stream.

    Examples
    --------
    >>> from streamsketch import CountSketch, top
    >>> sketch = CountSketch(sketch_dim=256, seed=7).sketch()
    >>> sketch.update(["tea", "milk"], [900, 100])
    >>> items = top(sketch, ["tea", "milk", "bread"], n=2)
    >>> items.candidates, items.table["item"].to_pylist()
    (3, ['tea', 'milk'])
    """

    table: "pa.Table"
    candidates: int
    missed: Estimate
    squared_norm: Estimate

    @property
    def secret(self) -> bool:
        """Whether the result is as secret as a raw sketch, because it was found in one."""
        return self.missed.secret

    def __repr__(self) -> str:
        missed, whole = value_text(self.missed), value_text(self.squared_norm)
        secret = f", {SECRECY}" if self.secret else ""
        return f"<Top {len(self.table):,} of {self.candidates:,} items, missed {missed} of {whole}{secret}>"


def top(
    release: AnySketch,
    dictionary: object,
    n: int = 10,
    *,
    agreement: Agreement | None = None,
    estimator: PointEstimator = "auto",
    confidence: float = 0.95,
) -> Top:
    """Find the items of a public dictionary that occur most often, with intervals that allow for the selection.

    A sketch of hashed items does not know their names. So all items of a dictionary are estimated, as by `frequency`,
    and the n largest estimates are returned. The largest of many estimates are too large on average. Each interval has
    Bonferroni's confidence, 1 - (1 - ``confidence``)/m for m different items. So with probability ``confidence`` or
    more, all intervals of the dictionary hold at once, and with them those of the selected items. In simulations, 95 %
    intervals held in 94 % of cases or more. By the mean of at most 8 cells, errors are as those of sums of cells with
    random signs, which the release shows, as normal ones would not do on skewed streams: a light item that shares a
    cell with the heaviest one errs by that item, so intervals of a dictionary are then wide.

    The squared norm that the dictionary misses is ‖x‖² - Σ x_j² over its items, estimated without bias. Its error grows
    with √m, because each estimate of x_j² has an error of its own: with m items and k cells it is about √(2m)/k of
    ‖x‖², and more under noise. Its 95 % intervals covered in 94 to 97 % of cases, and in 92 % with such an `OPORP` on
    an even stream.

    Parameters
    ----------
    release
        A `PrivateSketch` with noise after the map, or your own `Sketch`; answers from a `Sketch` are as secret as it
        is.
    dictionary
        Items as in `frequency`: a column, a tuple of columns or a table. It must not depend on the data. Repeated items
        count once.
    n
        Number of items to return, at least 1; all if the dictionary has fewer.
    agreement, estimator
        As in `frequency`.
    confidence
        Probability in (0, 1) with which all intervals hold.

    Returns
    -------
    Top
        The table of items, and the squared norm that the dictionary misses.

    Raises
    ------
    InvalidInputError
        As in `frequency`; and for noise before the map, a map to one cell, and an empty dictionary.
    TypeError, IncompatibleAgreementsError
        As in `frequency`.

    Examples
    --------
    >>> from streamsketch import SJLT
    >>> x = SJLT(sketch_dim=1280, sparsity=5, seed=7).sketch()
    >>> x.update(["tea", "jam", "salt"], [30, 4, 3])
    >>> items = top(x, ["salt", "jam", "tea", "milk"], 2)
    >>> items.table.column("item").to_pylist()
    ['tea', 'jam']
    >>> print(top(x, ["tea", "jam"]))
    <Top 2 of 2 items, missed 10 ± 37 of 925 ± 26, secret: from a raw sketch>
    """
    check_comparable([release])
    check_int(n, "n", 1)
    miss_of(confidence)  # checks it
    block = block_of([release])
    if not isinstance(block.effect, OutputNoise):
        raise InvalidInputError(
            "the squared norm that a dictionary misses cannot be estimated if the noise was added before the map: "
            "use frequency"
        )
    if block.variance.norms and block.effect.count == 1:
        raise InvalidInputError("a single cell cannot distinguish items: use a projection with more cells")
    column, indices = distinct_items(dictionary, release, agreement)
    points = points_of(release, indices, estimator)
    places = np.argsort(-points.value, kind="stable")[:n]
    means = points if points.law is None else points_of(release, indices, "mean")
    table = points.table(column, confidence, places, indices.size)
    missed = mark_secret(_missed(block, release.projection, indices, means.value), block)
    return Top(table, int(indices.size), missed, norms_of(block)[0])


def _missed(block: Block, projection: Projection, indices: Ints, means: Floats) -> Estimate:
    """Estimate ‖x‖² - Σ x_j² over items with these means, of which E x̂_j² = x_j² + Var x̂_j (Theory 4.5)."""
    variance, k2, k4, count = block.variance, float(block.k2[0]), float(block.k4[0]), block.effect.count
    norm = float(block.squared_norms[0])
    if isinstance(projection, Identity):  # its cells are the items: those of the dictionary need not be subtracted
        others = np.delete(block.cells[0], indices)
        rest = block._replace(cells=others[None], effect=OutputNoise(others.size))
        if others.size:
            return norms_of(rest)[0]
        return Estimate(0.0, 0.0, k4 + 2 * k2**2, lowest=0.0)  # nothing is left out: the noise of one cell, not none
    share = 1 + variance.inner + variance.fourth
    error = variance.norms * norm + k2
    listed = (float(means @ means) - means.size * error) / share
    value = norm - listed
    squares = [min(max(part, 0.0), max(norm, 0.0)) for part in (listed, value)]
    rounded = (_ROUNDING * max(norm, 0.0)) ** 2  # a small difference of two large sums
    of_norm = variance.norms * max(norm, 0.0)
    if variance.norms == 0:  # each item has a cell of its own: the noise of the others is left
        of_noise = 4 * k2 * squares[1] + max(count - means.size, 1) * (k4 + 2 * k2**2)
        return Estimate(value, 0.0, of_noise + rounded, lowest=0.0)
    # of Σ x̂_j² beyond its expectation: a form in the cells, s = 1 of it on the diagonal alone
    cells = block.values[0] ** 2
    nonzeros = projection.nonzeros
    mean = float(cells.mean())
    tails = float((cells**2).mean()) / mean**2 if mean > 0 else 3.0
    factor = means.size * (2 * (nonzeros - 1) + tails - 1) / nonzeros
    of_map = (variance.norms + variance.inner) * (squares[0] ** 2 + squares[1] ** 2) + factor * of_norm**2
    of_noise = 4 * k2 * squares[1] + count * (k4 + 2 * k2**2) + factor * ((of_norm + k2) ** 2 - of_norm**2)
    return Estimate(value, of_map, of_noise + rounded, lowest=0.0)
