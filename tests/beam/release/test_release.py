"""Releases through Beam: once each, for public keys only, whatever the runner repeats."""

import dataclasses
import pickle
from collections import defaultdict
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.transforms import trigger
from apache_beam.transforms.display import DisplayData

import streamsketch as ss
from streamsketch.beam import PrivateSketchCoder, ReleasePerKey
from streamsketch.beam.run import runs
from streamsketch.release import AdditiveNoise
from streamsketch.release.ready import Ready
from tests.beam.rows import sketch_rows
from tests.beam.running import run
from tests.noise_alone import assert_noise_alone

PROJECTION = ss.SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=11)
PRIVACY: dict[str, Any] = {"epsilon": 1.0, "neighbours": ss.L1(1, unit="visit")}
NOISE = AdditiveNoise(epsilon=1.0, neighbours=ss.L1(1, unit="visit"))
EVENTS = [("AA", (index, 1)) for index in range(30)] + [("UA", (7, 5)), ("hidden", (8, 1))]


def sketches(pipeline: beam.Pipeline) -> beam.PCollection:
    return pipeline | beam.Create(EVENTS) | sketch_rows(PROJECTION)


def made(epsilon: float = 1.0, delta: float = 0.0, mechanism: str = "auto", **arguments: Any) -> ReleasePerKey:
    noise = AdditiveNoise(epsilon=epsilon, delta=delta, mechanism=mechanism, neighbours=PRIVACY["neighbours"])
    return ReleasePerKey(noise, **arguments)


def released(tmp_path: Path, *options: str, **arguments: Any) -> tuple[list[Any], dict[str, int]]:
    return run(lambda pipeline: sketches(pipeline) | ReleasePerKey(NOISE, **arguments), tmp_path, *options)


def distinct_bytes(found: list[tuple[str, ss.PrivateSketch]]) -> dict[str, set[bytes]]:
    images = defaultdict(set)
    for key, release in found:
        images[key].add(release.to_bytes())
    return images


def test_a_repeated_noise_step_draws_the_same_noise(tmp_path: Path) -> None:
    found, _ = released(tmp_path, "--direct_runner_bundle_repeat=2", public_keys=["AA", "UA"])
    assert len(found) == 6
    assert {key: len(images) for key, images in distinct_bytes(found).items()} == {"AA": 1, "UA": 1}


def test_repeated_bundles_publish_identical_bytes(tmp_path: Path) -> None:
    found, _ = released(tmp_path, "--direct_runner_bundle_repeat=2", public_keys=["AA", "UA"])
    assert len(found) == 6, "the sink sees every repetition"
    assert {key: len(images) for key, images in distinct_bytes(found).items()} == {"AA": 1, "UA": 1}


def test_the_same_check_catches_fresh_noise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = Ready.draw
    monkeypatch.setattr(Ready, "draw", lambda ready, _: draw(ready))
    found, _ = released(tmp_path, "--direct_runner_bundle_repeat=2", public_keys=["AA", "UA"])
    assert max(len(images) for images in distinct_bytes(found).values()) == 3


def test_every_run_draws_its_own_noise(tmp_path: Path) -> None:
    (first, _), (second, _) = (released(tmp_path, public_keys=["UA"]) for _ in range(2))
    assert first[0][1] != second[0][1]


def test_keys_share_no_noise_even_with_equal_streams(tmp_path: Path) -> None:
    found, _ = released(tmp_path, public_keys=["no data", "none here"])
    (_, one), (_, other) = found
    assert not np.array_equal(one.values, other.values)
    ss.squared_distance(one, other)  # would raise on shared noise


def test_exactly_the_public_keys_are_released(tmp_path: Path) -> None:
    found, counters = released(tmp_path, public_keys=["AA", "UA", "ZZ"])
    assert sorted(key for key, _ in found) == ["AA", "UA", "ZZ"]
    assert counters == {"releases": 3}


def test_a_key_without_data_is_noise_alone(tmp_path: Path) -> None:
    found, _ = released(tmp_path, public_keys=["ZZ"])
    ((_, release),) = found
    assert release.noise == PROJECTION.sketch().release(**PRIVACY).noise
    assert_noise_alone(release.values, release.noise.k2)


def test_the_noise_is_that_of_a_release_by_hand(tmp_path: Path) -> None:
    found, _ = released(tmp_path, keys_are_public=True)
    assert sorted(key for key, _ in found) == ["AA", "UA", "hidden"]
    by_hand = PROJECTION.sketch().release(**PRIVACY)
    for _, release in found:
        assert release.guarantee.conditions == ("the keys are public",)
        assert dataclasses.replace(release.guarantee, conditions=()) == by_hand.guarantee
        assert release.noise == by_hand.noise
        assert release.projection == PROJECTION


