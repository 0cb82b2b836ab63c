"""The library's estimates are those of the reader written from WIRE.md, within the tolerances stated there.

Over the golden releases, and over cells of every size for every golden projection of few cells.
"""

import json
from decimal import Decimal
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.privacy import Mechanism
from streamsketch.privacy.laplace import DiscreteLaplace
from streamsketch.privacy.layout import Layout
from streamsketch.privacy.mechanism import AddedNoise, NoisePlace
from streamsketch.privacy.noise import NoiseMoments
from tests.golden import averages, estimates, exact_numbers, frequencies, interval_ends, laws, reader, sign_estimates
from tests.golden.kit_releases import guarantee, load, projection_fields, projection_of

pytestmark = pytest.mark.filterwarnings("ignore")  # the noise is made up

PROJECTIONS = [one["json"] for one in load("projections") if json.loads(one["json"])["sketch_dim"] <= 100]
PARTS = ("value", "projection_variance", "noise_variance")
GUARANTEE = ss.Guarantee(1.0, 0.0, ss.L1(1), Mechanism.stated("made up"))

each_projection = pytest.mark.parametrize("text", PROJECTIONS, ids=lambda text: json.loads(text)["kind"])


def check(found: Any, expected: exact_numbers.Expected) -> None:
    for part, slack in zip(PARTS, expected.tolerances, strict=True):
        assert abs(Fraction(getattr(found, part)) - Fraction(getattr(expected, part))) <= Fraction(slack), part
    for confidence, method in ((0.95, "normal"), (0.5, "normal"), (0.9, "chebyshev")):
        low, high, within = interval_ends.interval(expected, confidence, method)
        for end, exact in zip(found.interval(confidence, method), (low, high), strict=True):
            assert end == exact or abs(Decimal(end) - exact) <= within, (confidence, method, found)


def message_of(release: ss.PrivateSketch) -> dict[str, Any]:
    return reader.read("PrivateSketch", release.to_bytes())


def releases_of(text: str, place: NoisePlace, bits: int) -> list[ss.PrivateSketch]:
    random = np.random.default_rng(bits)
    projection = ss.projections.Projection.from_json(text)
    return [
        ss.PrivateSketch(
            projection,
            random.integers(-(2**bits), 2**bits, projection.sketch_dim),
            NoiseMoments(7.5 * i, 3.25 * i),
            GUARANTEE,
            noise_place=place,
            multiplier=multiplier,
            release_ids=[bytes([i]) * 8],
        )
        for i, multiplier in enumerate((Fraction(1, 3), Fraction(1, 3), Fraction(-2, 7)))
    ]


@each_projection
@pytest.mark.parametrize("bits", [5, pytest.param(40, marks=pytest.mark.long), 62])
def test_estimates_of_every_projection_and_place(text: str, bits: int) -> None:
    fields = projection_fields(text)
    places: list[NoisePlace] = ["output", "input", "hadamard"] if fields["kind"] == "fjlt" else ["output", "input"]
    for place in places:
        releases = releases_of(text, place, bits)
        messages = [message_of(release) for release in releases]
        for release, message in zip(releases, messages, strict=True):
            check(ss.squared_norm(release), estimates.squared_norm(message))
        for i, j in combinations(range(3), 2):
            pair, read = (releases[i], releases[j]), (messages[i], messages[j])
            check(ss.squared_distance(*pair), estimates.squared_distance(*read))
            check(ss.inner_product(*pair), estimates.inner_product(*read))
            if place == "output" and bits > 5:
                check(ss.cosine(*pair), estimates.cosine(*read))
        table = ss.pairwise(releases[:2])
        check(table[0, 1], estimates.pairwise(messages[:2])[0][1])


@pytest.mark.parametrize("sparsity", [3, 4])
def test_medians_of_more_sizes_than_a_variance_needs(sparsity: int) -> None:
    projection = ss.SJLT(sketch_dim=300, sparsity=sparsity, seed=5, construction="graph", resolution="1/3")
    cells = np.random.default_rng(sparsity).integers(-(10**6), 10**6, 300)
    release = ss.PrivateSketch(projection, cells, NoiseMoments(7.5, 3.25), GUARANTEE, release_ids=[bytes(8)])
    column = projection.columns([17])[:, 0].tolist()
    expected = frequencies.frequency(message_of(release), column, "median")
    found = ss.frequency(release, 17, estimator="median")
    for part, slack in zip(PARTS, expected.expected.tolerances, strict=True):
        assert abs(Fraction(getattr(found, part)) - Fraction(getattr(expected.expected, part))) <= slack, part
    for confidence in (0.95, 0.5):
        low, high, within = frequencies.interval(expected, confidence, "normal")
        for end, exact in zip(found.interval(confidence), (low, high), strict=True):
            assert abs(Decimal(end) - exact) <= within < 1


COUNTED = ss.Guarantee(
    1.0, 0.0, ss.L1(1), Mechanism((AddedNoise(DiscreteLaplace(Fraction(2)), layout=Layout(ss.privacy.Counting(24))),))
)


