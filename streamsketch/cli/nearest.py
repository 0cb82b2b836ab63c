"""``streamsketch nearest``: the nearest neighbours of releases."""

from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

import streamsketch as ss
from streamsketch.cli._index import write_index
from streamsketch.cli._keys import Signers
from streamsketch.cli._layout import show, table_of
from streamsketch.cli._options import given_options, option
from streamsketch.cli._pairs import WITHOUT_NORMS, ByOption, Norms, Only, check_top, load_pairs, select_names
from streamsketch.cli._reading import Files, hold_signs, load_signs, name_in_errors
from streamsketch.cli._saying import say
from streamsketch.cli._showing import AsJson, Confidence, interval_name, join_names, meant, show_json
from streamsketch.core.libraries import pa
from streamsketch.data.columns import key_values
from streamsketch.estimation.estimate import format_value
from streamsketch.signs.angles import needs_norms
from streamsketch.signs.sign_index import SignIndex
from streamsketch.signs.sketch import Signs


def nearest(  # noqa: PLR0913 - a command's options are its parameters
    files: Files,
    *,
    to: Annotated[
        str | None,
        option(
            "Estimates",
            "NAME",
            "Name of the file or key whose neighbours are shown. By default, the neighbours of each are shown.",
        ),
    ] = None,
    by: ByOption = None,
    top: Annotated[int, option("Estimates", "NUMBER", "Number of neighbours.")] = 3,
    index: Annotated[
        Path | None,
        option(
            "Input", "FILE", "Search the neighbours in this collection of published signs, which --write-index wrote."
        ),
    ] = None,
    index_file: Annotated[
        Path | None,
        option(
            "Output",
            "FILE",
            "Write the published signs of the files to a collection that --index searches, .index.",
            "--write-index",
        ),
    ] = None,
    only: Only = None,
    confidence: Confidence = 0.95,
    norm: Norms = None,
    signer: Signers = None,
    as_json: AsJson = False,
) -> None:
    """Find the nearest neighbours of each release, by estimated distance, cosine, or signs that differ.

    Distances of counts mostly measure size: the smallest stream is close to all others. To compare what streams consist
    of, use --by cosine or --by profile.

    If intervals overlap, the order of the neighbours may be due to noise, and the smallest of many estimates is too
    small on average. The intervals allow for that: with the stated confidence, all intervals of one release hold
    together, whichever neighbours are shown.

    With --index, the neighbours of the files are searched in a large collection of signs. Equal distances keep the
    order of the collection. --write-index writes such a collection: one bit for each sign, and for each release eight
    bytes and its key. Use the file only on the machines that search it. Send others the releases themselves.

    $ streamsketch nearest north.parquet --to east --by cosine --top 5

    $ streamsketch nearest answers.parquet --write-index answers.index
    """
    if index_file is not None:
        if options := given_options({"to": to, "by": by, "index": index, "only": only, "norm": norm}):
            raise ss.InvalidInputError(f"--write-index writes all releases of the files: leave out {options}")
        write_index(files, index_file, signer, as_json=as_json)
        return
    check_top(top)
    if index is not None:
        if by not in (None, "distance"):
            raise ss.InvalidInputError(f"--by {by} is for sketches, and --index searches signs, by how many differ")
        if not hold_signs(files):
            raise ss.InvalidInputError(f"--index searches published signs, and {files[0]} holds none")
        queries = select_names(load_signs(files, least=1, command="nearest", signer=signer), only, "nearest", least=1)
        queries = {name: queries[name] for name in _wanted(to, list(queries))}
        _search(index, queries, top, confidence, norm, as_json=as_json)
        return
    among = load_pairs(files, "nearest", by=by, only=only, norm=norm, signer=signer)
    wanted = [among.names.index(name) for name in _wanted(to, among.names)]
    ranked = [(rank, pair) for place in wanted for rank, pair in enumerate(among.nearest_to(place, top), 1)]
    pairs, candidates = [pair for _, pair in ranked], len(among.names) - 1
    if as_json:
        show_json(
            [
                {
                    "of": among.names[i],
                    "rank": rank,
                    "neighbour": among.names[j],
                    **among.fields((i, j), confidence, candidates),
                }
                for rank, (i, j) in ranked
            ]
        )
    else:
        names = {
            "stream": [among.names[i] if rank == 1 else "" for rank, (i, _) in ranked],
            "neighbour": [among.names[j] for _, j in pairs],
        }
        show(table_of(names | among.columns(pairs, confidence, candidates), title=among.title(pairs), texts=2))
    among.say_notes(pairs)


