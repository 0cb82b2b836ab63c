"""One root key for all launches of a stream: never in the specification, never another, an epoch a launch."""

import pickle
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.options.value_provider import RuntimeValueProvider, StaticValueProvider
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

import streamsketch as ss
from streamsketch.beam import ReleasePerKey, configure_run, run_secret
from streamsketch.beam.streams import claim_epoch, configure_stream
from streamsketch.beam.streams.secret import StreamSecret
from streamsketch.once.keys import hkdf
from streamsketch.release import AdditiveNoise
from tests.beam.rows import sketch_rows
from tests.beam.running import run

PROJECTION = ss.SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=11)
KEY = bytes(range(32))


def secret(folder: Path, key: Any, epoch: Any = None, stream: str = "test") -> StreamSecret:
    epoch = claim_epoch(str(folder), stream) if epoch is None else epoch
    found = StreamSecret(stream, epoch, str(folder), key)
    return pickle.loads(pickle.dumps(found))  # noqa: S301 - our own


def test_it_is_hkdf() -> None:
    ours = hkdf(KEY, b"one", b"two")
    info = (3).to_bytes(8, "little") + b"one" + (3).to_bytes(8, "little") + b"two"
    assert ours == HKDF(algorithm=SHA256(), length=32, salt=b"streamsketch stream 1", info=info).derive(KEY)


def test_what_bounds_outlives_a_launch_and_noise_does_not(tmp_path: Path, root_key: Path) -> None:
    first = secret(tmp_path, root_key)
    bounds, noise = first.derive("bounds", "a"), first.derive("noise", "a")
    assert len({bounds, noise, first.derive("bounds", "b"), first.derive("noise", "b")}) == 4
    second = secret(tmp_path, root_key)
    assert second.derive("bounds", "a") == bounds
    assert second.derive("data ids", "") == first.derive("data ids", "")
    assert second.derive("noise", "a") != noise
    other = secret(tmp_path, root_key, stream="other")
    assert other.derive("bounds", "a") != bounds


def test_another_root_key_is_refused(tmp_path: Path, root_key: Path) -> None:
    secret(tmp_path, root_key).derive("noise", "a")
    with pytest.raises(ss.InvalidInputError, match="the stream test began with another root key"):
        secret(tmp_path, lambda: KEY).derive("noise", "a")


def test_what_a_process_remembers_is_of_one_key_epoch_stream_and_folder(tmp_path: Path, root_key: Path) -> None:
    """Each is varied alone, in a process that has opened the others."""
    secret(tmp_path, root_key).derive("noise", "a")
    with pytest.raises(ss.InvalidInputError, match="the stream test began with another root key"):
        secret(tmp_path, lambda: KEY, epoch=1).derive("noise", "a")
    with pytest.raises(ss.InvalidInputError, match="has not been claimed"):
        secret(tmp_path, root_key, epoch=2).derive("noise", "a")
    with pytest.raises(ss.InvalidInputError, match="has not been claimed"):
        secret(tmp_path, root_key, epoch=1, stream="other").derive("noise", "a")
    (tmp_path / "elsewhere").mkdir()
    with pytest.raises(ss.InvalidInputError, match="has not been claimed"):
        secret(tmp_path / "elsewhere", root_key, epoch=1).derive("noise", "a")


@pytest.mark.parametrize("epoch", [0, 3, -1, True, "1"])
def test_an_epoch_that_nobody_claimed_is_refused(epoch: Any, tmp_path: Path, root_key: Path) -> None:
    assert [claim_epoch(str(tmp_path), "test") for _ in range(2)] == [1, 2]
    with pytest.raises(ss.InvalidInputError, match="has not been claimed"):
        configure_stream(beam.Pipeline(), stream="test", root_key=root_key, claims=str(tmp_path), epoch=epoch)


def test_an_old_epoch_is_refused_when_the_job_is_built_and_in_the_workers(tmp_path: Path, root_key: Path) -> None:
    old = secret(tmp_path, root_key, epoch=claim_epoch(str(tmp_path), "test"))
    claim_epoch(str(tmp_path), "test")
    with pytest.raises(
        ss.InvalidInputError, match="epoch 1 of the stream test is over, because a later launch claimed epoch 2"
    ):
        configure_stream(beam.Pipeline(), stream="test", root_key=root_key, claims=str(tmp_path), epoch=1)
    with pytest.raises(ss.InvalidInputError, match="is over"):
        old.derive("noise", "a")


def test_a_template_gets_its_epoch_when_it_runs(tmp_path: Path, root_key: Path) -> None:
    claim_epoch(str(tmp_path), "test")
    given = secret(tmp_path, root_key, epoch=StaticValueProvider(int, 1))
    assert given.derive("noise", "a") == secret(tmp_path, root_key, epoch=1).derive("noise", "a")
    later = RuntimeValueProvider("epoch", int, None)
    configure_stream(beam.Pipeline(), stream="test", root_key=root_key, claims=str(tmp_path), epoch=later)


@pytest.mark.parametrize("stream", ["", "a/b", "a.b", "-a", "x" * 65, None])
def test_names_are_file_names(stream: Any, tmp_path: Path, root_key: Path) -> None:
    with pytest.raises(ss.InvalidInputError, match="a stream's name must be"):
        configure_stream(beam.Pipeline(), stream=stream, root_key=root_key, claims=str(tmp_path))


def test_a_pipeline_is_configured_once(tmp_path: Path, root_key: Path) -> None:
    pipeline = beam.Pipeline()
    configure_run(pipeline)
    with pytest.raises(ss.InvalidInputError, match="already has a secret"):
        configure_stream(pipeline, stream="test", root_key=root_key, claims=str(tmp_path))
    with pytest.raises(TypeError, match="would be in the job's specification"):
        configure_stream(beam.Pipeline(), stream="test", root_key=KEY, claims=str(tmp_path))  # type: ignore[arg-type]


def test_the_specification_has_no_secret(tmp_path: Path, root_key: Path) -> None:
    pipeline = beam.Pipeline(options=PipelineOptions(["--runner=FnApiRunner"]))
    configure_stream(pipeline, stream="test", root_key=root_key, claims=str(tmp_path))
    sketches = pipeline | beam.Create([("AA", 1, 1)]) | sketch_rows(PROJECTION)
    sketches | ReleasePerKey(AdditiveNoise(epsilon=1.0, neighbours=ss.L1(1)), public_keys=["AA"])
    specification = pipeline.to_runner_api().SerializeToString()
    found = run_secret(pipeline)
    for hidden in (root_key.read_bytes(), *(found.derive(use, "a") for use in ("bounds", "noise"))):
        assert hidden not in specification
    assert repr(found) == "StreamSecret('test', …)"


def test_bounded_jobs_may_use_it_too(tmp_path: Path, root_key: Path) -> None:
    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        epoch = 1 if list(tmp_path.glob("test.*.epoch")) else None
        configure_stream(pipeline, stream="test", root_key=root_key, claims=str(tmp_path), epoch=epoch)
        sketches = pipeline | beam.Create([("AA", 1, 1)]) | sketch_rows(PROJECTION)
        return sketches | ReleasePerKey(AdditiveNoise(epsilon=1.0, neighbours=ss.L1(1)), public_keys=["AA"])

    (one,), (other,) = (run(build, tmp_path)[0] for _ in range(2))
    assert one == other