@each_projection
@pytest.mark.parametrize(("bits", "scale"), [(6, 1), (40, 10)])
def test_averages_of_every_projection(text: str, bits: int, scale: int) -> None:
    """Of numbers of units from far above their error to none; scale is how many times the noise is 1."""
    counts = [24 * 4000 * scale, 24 * 90 * scale, 24 * scale, -5]
    noise = NoiseMoments(float(100 * scale) ** 2, float(100 * scale) ** 4)
    random = np.random.default_rng(bits)
    projection = ss.projections.Projection.from_json(text)
    releases = [
        ss.PrivateSketch(
            projection,
            random.integers(-(2**bits), 2**bits, projection.sketch_dim),
            noise,
            COUNTED,
            release_ids=[bytes([i]) * 8],
            counts=np.array([count]),
        )
        for i, count in enumerate(counts)
    ]
    messages = [message_of(release) for release in releases]
    for release, message in zip(releases, messages, strict=True):
        check_or_refused(ss.estimation.mean_norm, averages.mean_norm, [release], [message])
    for i, j in [(0, 1), (1, 0), (0, 2), (3, 1)]:
        for found, expected in (
            (ss.estimation.mean_distance, averages.mean_distance),
            (ss.estimation.mean_product, averages.mean_product),
        ):
            check_or_refused(found, expected, [releases[i], releases[j]], [messages[i], messages[j]])


def check_or_refused(found: Any, expected: Any, releases: list[ss.PrivateSketch], messages: list[Any]) -> None:
    try:
        known = expected(*messages)
    except exact_numbers.UndefinedError:
        with pytest.raises(ss.InvalidInputError, match="the average is undefined"):
            found(*releases)
    else:
        check(found(*releases), known)


@each_projection
def test_close_vectors_far_from_zero_keep_their_digits(text: str) -> None:
    """Cells near 2^62 that differ by little: where multipliers agree, integers are subtracted."""
    x, y, _ = releases_of(text, "output", 3)
    far = x.values + 2**62 - 1000
    pair = [
        ss.PrivateSketch(x.projection, cells, one.noise, GUARANTEE, release_ids=one.release_ids)
        for one, cells in ((x, far), (y, far + y.values))
    ]
    expected = estimates.squared_distance(*map(message_of, pair))
    check(ss.squared_distance(*pair), expected)
    step = laws.scale_squared(projection_fields(text)) * projection_fields(text)["resolution"] ** 2
    assert expected.tolerances[0] < step  # floats would be off by some hundred steps


@pytest.mark.parametrize("case", load("wire"), ids=lambda case: case["name"])
def test_golden_releases(case: dict[str, Any]) -> None:
    data = bytes.fromhex(case["bytes"])
    release, message = ss.PrivateSketch.from_bytes(data), reader.read("PrivateSketch", data)
    check(ss.squared_norm(release), estimates.squared_norm(message))
    other = ss.PrivateSketch(
        release.projection,
        release.values[::-1].copy(),
        release.noise,
        release.guarantee,
        multiplier=release.multiplier,
        release_ids=[b"\1" * 8],
    )
    check(ss.squared_distance(release, other), estimates.squared_distance(message, message_of(other)))
    check(ss.inner_product(release, other), estimates.inner_product(message, message_of(other)))


@pytest.mark.parametrize("case", load("signs"), ids=lambda case: case["name"])
def test_golden_signs(case: dict[str, Any]) -> None:
    message = reader.read(case["kind"], bytes.fromhex(case["bytes"]))
    flipped = bytearray(message["signs"])
    flipped[0] ^= 0b1101
    other = message | {"signs": bytes(flipped), "release_id": b"\1" * 8}
    check_signs(case["kind"], message, other, (37.5, 22.25))


def check_signs(kind: str, message: dict[str, Any], other: dict[str, Any], norms: tuple[float, float]) -> None:
    read = getattr(ss.signs, kind).from_bytes
    pair = [read(reader.write(kind, one)) for one in (message, other)]
    named = {"norm_x": norms[0], "norm_y": norms[1]}
    assert ss.signs.hamming_distance(*pair) == sign_estimates.hamming(message, other) == 3
    check(ss.signs.angle(*pair, **named), sign_estimates.angle(message, other, norms))
    try:
        expected = sign_estimates.cosine(message, other, norms)
    except exact_numbers.UndefinedError:
        with pytest.raises(ss.InvalidInputError, match="too large to estimate the cosine"):
            ss.signs.cosine(*pair, **named)
    else:
        check(ss.signs.cosine(*pair, **named), expected)


def test_signs_of_maps_whose_cells_move_by_different_steps() -> None:
    """A Gaussian map of few dimensions: eight groups of rows."""
    text = projection_of("gaussian", dim=12, sketch_dim=19)
    levels = guarantee([{"text": "levels"}], neighbours={"kind": "one-coordinate", "bound": Fraction(3)})
    message = {
        "projection": projection_fields(text),
        "signs": b"\x5a\xc3\x01",
        "law": {"shape": "levels", "rate": Fraction(2)},
        "guarantee": levels,
        "release_id": b"\2" * 8,
        "data_ids": [],
    }
    other = message | {"signs": b"\x5a\xc4\x01", "release_id": b"\1" * 8}
    assert len(set(sign_estimates._steps(message))) == 8
    check_signs("SignSketch", message, other, (30.5, 12.25))
