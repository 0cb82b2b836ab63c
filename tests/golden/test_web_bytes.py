"""What the TypeScript package writes, this library reads; and from the same secret bits it writes the same."""

import io
import json
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.errors import WeakGuaranteeWarning
from streamsketch.local import MeanAggregator, Mechanism, Report
from streamsketch.release.checking.release import check_release
from streamsketch.wire.parquet_pages import read_footer
from streamsketch.wire.plain_parquet import rows_of
from tests.golden.web_rows import KnownBits

WRITTEN: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "web/tests/written.json").read_text(encoding="utf-8")
)


NAMES = [one["name"] for one in WRITTEN if one["kind"] == "PrivateSketch"]


def of(kind: str) -> Any:
    return pytest.mark.parametrize("case", [one for one in WRITTEN if one["kind"] == kind], ids=lambda one: one["name"])


@of("PrivateSketch")
def test_releases_of_phones_are_read(case: dict[str, Any]) -> None:
    data = bytes.fromhex(case["bytes"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakGuaranteeWarning)
        release = ss.PrivateSketch.from_bytes(data)
    assert release.to_bytes() == data
    assert release.projection == ss.projections.Projection.from_json(case["projection"])
    assert check_release(release).verdict == "enough"
    added = release.guarantee.mechanism.the_noise
    assert added is not None
    assert release.guarantee.epsilon == case["epsilon"]
    assert release.guarantee.neighbours == ss.L1(Fraction(case["bound"]), unit="purchase")
    assert len(release.data_ids) == 16


@of("PrivateSketch")
def test_their_cells_are_those_of_this_library(case: dict[str, Any]) -> None:
    """From the same bits: an id of 16 bytes, and then the noise."""
    release = ss.PrivateSketch.from_bytes(bytes.fromhex(case["bytes"]))
    sketch, bits = release.projection.sketch(), KnownBits(NAMES.index(case["name"]))
    items, values = zip(*case["items"], strict=True)
    sketch.update(list(items), list(values))
    bits.read(16)
    added = release.guarantee.mechanism.the_noise
    assert added is not None
    noise = added.noise.sample(release.projection.sketch_dim, bits)
    assert release.values.tolist() == (sketch.state() + noise).tolist()


@of("PrivateSketch")
def test_the_noise_is_that_of_this_library(case: dict[str, Any]) -> None:
    """The scale, rounded up where it has too many digits."""
    projection = ss.projections.Projection.from_json(case["projection"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakGuaranteeWarning)
        release = projection.sketch().release(epsilon=case["epsilon"], neighbours=ss.L1(Fraction(case["bound"])))
    added = release.guarantee.mechanism.the_noise
    assert added is not None
    assert str(added.noise).removeprefix("discrete Laplace, scale ") == case["scale"]
    own = ss.PrivateSketch.from_bytes(bytes.fromhex(case["bytes"]))
    assert own.noise.k2 == pytest.approx(release.noise.k2, rel=1e-12)


@of("LocalReport")
def test_reports_are_those_of_this_library(case: dict[str, Any]) -> None:
    """Seeds are equal, and floats up to the rounding of sums, whose order is not part of the format."""
    mechanism = Mechanism.from_json(case["mechanism"])
    report = Report.from_bytes(bytes.fromhex(case["bytes"]), mechanism)
    own = mechanism.randomize(np.array(case["vector"]), bits=KnownBits(case["seed"]))
    assert report.seed == own.seed
    step = 2.0**-9 if mechanism.to_json().count("float16") else 2.0**-22
    found, expected = (np.asarray(one.values, dtype=np.float64) for one in (report, own))
    assert np.abs(found - expected).max() <= step * np.abs(expected).max()


@of("LocalReport")
def test_servers_add_them(case: dict[str, Any]) -> None:
    mechanism = Mechanism.from_json(case["mechanism"])
    server = MeanAggregator(mechanism)
    server.add(Report.from_bytes(bytes.fromhex(case["bytes"]), mechanism))
    assert server.count == 1


@of("LocalMean")
def test_means_are_read(case: dict[str, Any]) -> None:
    server = MeanAggregator.from_bytes(bytes.fromhex(case["bytes"]))
    assert (server.count, server.mechanism.to_json()) == (case["count"], case["mechanism"])
    assert server.to_bytes() == bytes.fromhex(case["bytes"])
    assert server.mean() == pytest.approx(case["mean"], rel=1e-12, abs=1e-12)


@of("PrivateTable")
def test_tables_are_read(case: dict[str, Any]) -> None:
    """With Arrow and without it."""
    data = bytes.fromhex(case["bytes"])
    table = ss.PrivateTable.from_bytes(data)
    assert [str(key) for key in table] == case["keys"]
    assert [release.to_bytes().hex() for release in table.values()] == case["releases"]
    with io.BytesIO(data) as file:
        footer = read_footer(file, len(data), len(data))
        plain = dict(rows_of(file, footer, ("key", "sketch")))
    assert [str(key) for key in plain] == case["keys"]
    assert [release.hex() for release in plain.values()] == case["releases"]
