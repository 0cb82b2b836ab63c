"""Published signs in pipelines: released once for each key, and searched by Hamming distance."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.utils.timestamp import TimestampTypes

from streamsketch.beam.blocks import order, shard_of
from streamsketch.beam.distances import references_of
from streamsketch.beam.keys import Keys
from streamsketch.beam.releasing import Plan, ReleaseOnce
from streamsketch.beam.results import Form, Places, check_form, key_column
from streamsketch.beam.runners import refuse_broken_runner
from streamsketch.beam.selection import SelectKeys
from streamsketch.errors import InvalidInputError
from streamsketch.hashing import Words
from streamsketch.privacy.guarantee import Guarantee, Neighbours
from streamsketch.privacy.sampling import BitSource
from streamsketch.projections.base import Projection
from streamsketch.release import check_disjoint
from streamsketch.signs.hamming import check_comparable, distances_between, words_of
from streamsketch.signs.mechanisms import DPSignRPRR, SignMechanism
from streamsketch.signs.sketch import SignSketch
from streamsketch.sketch import Sketch


class ReleaseSignsPerKey(ReleaseOnce):
    """Publish the signs of each key's sketch once: ``KV[key, Sketch] → KV[key, SignSketch]``.

    The table of releases has the mechanism's guarantee. Keys, windows, bounds and retries are as in `ReleasePerKey`:
    the set of keys must be public or chosen privately, a public key without data is published as fair coins, each key
    is released once in each window, and the flips are a function of a secret drawn when the pipeline is built and of
    all that makes the release what it is.

    Parameters
    ----------
    mechanism
        A differentially private mechanism of `streamsketch.signs` but `DPSignRPRR`, which promises nothing for keys
        without data: their norm is 0. Its neighbours must be those that `BoundContributions` enforced upstream; where
        none stands there, they are your word.
    public_keys, selected_keys, keys_are_public, public_windows, projection, count_private_data
        As in `ReleasePerKey`.

    Raises
    ------
    TypeError
        If the mechanism is none of these; individual privacy has no place in a table.
    InvalidInputError
        For `DPSignRPRR`, else as `ReleasePerKey`.

    Examples
    --------
    >>> import apache_beam as beam
    >>> from streamsketch import L1, SJLT, signs
    >>> from streamsketch.beam import SketchPerKey
    >>> projection = SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=7)
    >>> publish = signs.DPSignLogistic(epsilon=1.0, neighbours=L1(1))
    >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
    ...     releases = (
    ...         pipeline
    ...         | beam.Create([("AA", 17, 1), ("UA", 18, 2)])
    ...         | SketchPerKey(projection)
    ...         | ReleaseSignsPerKey(publish, public_keys=["AA", "DL", "UA"])
    ...     )
    """

    _neighbours_are_a_word = False

    def __init__(
        self,
        mechanism: SignMechanism,
        *,
        public_keys: Keys | None = None,
        selected_keys: beam.PCollection | None = None,
        keys_are_public: bool = False,
        public_windows: tuple[TimestampTypes, TimestampTypes] | None = None,
        projection: Projection | None = None,
        count_private_data: bool = False,
    ) -> None:
        if not isinstance(mechanism, SignMechanism):
            raise TypeError(
                f"ReleaseSignsPerKey needs a differentially private mechanism of streamsketch.signs, got a "
                f"{type(mechanism).__name__}"
            )
        if isinstance(mechanism, DPSignRPRR):
            raise InvalidInputError(
                "DP-SignRP-RR holds for vectors whose norms have a public lower bound, and a key may have no data at "
                "all. DPSignRPRRSmooth and DPSignLogistic hold for every vector"
            )
        self._mechanism = mechanism
        super().__init__(
            neighbours=mechanism.neighbours,
            public_keys=public_keys,
            selected_keys=selected_keys,
            keys_are_public=keys_are_public,
            public_windows=public_windows,
            projection=projection,
            count_private_data=count_private_data,
        )

    def display_data(self) -> dict[str, Any]:
        """Show the guarantee in the runner's interface; never a secret."""
        mechanism = self._mechanism
        return {
            "epsilon": mechanism.epsilon,
            "neighbours": repr(mechanism.neighbours),
            "mechanism": mechanism.name,
        }

    def _rule(self, neighbours: Neighbours) -> "_SignRule":
        del neighbours  # the mechanism's own: others are refused before
        return _SignRule(self._mechanism, self._selection)


@dataclasses.dataclass(frozen=True)
class _SignRule:
    """Publish the signs of the cells."""

    mechanism: SignMechanism
    selection: SelectKeys | None

    published = SignSketch

    def plan(self, projection: Projection) -> Plan:
        guarantee = self.mechanism.guarantee(projection)
        if self.selection is not None:
            guarantee = self.selection.added_to(guarantee)
        return Plan(guarantee, lambda sketch, bits: self._draw(sketch, bits, guarantee))

    def _draw(self, sketch: Sketch, bits: BitSource, guarantee: Guarantee) -> SignSketch:
        drawn = self.mechanism.release_with(sketch, bits)
        return SignSketch(drawn.projection, drawn.packed, drawn.law, guarantee, release_id=drawn.release_id)


