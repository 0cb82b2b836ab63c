"""``streamsketch inspect``: the contents and guarantee of a file."""

import dataclasses
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import streamsketch as ss
from streamsketch.agreement.same import fingerprint_of
from streamsketch.cli._keys import Signers
from streamsketch.cli._layout import show, show_facts, table_of
from streamsketch.cli._reading import load_published, load_raw_file
from streamsketch.cli._showing import Json, estimate_fields, guarantee_fields, plural, show_json, show_result
from streamsketch.estimation.counts import published_counts
from streamsketch.estimation.estimate import interval_text
from streamsketch.storage.first_bytes import SUFFIX, is_raw

if TYPE_CHECKING:
    from streamsketch.signs.sketch import Signs
    from streamsketch.storage.sketches import RawSketch


def inspect(
    file: Annotated[
        Path | None, typer.Argument(help="A .sketch, .signs, .parquet or .raw-sketch file.", metavar="FILE")
    ] = None,
    *,
    system: Annotated[bool, typer.Option("--system", help="Show how this machine hashes, instead of a file.")] = False,
    signer: Signers = None,
    as_json: Json = False,
) -> None:
    """Show the contents of a file of sketches and its guarantee.

    Noise and norms are in the units of the data. The grid step is the size of one step of the integers in the file.

    $ streamsketch inspect north.parquet
    """
    if system == (file is not None):
        raise typer.BadParameter("name one file, or give --system")
    if file is None:
        _inspect_system(as_json=as_json)
    elif file.suffix == SUFFIX or (file.is_file() and is_raw(file)):
        if signer:
            raise ss.InvalidInputError(f"{file} is a raw sketch, which is your own: --signer is for files of others")
        _inspect_raw(file, as_json=as_json)
    else:
        published = load_published(file, signer=signer)
        if isinstance(published, ss.PrivateTable):
            _inspect_table(file, published, as_json=as_json)
        elif isinstance(published, ss.PrivateSketch):
            _inspect_release(file, published, as_json=as_json)
        else:
            _inspect_signs(file, published, as_json=as_json)


def _inspect_system(*, as_json: bool) -> None:
    import numba  # noqa: PLC0415 - files are inspected without it

    from streamsketch.kernels import carryless  # noqa: PLC0415 - as above

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is what is shown here
        hashing = carryless.instructions()
    triple, processor, _ = carryless.target()
    facts = {
        "streamsketch": ss.__version__,
        "numba": numba.__version__,
        "target": triple,
        "processor": processor,
        "hashing": hashing,
    }
    slow = ": slow; Numba compiles for a processor without carry-less multiplication"
    shown = facts | {"hashing": hashing + (slow if hashing == carryless.PLAIN else "")}
    show_result("this machine, as Numba sees it", shown, facts, as_json=as_json)


def _inspect_release(file: Path, release: ss.PrivateSketch, *, as_json: bool) -> None:
    projection = release.projection
    try:
        norm = None if _is_row(release) else ss.squared_norm(release)
    except ss.StreamsketchError as error:
        raise ss.InvalidInputError(f"{file} holds values that cannot be used: {error}") from None
    fields = {
        "file": str(file),
        "secret": False,
        "guarantee": guarantee_fields(release.guarantee),
        **_projection_fields(release),
        "noise_place": release.noise_place,
        "noise_standard_deviation": release.noise.k2**0.5,
        "noise_deviation": release.explain().noise_deviation,
        "cell_unit": release.cell_unit,
        **({} if norm is None else {"squared_norm": estimate_fields(norm, 0.95, "value")}),
        **_count_fields(release),
        **_history_fields(release),
        "release_ids": [one.hex() for one in release.release_ids],
    }
    counts = {name: f"{one}, 95 % interval {interval_text(one)}" for name, one in published_counts(release).items()}
    facts = {
        "guarantee": str(release.guarantee),
        **_projection_facts(release),
        "cells": f"{projection.sketch_dim:,}, in grid steps of {release.cell_unit:.6g}",
        "noise": f"{' '.join(release.explain().amount)} In grid steps: ± {release.noise.k2**0.5:.4g}.",
        **({} if norm is None else {"squared norm": f"{norm}, 95 % interval {interval_text(norm)}"}),
        **counts,
        **_history_facts(release),
        "releases inside": str(len(release.release_ids)),
        "size": f"{file.stat().st_size:,} bytes",
    }
    show_result(str(file), facts, fields, as_json=as_json)


