"""What a release would publish and cost, known without the cells: ``release --dry-run``."""

import dataclasses
import functools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import typer

import streamsketch as ss
from streamsketch.cli._releasing import left_fields, times, together
from streamsketch.cli._showing import guarantee_fields, plural, show_result
from streamsketch.core.documents import Json
from streamsketch.explanation.release import explain_release
from streamsketch.planning.noise_floor import NoiseFloor
from streamsketch.privacy.assertions import conditions_of_keys, with_conditions
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.privacy.samplers import SystemBits
from streamsketch.release.additive_noise import CalibratedNoise
from streamsketch.release.agreed_publisher import publisher_of
from streamsketch.release.ready import Stated
from streamsketch.storage.releases import released_before
from streamsketch.storage.sketches import PastRelease, RawHeader, RawSketch, State

_USUAL = 5  # standard deviations of the noise, which cells of a small key stay within


@dataclasses.dataclass(frozen=True)
class DryRun:
    """A release that is described but not made.

    Parameters
    ----------
    file, header
        A raw file, and its header, which is read without the cells. Or an agreement, and the header of no rows.
    agreed
        The agreement by which it is released, by additive noise, of keys that are listed or public.
    assert_bounds, again
        As in `streamsketch.storage.release_raw`.
    """

    file: Path
    header: RawHeader
    agreed: ss.Agreement
    assert_bounds: bool = False
    again: bool = False

    @property
    def public_keys(self) -> Sequence[Any]:
        """The keys that would be published, if they are listed."""
        keys = self.agreed.published_keys
        return keys if isinstance(keys, tuple) else ()

    @functools.cached_property
    def guarantee(self) -> Guarantee:
        """The guarantee of the release; raise `InvalidInputError` if the release would be refused."""
        guarantee: Guarantee = self._calibrated.guarantee
        keys_are_public = self.header.keys is not None and not self.public_keys
        return with_conditions(guarantee, *conditions_of_keys(keys_are_public=keys_are_public))

    @property
    def sketches(self) -> int | None:
        """How many sketches would be published; None where that is known from the rows alone."""
        return 1 if self.header.keys is None else len(self.public_keys) or self.header.keys or None

    @functools.cached_property
    def floor(self) -> NoiseFloor:
        """The length that sums must have to stand out."""
        return NoiseFloor.of(self.header.projection, self._calibrated.noise)

    @property
    def least_units(self) -> float | None:
        """The number of units below which a key's sum cannot be as long as the noise floor; None where it may.

        A sum is no longer than its parts together. If a bound on each unit was enforced, this many units give the
        length that comes out below the floor as often as not.
        """
        neighbours = self.guarantee.neighbours
        if self.guarantee.basis != "enforced" or neighbours.one_coordinate:
            return None
        return self.floor.length() / float(neighbours.bound)

    def facts(self) -> dict[str, str]:
        """Return the release in words."""
        explained, floor, unit = explain_release(self._example), self.floor, self.guarantee.neighbours.unit
        beside = "" if not self._calibrated.layout.is_counted else f", and {' and '.join(self._counted)} with each"
        table = "" if self.header.keys is None else f"; columns {', '.join(self.columns)}"
        length, sure = floor.length(), floor.length(NoiseFloor.sure)
        facts = {
            "published": f"{self._number} of {self.header.projection.sketch_dim:,} cells{beside}; about "
            f"{_bytes(self.bytes)}{table}",
            "guarantee": str(self.guarantee),
            "protected": explained.who,
            "meaning": explained.meaning,
            "noise": " ".join(explained.amount).removesuffix("."),
            "stands out": f"a sum of length {length:,.3g} (ℓ2 norm, in data units) in half of all cases, and one of "
            f"{sure:,.3g} in {100 * (1 - floor.sure):.0f} %;\n"
            "shorter ones are below the noise floor and have no cosine",
        }
        if self.least_units is not None:
            facts["too small"] = (
                f"a sum of fewer than about {plural(math.ceil(self.least_units), unit)}, even if they are all alike; "
                f"otherwise it takes more (`streamsketch plan units --units FILE` computes how many)"
            )
        return facts

    def fields(self) -> Json:
        """Return the release as JSON fields."""
        explained, floor = explain_release(self._example), self.floor
        return {
            "dry_run": True,
            "agreement": self.agreed.fingerprint,
            "sketches": self.sketches,
            "cells": self.header.projection.sketch_dim,
            "bytes": self.bytes,
            "columns": self.columns,
            "guarantee": guarantee_fields(self.guarantee),
            "noise_deviation": explained.noise_deviation,
            "count_errors": explained.count_errors,
            "length_to_stand_out": {"0.5": floor.length(), f"{1 - NoiseFloor.sure:g}": floor.length(NoiseFloor.sure)},
            "least_units": self.least_units,
        }

    @property
    def released_before(self) -> tuple[str, tuple[PastRelease, ...]]:
        """Earlier releases of these data, after a phrase that names them."""
        raw = RawSketch(self._empty, releases=self.header.releases)
        return released_before(raw, self.file)

    def charge(self, ledger: ss.Ledger, dataset: str | None) -> tuple[str, Json, bool]:
        """Return the answer of a ledger in words and as JSON fields, and whether the release fits into the budget."""
        ids = self.header.ids.with_keys(self.public_keys) if self.public_keys else self.header.ids
        try:
            names = ledger.check(dataset, self.guarantee, projection=self.header.projection, data_ids=ids)
        except ss.errors.LedgerError as error:
            return f"would be refused: {error}", {"fits": False, "reason": str(error)}, False
        left = {name: ledger.left(name) for name in names}
        words = "; ".join(f"{self.guarantee.budget} of {name}, which has {rest} left" for name, rest in left.items())
        fields = {"fits": True, "left": {name: left_fields(rest) for name, rest in left.items()}}
        return f"would be charged {words}", fields, True

    @property
    def columns(self) -> list[str]:
        """The columns of the table that would be published; none for one sketch."""
        if self.header.keys is None:
            return []
        names: list[str] = ss.PrivateTable({"": self._example}).to_arrow().schema.names
        return names

    @property
    def bytes(self) -> int:
        """The approximate number of bytes of the file, or of each key, with noise only; longer sums take more."""
        return len(self._example.to_bytes()) * (self.sketches or 1)

    @property
    def _number(self) -> str:
        if self.sketches is None:
            return "for each key of the rows, a sketch"
        return "1 sketch" if self.sketches == 1 else f"{self.sketches:,} sketches"

    @property
    def _counted(self) -> list[str]:
        names = {"units": f"a count of {self.guarantee.neighbours.units}", "total": "a total"}
        return [names[name] for name in explain_release(self._example).count_errors]

    @functools.cached_property
    def _calibrated(self) -> CalibratedNoise:
        publisher = publisher_of(self.agreed).counted_as(self._empty.bounds, self._empty.agreement)
        calibrated: Any = publisher.calibrated(self.header.projection)
        calibrated.check_single()
        guarantee = calibrated.guarantee_for(self._empty, assert_bounds=self.assert_bounds)
        stated: CalibratedNoise = calibrated.with_guarantee(guarantee)
        return stated

    @functools.cached_property
    def _empty(self) -> State:
        """Empty data with the same header, without the sums."""
        return self.header.empty(self.header.bounds)

    @functools.cached_property
    def _example(self) -> ss.PrivateSketch:
        """A sketch as it would be published, with numbers that are not data: all are as large as noise sometimes is."""
        calibrated = self._calibrated
        usual = math.ceil(_USUAL * math.sqrt(calibrated.noise.cumulants.k2))
        numbers = np.full(calibrated.width, usual, dtype=np.int64)
        return calibrated.published(numbers, SystemBits(), Stated(self.header.ids))


def show_dry_run(dry: DryRun, unread: str, ledger: ss.Ledger | None, dataset: str | None, *, as_json: bool) -> None:
    """Print a description of a release; exit with status 1 if it would be refused."""
    facts, fields, refused = dry.facts(), dry.fields(), False
    data, releases = dry.released_before
    if releases:
        total = together([*releases, PastRelease(dry.guarantee, "")])
        facts["before"] = f"{data} released {times(releases)} before; with this one, {total}"
        facts["before"] += "" if dry.again else ". It would be refused without --again"
        fields |= {"released_before": len(releases), "together": total}
        refused = not dry.again
    if ledger is not None:
        facts["ledger"], fields["ledger"], fits = dry.charge(ledger, dataset)
        refused = refused or not fits
    fields["refused"] = refused
    show_result(f"Dry run: {unread}, and nothing is written or charged", facts, fields, as_json=as_json)
    if refused:
        raise typer.Exit(1)


def _bytes(number: int) -> str:
    for size, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if number >= size:
            return f"{number / size:.{0 if number >= 9.95 * size else 1}f} {name}"
    return f"{number} bytes"