def test_numpy_keys_are_their_plain_selves(tmp_path: Path) -> None:
    found, _ = released(tmp_path, public_keys=np.array(["AA", "ZZ"]))
    assert sorted(key for key, _ in found) == ["AA", "ZZ"]
    assert {type(key) for key, _ in found} == {str}


def test_sketches_of_another_projection_than_agreed_are_refused(tmp_path: Path) -> None:
    for keys in ({"public_keys": ["AA"]}, {"keys_are_public": True}):
        with pytest.raises(ss.errors.IncompatibleProjectionsError, match="seed"):
            released(tmp_path, projection=PROJECTION.replace(seed=12), **keys)


def test_dropped_and_empty_keys_are_counted_when_asked(tmp_path: Path) -> None:
    _, counters = released(tmp_path, public_keys=["AA", "UA", "ZZ"], count_private_data=True)
    assert counters == {"releases": 3, "keys_dropped": 1, "keys_without_data": 1}


def test_no_data_at_all_is_released_as_some_data_are(tmp_path: Path) -> None:
    found, _ = run(
        lambda pipeline: (
            pipeline | beam.Create([]) | sketch_rows(PROJECTION) | ReleasePerKey(NOISE, public_keys=["AA"])
        ),
        tmp_path,
    )
    assert [key for key, _ in found] == ["AA"]


@pytest.mark.parametrize("data", [[], [("AA", PROJECTION.sketch())]], ids=["no data", "data"])
@pytest.mark.parametrize("keys", [{"public_keys": ["AA"]}, {"keys_are_public": True}], ids=str)
def test_a_projection_that_only_the_data_know_is_asked_for_before_the_job_runs(
    data: list[Any], keys: dict[str, Any]
) -> None:
    sketches = beam.Pipeline(runner="FnApiRunner") | beam.Create(data)
    with pytest.raises(ss.InvalidInputError, match="pass projection="):
        sketches | ReleasePerKey(NOISE, **keys)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "which keys have data is private"),
        ({"public_keys": ["a"], "keys_are_public": True}, "pass exactly one of"),
        ({"public_keys": []}, "empty"),
        ({"public_keys": "AA"}, "a collection"),
        ({"public_keys": [1.0]}, "text, bytes or integers, got float"),
        ({"public_keys": [True, 2]}, "got bool"),
        ({"public_keys": ["AA", None]}, "got NoneType"),
        ({"public_keys": [["AA"]]}, "got list"),
        ({"public_keys": ["a"], "epsilon": 0.0}, "epsilon must be"),
        ({"public_keys": ["a"], "delta": 1.0}, "delta must be"),
        ({"public_keys": ["a"], "mechanism": "gaussian"}, "never gives delta = 0"),
        ({"public_keys": ["a"], "mechanism": "geometric"}, "mechanism must be one of"),
    ],
)
def test_mistakes_are_found_before_the_job_runs(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ss.InvalidInputError, match=message):
        made(**arguments)


def test_neighbours_must_be_said() -> None:
    with pytest.raises(TypeError, match="neighbours"):
        ReleasePerKey(AdditiveNoise(epsilon=1.0, neighbours=1), public_keys=["a"])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("windowing", "message"),
    [
        (beam.WindowInto(beam.window.FixedWindows(10)), r"pply TumblingWindows"),
        (
            beam.WindowInto(
                beam.window.GlobalWindows(),
                trigger=trigger.Repeatedly(trigger.AfterCount(1)),
                accumulation_mode=trigger.AccumulationMode.DISCARDING,
            ),
            "may fire again",
        ),
    ],
)
def test_windows_that_could_publish_twice_are_refused(windowing: beam.WindowInto, message: str) -> None:
    pipeline = beam.Pipeline(runner="FnApiRunner")
    keyed = pipeline | beam.Create([("a", PROJECTION.sketch())]) | windowing
    with pytest.raises(ss.InvalidInputError, match=message):
        keyed | ReleasePerKey(NOISE, public_keys=["a"])


def test_the_secret_shows_nowhere() -> None:
    secret = runs.RunSecret(b"s" * 32, b"", None)
    shown = str(DisplayData.create_from(ReleasePerKey(NOISE, public_keys=["a"])).items)
    assert "ssss" not in repr(secret) + str(secret) + f"{[secret]}"
    assert "epsilon" in shown


def test_releases_travel_in_the_exchange_format() -> None:
    coder = beam.coders.registry.get_coder(ss.PrivateSketch)
    assert isinstance(coder, PrivateSketchCoder)
    assert coder.is_deterministic()
    release = PROJECTION.sketch().release(**PRIVACY)
    assert coder.encode(release) == release.to_bytes()
    assert coder.decode(coder.encode(release)) == release
    assert pickle.loads(pickle.dumps(release)) == release  # noqa: S301 - our own bytes