class NearestSigns(beam.PTransform):
    """Find each key's nearest others by Hamming distance: ``KV[key, SignSketch] → KV[key, list[(key, int)]]``.

    For one mechanism and norm that is the order of the estimated angles. Ties go to the smaller key. The smallest of
    many noisy distances is biased down.

    Parameters
    ----------
    top
        How many to find for each key; fewer where there are no more.
    references
        Where to look: a mapping from keys to `SignSketch` objects or a ``KV[key, SignSketch]`` collection. By default
        the collection itself, without the key in question.
    results
        ``"estimates"``: each key with its list of (key, differing bits), nearest first. ``"rows"`` and ``"columns"``:
        dictionaries or Arrow tables of ``first``, ``second``, ``rank`` from 1 and ``hamming_distance``.

    Raises
    ------
    InvalidInputError
        For top < 1, empty references or another form; in the workers for a key that appears twice.
    TypeError, IncompatibleProjectionsError, DependentNoiseError
        In the workers, as `streamsketch.signs.hamming_distance`.

    Examples
    --------
    >>> import apache_beam as beam
    >>> from streamsketch import L1, SJLT, signs
    >>> publish = signs.DPSignLogistic(epsilon=1.0, neighbours=L1(1))
    >>> sketch = SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=7).sketch()
    >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
    ...     rows = pipeline | beam.Create([(key, publish.release(sketch)) for key in ("x", "y")])
    ...     nearest = rows | NearestSigns(1)
    """

    def __init__(
        self,
        top: int,
        *,
        references: Mapping[Any, SignSketch] | beam.PCollection | None = None,
        results: Form = "estimates",
    ) -> None:
        super().__init__()
        if type(top) is not int or top < 1:
            raise InvalidInputError(f"top must be an integer >= 1, got {top!r:.40}")
        check_form(results)
        self._top, self._results = top, results
        self._references = None if references is None else references_of(references)

    def expand(self, releases: beam.PCollection) -> beam.PCollection:
        """Apply the transform."""
        refuse_broken_runner(releases.pipeline)
        blocks = releases | "Blocks" >> _ToSignBlocks()
        others, own = blocks, self._references is None
        if self._references is not None:
            known = self._references
            if isinstance(known, list):
                known = releases.pipeline | "References" >> beam.Create(known)
            others = known | "Reference blocks" >> _ToSignBlocks()
        search = beam.FlatMap(_nearest, beam.pvalue.AsList(others), self._top, self._results, own=own)
        return blocks | "Spread blocks" >> beam.Reshuffle() | "Search blocks" >> search


class _SignBlock(NamedTuple):
    """Published signs of different keys, in the keys' order."""

    shard: int
    keys: list[Any]
    words: Words
    sample: SignSketch
    """One of them, for what all have in common."""
    release_ids: frozenset[bytes]


class _ToSignBlocks(beam.PTransform):
    """Gather published signs in at most 32 blocks."""

    def expand(self, releases: beam.PCollection) -> beam.PCollection:
        return (
            releases
            | "Assign blocks" >> beam.Map(lambda keyed: (shard_of(keyed[0]), keyed))
            | "Gather blocks" >> beam.GroupByKey()
            | "Order blocks" >> beam.MapTuple(_block)
        )


def _block(shard: int, members: Iterable[tuple[Any, SignSketch]]) -> _SignBlock:
    ordered = sorted(members, key=lambda keyed: order(keyed[0]))
    keys, releases = [key for key, _ in ordered], [release for _, release in ordered]
    if len({order(key) for key in keys}) < len(keys):
        raise InvalidInputError("a key appears twice among the signs to compare; release each key once")
    others = sorted({type(release).__name__ for release in releases if not isinstance(release, SignSketch)})
    if others:
        raise TypeError(f"NearestSigns needs SignSketch values, got {', '.join(others)}")
    check_comparable(releases)
    ids = frozenset(release.release_id for release in releases)
    return _SignBlock(shard, keys, words_of(releases), releases[0], ids)


def _nearest(block: _SignBlock, others: list[_SignBlock], top: int, form: Form, *, own: bool) -> Iterator[Any]:
    """Search all blocks for a block's keys."""
    keys: list[Any] = []
    places = np.empty((len(block.keys), 0), dtype=np.intp)
    found = np.empty((len(block.keys), 0), dtype=np.int64)
    for other in others:
        block.sample.projection.check_same(other.sample.projection)
        distances = distances_between(block.words, other.words).astype(np.int64)
        if own and other.shard == block.shard:
            np.fill_diagonal(distances, -1)  # itself
        else:
            check_disjoint([block.release_ids, other.release_ids])
        found = np.concatenate([found, distances], axis=1)
        places = np.concatenate(
            [places, np.broadcast_to(len(keys) + np.arange(len(other.keys)), distances.shape)], axis=1
        )
        keys += other.keys
        found, places = _best(found, places, keys, top)
    yield from _in_form(block.keys, keys, found, places, form)


def _best(found: Places, places: Places, keys: list[Any], top: int) -> tuple[Places, Places]:
    """Keep the ``top`` nearest of each row, ties by key; -1 marks what is no neighbour, and goes last."""
    ranks = np.empty(len(keys), dtype=np.intp)
    ranks[sorted(range(len(keys)), key=lambda place: order(keys[place]))] = np.arange(len(keys))
    nothing = np.iinfo(np.int64).max
    best = np.lexsort((ranks[places], np.where(found < 0, nothing, found)))[:, :top]
    return np.take_along_axis(found, best, axis=1), np.take_along_axis(places, best, axis=1)


def _in_form(own: list[Any], keys: list[Any], found: Places, places: Places, form: Form) -> Iterator[Any]:
    if form == "estimates":
        for key, distances, others in zip(own, found.tolist(), places.tolist(), strict=True):
            yield key, [(keys[at], distance) for distance, at in zip(distances, others, strict=True) if distance >= 0]
        return
    rows, columns = np.nonzero(found >= 0)
    table = pa.table(
        {
            "first": key_column(own).take(pa.array(rows)),
            "second": key_column(keys).take(pa.array(places[rows, columns])),
            "rank": columns + 1,
            "hamming_distance": found[rows, columns],
        }
    )
    if form == "rows":
        yield from table.to_pylist()
    elif table.num_rows:
        yield table