def _inspect_signs(file: Path, published: "Signs | ss.signs.SignTable", *, as_json: bool) -> None:
    individual = isinstance(published, ss.signs.IndividualSignSketch)
    kind = "individual differential privacy" if individual else "differential privacy"
    projection = published.projection
    fields: dict[str, Any] = {"file": str(file), "secret": False, "kind": kind, **_projection_fields(published)}
    facts = {
        "guarantee": str(published.guarantee),
        "kind": kind,
        **_projection_facts(published),
        "signs": f"{projection.sketch_dim}",
    }
    if isinstance(published, ss.signs.SignSketch):
        facts["noise"] = str(published.law)
    if isinstance(published, ss.signs.SignTable):
        facts["keys"] = f"{len(published):,}"
        fields["releases"] = [{"key": str(key), **_sign_fields(release)} for key, release in published.items()]
    else:
        fields |= _sign_fields(published)
    show_result(str(file), facts | {"size": f"{file.stat().st_size:,} bytes"}, fields, as_json=as_json)


def _sign_fields(release: "Signs") -> dict[str, Any]:
    return {"guarantee": str(release.guarantee), "release_ids": [release.release_id.hex()]}


def _inspect_table(file: Path, releases: ss.PrivateTable, *, as_json: bool) -> None:
    norms = {} if _is_row(releases) else {key: ss.squared_norm(release) for key, release in releases.items()}
    if as_json:
        rows = [
            {
                "key": str(key),
                "guarantee": guarantee_fields(release.guarantee),
                **({"squared_norm": estimate_fields(norms[key], 0.95, "value")} if norms else {}),
                **_count_fields(release),
                **_history_fields(release),
            }
            for key, release in releases.items()
        ]
        show_json({"file": str(file), "secret": False, **_projection_fields(releases), "releases": rows})
        return
    show_facts(
        str(file),
        {
            "guarantee": str(releases.guarantee),
            **_projection_facts(releases),
            "keys": f"{len(releases):,}",
            **_history_facts(releases),
            "size": f"{file.stat().st_size:,} bytes",
        },
    )
    columns = {"key": [str(key) for key in releases]}
    if norms:
        columns["squared norm"] = [str(norm) for norm in norms.values()]
        columns["95 % interval"] = [interval_text(norm) for norm in norms.values()]
    counts = [published_counts(release) for release in releases.values()]
    for name in ("units", "total"):
        if any(name in one for one in counts):
            columns[name] = [str(one.get(name, "")) for one in counts]
    show(table_of(columns))


def _inspect_raw(file: Path, *, as_json: bool) -> None:
    raw: RawSketch = load_raw_file(file)
    keys = len(raw.state) if isinstance(raw.state, ss.SketchTable) else None
    fields = {
        "file": str(file),
        "secret": True,
        **_projection_fields(raw),
        "events": raw.events,
        "keys": keys,
        "releases": [guarantee_fields(past.guarantee) for past in raw.releases],
    }
    facts = {
        "SECRET": "a raw sketch without noise: do not share it, or what is printed here",
        **_projection_facts(raw),
        "holds": plural(raw.events, "event") + ("" if keys is None else f" of {plural(keys, 'key')}"),
        "released before": "\n".join(str(past.guarantee) for past in raw.releases) or "never",
        "size": f"{file.stat().st_size:,} bytes",
    }
    show_result(str(file), facts, fields, as_json=as_json)


def _is_row(published: ss.PrivateSketch | ss.PrivateTable) -> bool:
    """Return whether a release is a row of a schedule, for which there are no estimates."""
    return published.history is not None and published.history.is_row


def _history_fields(release: ss.PrivateSketch) -> dict[str, Any]:
    """Return which part of a history a release is, if it is one."""
    part = release.history
    return {} if part is None else {"history": dataclasses.asdict(part) | {"id": part.id.hex()}}


def _history_facts(published: ss.PrivateSketch | ss.PrivateTable) -> dict[str, str]:
    part = published.history
    if part is None:
        return {}
    sentence = ", which alone is not a stream: ranges are read from all rows" if part.is_row else ", solved from rows"
    return {"part of a history": f"{part} of history {part.id.hex()}{sentence}"}


def _count_fields(release: ss.PrivateSketch) -> dict[str, Any]:
    """Return the numbers of units and totals of a release that has them."""
    return {name: estimate_fields(one, 0.95, "value") for name, one in published_counts(release).items()}


def _projection_fields(held: Any) -> dict[str, Any]:
    """Return the agreement or projection of a release or a raw sketch."""
    projection: ss.projections.Projection = held.projection
    fields = {"projection": projection.to_json(), "fingerprint": projection.fingerprint}
    agreement = fingerprint_of(held.agreement)
    return fields if agreement is None else fields | {"agreement": agreement}


def _projection_facts(held: Any) -> dict[str, str]:
    """Return the same for people, with a projection as Python writes it."""
    return _projection_fields(held) | {"projection": repr(held.projection)}
