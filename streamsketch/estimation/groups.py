"""Groups of streams: hierarchical clustering of debiased distances, and how stable its branches are under the noise."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from streamsketch.core.libraries import distance, hierarchy, scipy_special
from streamsketch.core.numbers import Floats, Numbers, check_int
from streamsketch.errors import InvalidInputError
from streamsketch.estimation.blocks import AnySketch, Block, block_of, check_comparable, streams_of
from streamsketch.estimation.estimate import SECRECY
from streamsketch.estimation.measures import MEASURES, By, check_by, check_together, compare_all
from streamsketch.estimation.noise_effect import OutputNoise

Method: TypeAlias = Literal["average", "complete", "single", "weighted"]
"""How the squared distance of two groups follows from the squared distances of their members."""

_METHODS = ("average", "complete", "single", "weighted")
_FINE = 2.0**40  # steps of the grid on which cells are drawn, up to the largest


@dataclass(frozen=True, eq=False, repr=False)
class Linkage:
    """A tree of n streams, built by joining the two nearest groups n - 1 times.

    NumPy and SciPy accept it as its matrix: ``scipy.cluster.hierarchy.dendrogram(linkage(releases))``.

    Examples
    --------
    >>> import numpy as np
    >>> from streamsketch import SJLT, linkage
    >>> projection = SJLT(dim=1000, sketch_dim=256, sparsity=4, seed=7)
    >>> sketches = [projection.sketch() for _ in range(3)]
    >>> for sketch, item in zip(sketches, [1, 500, 2]):
    ...     sketch.update([item // 100, item], [9, 1])
    >>> tree = linkage(sketches)
    >>> np.asarray(tree)[:, [0, 1, 3]]  # the groups joined, and the number of streams in both
    array([[0., 2., 2.],
           [1., 3., 3.]])
    >>> tree.members(0)  # the streams of the first group
    [0, 2]
    """

    matrix: Floats
    """(n - 1, 4), as `scipy.cluster.hierarchy.linkage` returns it: in each row the two groups joined, their distance
    and the number of streams in both. Groups below n are streams, and row i forms group n + i. Distances are in data
    units, not squared."""
    stability: Floats
    """(n - 1,): the share of draws in which the streams of a row form a group, 0 to 1; NaN without draws."""
    secret: bool = False
    """Whether it is as secret as a raw sketch that took part."""
    joint: bool = False
    """Whether the distances are joint estimates, as `pairwise` makes them with ``together=True``."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Numbers:  # noqa: FBT001 - as NumPy calls it
        """Return the matrix."""
        return np.array(self.matrix, dtype=dtype) if copy else np.asarray(self.matrix, dtype=dtype)

    def members(self, row: int) -> list[int]:
        """Return the positions, ascending, of the streams that form the group of a row."""
        return _places(_groups(self.matrix)[row])

    def __repr__(self) -> str:
        marks = [", by joint estimates"] * self.joint + [f", {SECRECY}"] * self.secret
        return f"<Linkage of {len(self.matrix) + 1} streams{''.join(marks)}>"


def linkage(
    releases: Iterable[AnySketch],
    *,
    by: By = "distance",
    method: Method = "average",
    draws: int = 200,
    seed: int = 0,
    together: bool = False,
    order: Literal["time"] | None = None,
) -> Linkage:
    """Cluster n streams hierarchically by debiased distances, and show how stable each branch is under the noise.

    Groups are joined by estimated *squared* distances. An average of these is unbiased only if negative ones are
    included: setting them to 0 would join streams that noise alone makes look similar. Only heights replace negative
    averages by 0. Cosines are clustered as `profile_distance`.

    The stability of a branch comes from a parametric bootstrap. Sketches are drawn again with the estimated inner
    products of the streams, the map's error and the noise that the releases state, and clustered in the same way. The
    stability is the share of draws with the same group; it is not a confidence level. In simulations of eight streams
    in groups, all 5,297 branches with a stability of 95 % or more were also branches of the exact distances, as were 98
    % of the branches with 80 to 95 % and 80 % of those with 50 to 80 %. For eight streams without groups the shares
    were 80, 63 and 38 % (Theory 4.3).

    Parameters
    ----------
    releases
        n ≥ 2 sketches of one projection, with independent noises.
    by
        As in `pairwise`.
    method
        How groups are compared: by the ``"average"`` of their squared distances, the largest (``"complete"``), the
        smallest (``"single"``), or an average in which groups of any size have the same weight (``"weighted"``).
    draws
        Number of draws for the stability, or 0 for none. Each takes about as long as `pairwise`.
    seed
        Seed of the draws: the same releases and seed give the same stability. The draws use only public values and
        protect nothing.
    together, order
        As in `pairwise`: whether groups are joined by joint estimates of all distances, which every stream has. Each
        draw then fits the model again, which takes about a tenth of a second for ten streams.

    Returns
    -------
    Linkage
        The ``matrix`` in SciPy's format, with distances in data units, and the ``stability`` of each of its rows.

    Raises
    ------
    InvalidInputError
        For fewer than two sketches, an unknown ``by`` or ``method``, or a stream that cannot be compared: by cosine or
        profile, one below the noise floor; by mean, one without an average.
    TypeError, IncompatibleProjectionsError, DependentNoiseError
        As in `squared_distance`.

    Examples
    --------
    >>> from streamsketch import SJLT
    >>> projection = SJLT(dim=1000, sketch_dim=256, sparsity=4, seed=7)
    >>> sketches = [projection.sketch() for _ in range(4)]
    >>> for sketch, item in zip(sketches, [1, 500, 2, 501]):
    ...     sketch.update([item // 100, item], [9, 1])
    >>> tree = linkage(sketches)
    >>> tree.members(0), tree.members(1)
    ([1, 3], [0, 2])
    >>> tree.stability
    array([1., 1., 1.])
    """
    sketches = streams_of(releases, "linkage groups several streams")
    if len(sketches) < 2:
        raise InvalidInputError(f"linkage needs at least two sketches, got {len(sketches)}")
    check_by(by)
    check_together(by, together=together, order=order)
    if method not in _METHODS:
        raise InvalidInputError(f"method must be 'average', 'complete', 'single' or 'weighted', got {method!r:.40}")
    check_int(draws, "draws", 0)
    check_int(seed, "seed", 0)
    check_comparable(sketches)
    block = block_of(sketches)
    squares = _squares(block, by, together=together, order=order)
    lost = np.flatnonzero(np.isnan(np.diagonal(squares)))
    if np.isnan(squares).any():
        floor = MEASURES[by].floor
        places = ", ".join(map(str, lost[:20])) + (", …" if len(lost) > 20 else "")
        raise InvalidInputError(
            f"{len(lost)} of {len(sketches)} streams cannot be compared by {by}: their {floor.number} are "
            f"{floor.level}. Leave out those at places {places}, or compare by 'distance'"
        )
    matrix = tree_of(squares, method)
    groups = _groups(matrix)
    counts = dict.fromkeys(groups, 0)
    source = Source(seed)
    redrawn = Redrawn(block)
    for _ in range(draws):
        again = _squares(redrawn.draw(source), by, together=together, order=order)
        # what a draw cannot compare joins last
        again = np.where(np.isnan(again), np.nanmax(again, initial=0.0), again)
        for group in _groups(tree_of(again, method)):
            if group in counts:
                counts[group] += 1
    stability = np.array([counts[group] for group in groups], dtype=np.float64) / (draws or np.nan)
    return Linkage(matrix, stability, block.secret, together)


def tree_of(squared_distances: Floats, method: Method = "average") -> Floats:
    """Return the tree of n streams by (n, n) squared distances, negative ones included, in SciPy's format.

    These methods only compare and average distances, so a shift of all changes nothing but the heights by as much.
    Heights are square roots.
    """
    pairs = distance.squareform(squared_distances, checks=False)
    shift = min(float(pairs.min()), 0.0)
    matrix: Floats = hierarchy.linkage(pairs - shift, method)
    matrix[:, 2] = np.sqrt(np.maximum(matrix[:, 2] + shift, 0.0))
    return matrix


def similarity_order(squared_distances: Floats) -> list[int]:
    """Return the order of n streams in their tree, where similar ones are adjacent, by (n, n) squared distances.

    This is the order with the least sum of distances between neighbours, among those in which a tree can be drawn.
    """
    return list(range(len(squared_distances))) if len(squared_distances) < 3 else ordered_tree(squared_distances)[1]


def ordered_tree(squared_distances: Floats) -> tuple[Floats, list[int]]:
    """Return the tree of n ≥ 2 streams as `tree_of`, and the order of `similarity_order`, in which it can be drawn."""
    tree = tree_of(squared_distances)
    if len(squared_distances) < 3:
        return tree, [0, 1]
    lengths = distance.squareform(np.sqrt(np.maximum(squared_distances, 0.0)), checks=False)
    ordered = hierarchy.optimal_leaf_ordering(tree, lengths)
    return tree, [int(leaf) for leaf in hierarchy.leaves_list(ordered)]


class Source:
    """Public random numbers, the same for one seed on every machine: nothing that protects anything."""

    def __init__(self, seed: int) -> None:
        self._seed, self._read = seed, 0

    def uniform(self, shape: tuple[int, ...]) -> Floats:
        """Return uniform variables on the open interval (0, 1)."""
        self._read += 1
        state = hashlib.shake_256(f"streamsketch.linkage {self._seed} {self._read}".encode())
        words = np.frombuffer(state.digest(8 * int(np.prod(shape))), dtype="<u8")
        values: Floats = (((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52).reshape(shape)
        return values

    def normal(self, shape: tuple[int, ...]) -> Floats:
        """Return standard normal variables."""
        values: Floats = scipy_special.ndtri(self.uniform(shape))
        return values


class Redrawn:
    """Sketches drawn with the inner products that a block's estimates state, the map's error and the noise."""

    def __init__(self, block: Block) -> None:
        self._block = block
        values, k = block.values, block.cells.shape[1]
        products = values @ values.T - np.diag(block.effect.count * block.k2)
        sizes, vectors = np.linalg.eigh(products)
        kept = np.flatnonzero(sizes > 0)[-k:]  # estimates need not be those of any streams
        self._streams = vectors[:, kept] * np.sqrt(sizes[kept])
        # cells that are fixed but for a share of their squares have (4w - 2w²)/k where a normal map has 2/k
        share = min(max((block.variance.norms + block.variance.inner) * k / 2, 0.0), 1.0)
        self._drawn = 1 - (1 - share) ** 0.5

    def draw(self, source: "Source") -> Block:
        """Return a block with an error drawn anew."""
        block, streams = self._block, self._streams
        n, k = block.cells.shape
        cells = streams @ ((self._drawn / k) ** 0.5 * source.normal((streams.shape[1], k)))
        cells[:, : streams.shape[1]] += (1 - self._drawn) ** 0.5 * streams
        cells += self._noise(source, (n, k))
        unit = float(np.abs(cells).max(initial=0.0)) / _FINE or 1.0
        units = block.units
        if units is not None:
            units = units._replace(number=units.number + np.sqrt(units.variance) * source.normal((n,)))
        return block._replace(cells=np.rint(cells / unit).astype(np.int64), cell_units=np.full(n, unit), units=units)

    def _noise(self, source: "Source", shape: tuple[int, int]) -> Floats:
        """Return noise of each sketch's cumulants: normal variables of Gamma variance, as Laplace noise is."""
        k2, k4, effect = self._block.k2, self._block.k4, self._block.effect
        if not isinstance(effect, OutputNoise):
            return source.normal(shape) * np.sqrt(effect.count * k2 / shape[1])[:, None]
        noise = source.normal(shape) * np.sqrt(k2)[:, None]
        for row in np.flatnonzero(k4 > 1e-6 * k2**2):
            form = 3 * k2[row] ** 2 / k4[row]
            noise[row] *= np.sqrt(scipy_special.gammaincinv(form, source.uniform((shape[1],))) / form)
        return noise


def _squares(block: Block, by: By, *, together: bool, order: Literal["time"] | None) -> Floats:
    return compare_all(block, MEASURES[by].squares or by, together=together, order=order).value


def _groups(matrix: Floats) -> list[int]:
    """Return the streams of each row's group as the bits of an integer."""
    n = len(matrix) + 1
    groups = [1 << place for place in range(n)]
    for first, second in matrix[:, :2].astype(np.int64).tolist():
        groups.append(groups[first] | groups[second])
    return groups[n:]


def _places(group: int) -> list[int]:
    return [place for place in range(group.bit_length()) if group >> place & 1]