def _wanted(to: str | None, names: list[str]) -> list[str]:
    """Return the names of the releases whose neighbours are requested."""
    if to is not None and to not in names:
        raise ss.InvalidInputError(f"--to must be one of {join_names(names)}; got {to}{meant(to, names)}")
    return names if to is None else [to]


def _search(
    path: Path, queries: dict[str, Signs], top: int, confidence: float, norm: list[str] | None, *, as_json: bool
) -> None:
    """Print the nearest members of an index."""
    try:
        index = SignIndex.load(path)
    except ss.errors.WireFormatError as error:
        raise ss.InvalidInputError(f"{path} is not a valid index of signs: {error}") from None
    releases, length = list(queries.values()), _norm_of(norm)
    try:
        neighbours = index.nearest(releases, min(top, len(index)))
    except ss.StreamsketchError:
        for name, release in queries.items():
            with name_in_errors(name, str(path)):
                index.nearest([release], 1)
        raise
    angles = None
    if length is not None or not any(map(needs_norms, [*releases, index.first])):
        angles = index.angles(releases, neighbours, norm_queries=length, norm_members=length, confidence=confidence)
    keys = _keys_at(index, neighbours.places.ravel())
    cells, ranks = index.first.projection.sketch_dim, neighbours.places.shape[1]
    of = [name for name in queries for _ in range(ranks)]
    differing = neighbours.distances.ravel().astype(int).tolist()
    degrees = None if angles is None else [np.degrees(part).ravel().tolist() for part in angles]
    if as_json:
        show_json(
            [
                {
                    "of": of[row],
                    "rank": row % ranks + 1,
                    "neighbour": keys[row],
                    "hamming_distance": differing[row],
                    "sketch_dim": cells,
                    "angle_degrees": None if degrees is None else _fields(degrees, row, confidence),
                }
                for row in range(len(of))
            ]
        )
    else:
        columns = {
            "stream": [name if row % ranks == 0 else "" for row, name in enumerate(of)],
            "neighbour": keys,
            "differ": [f"{distance:,}" for distance in differing],
        }
        title = f"signs that differ, of {cells:,}, among {len(index):,} releases"
        if degrees is not None:
            found_angles = list(zip(*degrees, strict=True))
            columns["angle"] = [
                str(ss.estimation.Estimate(value, error**2, 0.0)) for value, _, _, error in found_angles
            ]
            columns[interval_name(confidence)] = [
                f"{format_value(low, error)} … {format_value(high, error)}" for _, low, high, error in found_angles
            ]
            title += "; angles in degrees"
        show(table_of(columns, title=title, texts=2))
    if degrees is None:
        say(WITHOUT_NORMS)


def _fields(degrees: list[list[float]], row: int, confidence: float) -> dict[str, float]:
    value, low, high, error = (part[row] for part in degrees)
    return {"value": value, "standard_error": error, "low": low, "high": high, "confidence": confidence}


def _norm_of(texts: list[str] | None) -> float | None:
    if not texts:
        return None
    try:
        (text,) = texts
        return float(text)
    except ValueError:
        raise ss.InvalidInputError(
            f"with --index, --norm takes one number, the norm of all vectors, got {' '.join(texts)}"
        ) from None


def _keys_at(index: SignIndex, places: NDArray[np.int64]) -> list[str]:
    """Return members' keys as text; their positions, if they have none."""
    if index.keys is None:
        return list(map(str, places.tolist()))
    keys = index.keys.take(pa.array(places))
    return list(map(str, key_values(keys)))
