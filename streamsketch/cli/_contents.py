"""What is in a file of sketches, and how this machine hashes."""

import dataclasses
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import streamsketch as ss
from streamsketch.agreement.same import fingerprint_of
from streamsketch.cli._layout import show, show_facts, table_of
from streamsketch.cli._reading import load_raw_file
from streamsketch.cli._showing import estimate_fields, guarantee_fields, plural, show_result
from streamsketch.core.documents import Json
from streamsketch.estimation.counts import published_counts
from streamsketch.estimation.estimate import interval_text

if TYPE_CHECKING:
    from streamsketch.signs.sketch import Signs
    from streamsketch.storage.sketches import RawSketch


class Contents(NamedTuple):
    """What a file holds."""

    title: str
    facts: dict[str, str]
    """For people."""
    fields: Json
    """For programs."""
    columns: dict[str, list[str]] | None = None
    """The keys of a table, for people."""

    def show(self) -> None:
        """Print it for people."""
        show_facts(self.title, self.facts)
        if self.columns is not None:
            show(table_of(self.columns))


def show_system(*, as_json: bool) -> None:
    """Print how this machine hashes."""
    import numba  # noqa: PLC0415 - files are read without it

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


def contents_of(file: Path, published: Any) -> Contents:
    """Return what a file of releases, or of published signs, holds."""
    if isinstance(published, ss.PrivateTable):
        return _of_table(file, published)
    return _of_release(file, published) if isinstance(published, ss.PrivateSketch) else _of_signs(file, published)


def _of_release(file: Path, release: ss.PrivateSketch) -> Contents:
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
        "release_ids": [release_id.hex() for release_id in release.release_ids],
    }
    counts = {
        name: f"{estimate}, 95 % interval {interval_text(estimate)}"
        for name, estimate in published_counts(release).items()
    }
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
    return Contents(str(file), facts, fields)


def _of_signs(file: Path, published: "Signs | ss.signs.SignTable") -> Contents:
    individual = isinstance(published, ss.signs.IndividualSignSketch)
    kind = "individual differential privacy" if individual else "differential privacy"
    projection = published.projection
    fields: Json = {"file": str(file), "secret": False, "kind": kind, **_projection_fields(published)}
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
    return Contents(str(file), facts | {"size": f"{file.stat().st_size:,} bytes"}, fields)


def _sign_fields(release: "Signs") -> Json:
    return {"guarantee": str(release.guarantee), "release_ids": [release.release_id.hex()]}


def _of_table(file: Path, releases: ss.PrivateTable) -> Contents:
    norms = {} if _is_row(releases) else {key: ss.squared_norm(release) for key, release in releases.items()}
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
    fields = {"file": str(file), "secret": False, **_projection_fields(releases), "releases": rows}
    facts = {
        "guarantee": str(releases.guarantee),
        **_projection_facts(releases),
        "keys": f"{len(releases):,}",
        **_history_facts(releases),
        "size": f"{file.stat().st_size:,} bytes",
    }
    columns = {"key": [str(key) for key in releases]}
    if norms:
        columns["squared norm"] = [str(norm) for norm in norms.values()]
        columns["95 % interval"] = [interval_text(norm) for norm in norms.values()]
    counts = [published_counts(release) for release in releases.values()]
    for name in ("units", "total"):
        if any(name in row for row in counts):
            columns[name] = [str(row.get(name, "")) for row in counts]
    return Contents(str(file), facts, fields, columns)


def raw_contents(file: Path) -> Contents:
    """Return what a raw file holds, without its sums."""
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
    return Contents(str(file), facts, fields)


def _is_row(published: ss.PrivateSketch | ss.PrivateTable) -> bool:
    """Return whether a release is a row of a schedule, for which there are no estimates."""
    return published.history is not None and published.history.is_row


def _history_fields(release: ss.PrivateSketch) -> Json:
    """Return which part of a history a release is, if it is one."""
    part = release.history
    return {} if part is None else {"history": dataclasses.asdict(part) | {"id": part.id.hex()}}


def _history_facts(published: ss.PrivateSketch | ss.PrivateTable) -> dict[str, str]:
    part = published.history
    if part is None:
        return {}
    sentence = ", which alone is not a stream: ranges are read from all rows" if part.is_row else ", solved from rows"
    return {"part of a history": f"{part} of history {part.id.hex()}{sentence}"}


def _count_fields(release: ss.PrivateSketch) -> Json:
    """Return the numbers of units and totals of a release that has them."""
    return {name: estimate_fields(estimate, 0.95, "value") for name, estimate in published_counts(release).items()}


def _projection_fields(held: Any) -> Json:
    """Return the agreement or projection of a release or a raw sketch."""
    projection: ss.projections.Projection = held.projection
    fields = {"projection": projection.to_json(), "fingerprint": projection.fingerprint}
    agreement = fingerprint_of(held.agreement)
    return fields if agreement is None else fields | {"agreement": agreement}


def _projection_facts(held: Any) -> dict[str, str]:
    """Return the same for people, with a projection as Python writes it."""
    return _projection_fields(held) | {"projection": repr(held.projection)}
