"""``streamsketch inspect``: what a file holds and what it promises."""

import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

import streamsketch as ss
from streamsketch.cli._reading import (
    SIGNS,
    TABLE,
    holds_signs,
    load_raw_file,
    load_release,
    load_signs_of,
    load_table,
)
from streamsketch.cli._showing import (
    Json,
    counted,
    estimate_fields,
    guarantee_fields,
    interval_text,
    show,
    show_facts,
    show_json,
    table_of,
)
from streamsketch.release import SUFFIX, RawSketch, is_raw
from streamsketch.signs import Signs

_NOISE = {
    "output": "noise per cell",
    "input": "noise per coordinate",
    "hadamard": "noise after Hadamard",
}


def inspect(
    file: Annotated[
        Path | None, typer.Argument(help="a .sketch, .signs, .parquet or .raw-sketch file", metavar="FILE")
    ] = None,
    *,
    system: Annotated[bool, typer.Option("--system", help="Show this machine instead: how it hashes.")] = False,
    as_json: Json = False,
) -> None:
    """Show what a file of sketches holds and what it promises."""
    if system == (file is not None):
        raise typer.BadParameter("name one file, or give --system")
    if file is None:
        _inspect_system(as_json=as_json)
    elif file.suffix == SIGNS or (file.is_file() and holds_signs(file)):
        _inspect_signs(file, as_json=as_json)
    elif file.suffix == TABLE:
        _inspect_table(file, as_json=as_json)
    elif file.suffix == SUFFIX or (file.is_file() and is_raw(file)):
        _inspect_raw(file, as_json=as_json)
    else:
        _inspect_release(file, as_json=as_json)


def _inspect_system(*, as_json: bool) -> None:
    import numba  # noqa: PLC0415 - files are inspected without it

    from streamsketch.core import carryless  # noqa: PLC0415 - as above

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
    if as_json:
        show_json(facts)
        return
    if hashing == carryless.PLAIN:
        facts["hashing"] += ": slow; Numba compiles for a processor without carry-less multiplication"
    show_facts("this machine, as Numba sees it", facts)


def _inspect_release(file: Path, *, as_json: bool) -> None:
    release = load_release(file)
    projection = release.projection
    try:
        norm = ss.squared_norm(release)
    except ss.StreamsketchError as error:
        raise ss.InvalidInputError(f"{file} holds numbers beyond use: {error}") from None
    if as_json:
        show_json(
            {
                "file": str(file),
                "secret": False,
                "guarantee": guarantee_fields(release.guarantee),
                **_projection_fields(projection),
                "noise_place": release.noise_place,
                "noise_standard_deviation": release.noise.k2**0.5,
                "unit": release.unit,
                "squared_norm": estimate_fields(norm, 0.95, "value"),
                "release_ids": [one.hex() for one in release.release_ids],
            }
        )
        return
    facts = {
        "promise": str(release.guarantee),
        "projection": projection.to_json(),
        "fingerprint": projection.fingerprint,
        "cells": f"{projection.sketch_dim}, unit {release.unit:.6g}",
        _NOISE[release.noise_place]: f"standard deviation {release.noise.k2**0.5:.4g} grid steps",
        "squared norm": f"{norm}, 95 % interval {interval_text(norm)}",
        "releases inside": str(len(release.release_ids)),
        "size": f"{file.stat().st_size:,} bytes",
    }
    show_facts(str(file), facts)


def _inspect_signs(file: Path, *, as_json: bool) -> None:
    published = load_signs_of(file)
    if not published:
        raise ss.InvalidInputError(f"{file} is a table of sign sketches without a row")
    one, is_table = next(iter(published.values())), file.suffix == TABLE
    individual = isinstance(one, ss.signs.IndividualSignSketch)
    kind = "individual differential privacy" if individual else "differential privacy"
    if as_json:
        told: dict[str, Any] = {"file": str(file), "secret": False, "kind": kind, **_projection_fields(one.projection)}
        rows = [{"key": str(key), **_sign_fields(release)} for key, release in published.items()]
        show_json(told | ({"releases": rows} if is_table else _sign_fields(one)))
        return
    facts = {
        "promise": "\n".join(dict.fromkeys(str(release.guarantee) for release in published.values())),
        "kind": kind,
        "projection": one.projection.to_json(),
        "fingerprint": one.projection.fingerprint,
        "signs": f"{one.projection.sketch_dim}",
    }
    if isinstance(one, ss.signs.SignSketch) and not is_table:
        facts["noise"] = str(one.law)
    if is_table:
        facts["keys"] = f"{len(published):,}"
    show_facts(str(file), facts | {"size": f"{file.stat().st_size:,} bytes"})


def _sign_fields(release: Signs) -> dict[str, Any]:
    return {"guarantee": str(release.guarantee), "release_ids": [release.release_id.hex()]}


def _inspect_table(file: Path, *, as_json: bool) -> None:
    releases = load_table(file)
    if not releases:
        raise ss.InvalidInputError(f"{file} is a table of sketches without a row")
    projection = next(iter(releases.values())).projection
    norms = {key: ss.squared_norm(release) for key, release in releases.items()}
    if as_json:
        rows = [
            {
                "key": str(key),
                "guarantee": guarantee_fields(release.guarantee),
                "squared_norm": estimate_fields(norms[key], 0.95, "value"),
            }
            for key, release in releases.items()
        ]
        show_json({"file": str(file), "secret": False, **_projection_fields(projection), "releases": rows})
        return
    promises = list(dict.fromkeys(str(release.guarantee) for release in releases.values()))
    show_facts(
        str(file),
        {
            "promise": "\n".join(promises),
            "projection": projection.to_json(),
            "fingerprint": projection.fingerprint,
            "keys": f"{len(releases):,}",
            "size": f"{file.stat().st_size:,} bytes",
        },
    )
    columns = {
        "key": [str(key) for key in releases],
        "squared norm": [str(norm) for norm in norms.values()],
        "95 % interval": [interval_text(norm) for norm in norms.values()],
    }
    show(table_of(columns))


def _inspect_raw(file: Path, *, as_json: bool) -> None:
    raw: RawSketch = load_raw_file(file)
    keys = len(raw.state) if isinstance(raw.state, ss.SketchTable) else None
    if as_json:
        show_json(
            {
                "file": str(file),
                "secret": True,
                **_projection_fields(raw.projection),
                "events": raw.events,
                "keys": keys,
                "releases": [guarantee_fields(past.guarantee) for past in raw.releases],
            }
        )
        return
    facts = {
        "SECRET": "a raw sketch without noise: do not share it, or what is printed here",
        "projection": raw.projection.to_json(),
        "fingerprint": raw.projection.fingerprint,
        "holds": counted(raw.events, "event") + ("" if keys is None else f" of {counted(keys, 'key')}"),
        "released before": "\n".join(str(past.guarantee) for past in raw.releases) or "never",
        "size": f"{file.stat().st_size:,} bytes",
    }
    show_facts(str(file), facts)


def _projection_fields(projection: ss.Projection) -> dict[str, Any]:
    return {"projection": projection.to_json(), "fingerprint": projection.fingerprint}
