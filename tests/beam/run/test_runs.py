"""Secrets of runs: drawn by each run, repeated by its retries, in no specification."""

import os
import pickle
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.options.value_provider import RuntimeValueProvider, StaticValueProvider
from apache_beam.runners.portability.flink_runner import FlinkRunner

import streamsketch as ss
from streamsketch.beam import (
    FinishRun,
    ReleasePerKey,
    SelectKeys,
    configure_run,
)
from streamsketch.beam.run import claims, runs
from streamsketch.beam.run.runs import RunSecret
from streamsketch.once import root_keys
from streamsketch.privacy import Budget
from streamsketch.privacy.key_selection import key_threshold
from streamsketch.release import AdditiveNoise
from tests.beam.rows import bound_rows, sketch_rows
from tests.beam.running import append_to, recorded

PROJECTION = ss.SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=11)
NOISE = AdditiveNoise(epsilon=1.0, neighbours=ss.L1(1, unit="visit"))
EVENTS = [("AA", 1, 1), ("UA", 7, 5)]
KEY = bytes(range(32))

Build = Callable[[beam.Pipeline], beam.PCollection]


def noise(pipeline: beam.Pipeline, **keys: Any) -> beam.PCollection:
    sketches = pipeline | beam.Create(EVENTS) | sketch_rows(PROJECTION)
    return sketches | ReleasePerKey(NOISE, **(keys or {"public_keys": ["AA", "UA"]})) | beam.Values()


def flips(pipeline: beam.Pipeline) -> beam.PCollection:
    publish = ss.signs.DPSignLogistic(epsilon=1.0, neighbours=ss.L1(1))
    sketches = pipeline | beam.Create(EVENTS) | sketch_rows(PROJECTION)
    return sketches | ReleasePerKey(publish, public_keys=["AA", "UA"]) | beam.Values()


def crowd(pipeline: beam.Pipeline) -> beam.PCollection:
    rows = [(unit, key, unit, 1) for unit in range(60) for key in "abcd"]
    return pipeline | beam.Create(rows) | bound_rows(PROJECTION, unit="visitor", max_keys=2, l1=1, shards=1)


def cuts(pipeline: beam.Pipeline) -> beam.PCollection:
    return (
        crowd(pipeline)
        | sketch_rows(PROJECTION)
        | beam.MapTuple(lambda key, sketch: f"{key} {sketch.state().tolist()}")
    )


def choices(pipeline: beam.Pipeline) -> beam.PCollection:
    threshold = key_threshold(Budget(7.5, 1e-9), 30).threshold
    rows = [(unit, f"key {number}", 1, 1) for number in range(30) for unit in range(threshold)]
    events = pipeline | beam.Create(rows)
    events |= bound_rows(PROJECTION, unit="visitor", max_keys=30, l1=1, shards=1)
    return events | SelectKeys(epsilon=7.5, delta=1e-9)  # each key is in with chance 0.56


@pytest.fixture
def repeat(tmp_path: Path) -> Callable[..., list[set[Any]]]:
    """Run one built pipeline several times; return what its last step saw in each run."""

    def run(build: Build, *options: str, times: int = 2, **arguments: Any) -> list[set[Any]]:
        sink = tmp_path / "elements"
        pipeline = beam.Pipeline(options=PipelineOptions(["--runner=FnApiRunner", *options]))
        if arguments:
            configure_run(pipeline, **arguments)
        build(pipeline) | "Record" >> beam.Map(append_to, str(sink))
        found = []
        for _ in range(times):
            sink.unlink(missing_ok=True)
            pipeline.run().wait_until_finish()
            found.append({one if isinstance(one, str | bool) else one.to_bytes() for one in recorded(sink)})
        return found

    return run


@pytest.mark.parametrize("build", [noise, flips])
def test_every_run_of_one_pipeline_publishes_anew(build: Build, repeat: Callable[..., Any]) -> None:
    first, second = repeat(build)
    assert len(first) == len(second) == 2
    assert not first & second


def test_every_run_of_one_pipeline_cuts_and_chooses_anew(repeat: Callable[..., Any]) -> None:
    """Two runs agree by chance with probability below 2e-9: 60 units choose among 4 keys, 30 keys are on the edge."""
    for build in (cuts, choices):
        first, second = repeat(build)
        assert first != second


def test_the_same_check_catches_a_secret_of_the_specification(
    repeat: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    fixed = runs.RunSecret(KEY, b"", None)
    monkeypatch.setattr(runs.DrawRuns, "process", lambda *_: iter([(b"", fixed)]))
    first, second = repeat(noise)
    assert first == second


@pytest.mark.parametrize("build", [noise, flips])
def test_retries_of_each_run_publish_the_same(build: Build, repeat: Callable[..., Any]) -> None:
    first, second = repeat(build, "--direct_runner_bundle_repeat=2")
    assert len(first) == len(second) == 2
    assert not first & second


def test_two_releases_of_one_pipeline_share_no_noise(repeat: Callable[..., Any]) -> None:
    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        sketches = pipeline | beam.Create(EVENTS) | sketch_rows(PROJECTION)
        both = [sketches | name >> ReleasePerKey(NOISE, public_keys=["AA"]) for name in ("one", "other")]
        return both | beam.Flatten() | beam.Values()

    (found,) = repeat(build, times=1)
    assert len(found) == 2


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Record what is drawn from the operating system."""
    found: list[bytes] = []

    def token_bytes(size: int) -> bytes:
        found.append(os.urandom(size))
        return found[-1]

    for module in (runs, claims):
        monkeypatch.setattr(module, "secrets", types.SimpleNamespace(token_bytes=token_bytes, token_hex=lambda _: "id"))
    return found


@pytest.mark.parametrize(
    ("build", "root_key"), [(noise, None), (noise, "THE_KEY"), (flips, "THE_KEY"), (cuts, None), (choices, "THE_KEY")]
)
def test_the_specification_carries_no_secret(
    build: Build, root_key: str | None, drawn: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_KEY", KEY.hex())
    pipeline = beam.Pipeline(runner="FnApiRunner")
    configure_run(pipeline, root_key=root_key)
    build(pipeline)
    specification = pipeline.to_runner_api().SerializeToString()
    assert drawn == [], "nothing is drawn before the job runs"
    assert KEY not in specification
    assert KEY.hex().encode() not in specification
    pipeline.run().wait_until_finish()
    assert len(drawn) == 1, "one nonce for all transforms"


def test_with_claims_the_specification_carries_a_token_that_is_no_secret(tmp_path: Path, drawn: list[bytes]) -> None:
    pipeline = beam.Pipeline(runner="FnApiRunner")
    configure_run(pipeline, claims=str(tmp_path), run_id="today")
    noise(pipeline)
    pipeline.run().wait_until_finish()
    claim = claims.Claim.decode((tmp_path / "today.claim").read_bytes(), "")
    assert claim.nonce == drawn[-1]
    assert claim.launch in drawn[:-1]
    assert {len(token) for token in drawn} == {16, 32}


# --- root keys ------------------------------------------------------------------------------------------------


def in_file(tmp_path: Path, content: bytes = KEY, mode: int = 0o600) -> Path:
    path = tmp_path / "root.key"
    path.write_bytes(content)
    path.chmod(mode)
    return path


def test_a_root_key_is_in_a_file_a_variable_or_what_a_function_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_KEY", KEY.hex())
    for content in (KEY, f"{KEY.hex()}\n".encode()):
        assert root_keys.fetch_root_key(in_file(tmp_path, content)) == KEY
    assert root_keys.fetch_root_key("THE_KEY") == root_keys.fetch_root_key(lambda: bytes(range(32))) == KEY


def test_a_root_key_is_fetched_by_the_workers(repeat: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_KEY", KEY.hex())
    first, second = repeat(noise, "--direct_runner_bundle_repeat=1", root_key="THE_KEY")
    assert len(first) == len(second) == 2
    assert not first & second


def test_secrets_depend_on_nonce_root_key_use_and_label() -> None:
    def derived(nonce: bytes, key: bytes | None, use: str, label: str) -> bytes:
        if key is None:
            return runs.RunSecret(nonce, b"", None).derive(use, label)
        return runs.RunSecret(nonce, root_keys.key_fingerprint(key), lambda: key).derive(use, label)

    other = bytes([7] * 32)
    cases = [
        (KEY, None, "noise", "a"), (other, None, "noise", "a"), (KEY, KEY, "noise", "a"), (KEY, other, "noise", "a"),
        (other, KEY, "noise", "a"), (KEY, None, "keys", "a"), (KEY, None, "noise", "b"), (KEY, None, "noisea", ""),
    ]  # fmt: skip
    assert len({derived(*case) for case in cases}) == len(cases)
    assert derived(*cases[3]) == derived(*cases[3])


def test_a_worker_with_another_root_key_is_refused() -> None:
    secret = runs.RunSecret(os.urandom(32), root_keys.key_fingerprint(KEY), lambda: bytes(32))
    with pytest.raises(ss.InvalidInputError, match="a root key other than"):
        secret.derive("noise", "a")


@pytest.mark.parametrize(
    ("content", "mode", "message"),
    [
        (KEY, 0o604, "set its mode to 0600"),
        (KEY[:31], 0o600, "does not hold a root key"),
        (KEY + b"\n", 0o600, "does not hold a root key"),
        (KEY.hex().encode()[:-2], 0o600, "does not hold a root key"),
        ("é".encode() * 32, 0o600, "does not hold a root key"),
    ],
)
def test_files_that_hold_no_root_key_are_refused(content: bytes, mode: int, message: str, tmp_path: Path) -> None:
    with pytest.raises(ss.InvalidInputError, match=message) as caught:
        root_keys.fetch_root_key(in_file(tmp_path, content, mode))
    assert content.hex() not in str(caught.value)


def test_root_keys_that_are_not_there_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("THE_KEY", raising=False)
    with pytest.raises(ss.InvalidInputError, match="the environment variable THE_KEY"):
        root_keys.fetch_root_key("THE_KEY")
    with pytest.raises(ss.InvalidInputError, match="cannot be read"):
        root_keys.fetch_root_key(tmp_path / "nothing")
    with pytest.raises(ss.InvalidInputError, match="must return 32 bytes"):
        root_keys.fetch_root_key(lambda: b"short")


@pytest.mark.parametrize("key", [KEY, bytearray(KEY), 7])
def test_a_key_itself_is_refused(key: Any) -> None:
    with pytest.raises(TypeError, match="would be in the job's specification"):
        configure_run(beam.Pipeline(), root_key=key)


# --- claims ---------------------------------------------------------------------------------------------------


def draw(folder: Path, run_id: Any = "today", **arguments: Any) -> Any:
    """Return a step that draws as submitted: every call of ``process`` is one computation of it."""
    return pickle.loads(pickle.dumps(runs.DrawRuns(arguments.get("root_key"), runs.PlaceRuns(str(folder), run_id))))  # noqa: S301 - our own


def derived(step: Any) -> bytes:
    ((_, secret),) = step.process(b"")
    return bytes(secret.derive("noise", "a"))


def test_a_step_computed_again_reads_its_claim(tmp_path: Path) -> None:
    step = draw(tmp_path)
    assert derived(step) == derived(step) == derived(pickle.loads(pickle.dumps(step)))  # noqa: S301 - our own: workers pickle it again
    assert derived(step) != derived(draw(tmp_path, "tomorrow"))
    assert (tmp_path / "today.claim").stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["today.claim", "tomorrow.claim"]


def test_another_launch_is_refused(tmp_path: Path) -> None:
    derived(draw(tmp_path))
    with pytest.raises(ss.InvalidInputError, match="another launch of a job has claimed"):
        derived(draw(tmp_path))


def test_a_run_that_has_finished_is_refused_and_leaves_no_nonce(tmp_path: Path) -> None:
    step = draw(tmp_path)
    derived(step)
    path = tmp_path / "today.claim"
    nonce = claims.Claim.decode(path.read_bytes(), "").nonce
    assert nonce is not None
    claims.finish(str(path))
    claims.finish(str(path))
    assert nonce.hex().encode() not in path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(ss.InvalidInputError, match="has finished"):
        derived(step)


def test_a_claim_keeps_its_root_key(tmp_path: Path) -> None:
    keys = iter([KEY, KEY, KEY, bytes(32)])
    step = runs.DrawRuns(lambda: next(keys), runs.PlaceRuns(str(tmp_path), "today"))
    derived(step)
    with pytest.raises(ss.InvalidInputError, match="has another root key"):
        derived(step), derived(step)


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"\xff", b'{"format": "streamsketch claim 1", "launch": 1}'])
def test_a_file_that_is_no_claim_is_refused_and_stays(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "today.claim"
    path.write_bytes(content)
    with pytest.raises(ss.InvalidInputError, match="is not a claim of a run"):
        derived(draw(tmp_path))
    assert path.read_bytes() == content


def test_one_pipeline_runs_once_under_one_id(tmp_path: Path, repeat: Callable[..., Any]) -> None:
    (found,) = repeat(noise, "--direct_runner_bundle_repeat=2", times=1, claims=str(tmp_path / "claims"), run_id="1")
    assert len(found) == 2
    with pytest.raises(ss.InvalidInputError, match="another launch of a job has claimed"):
        repeat(noise, times=1, claims=str(tmp_path / "claims"), run_id="1")
    with pytest.raises(ss.InvalidInputError, match="another launch of a job has claimed"):
        repeat(noise, times=2, claims=str(tmp_path / "claims"), run_id="2")


def test_each_launch_of_a_template_may_have_its_own_id(tmp_path: Path, repeat: Callable[..., Any]) -> None:
    for run_id in ("monday", "tuesday"):
        repeat(noise, times=1, claims=str(tmp_path), run_id=StaticValueProvider(str, run_id))
    assert sorted(path.name for path in tmp_path.glob("*.claim")) == ["monday.claim", "tuesday.claim"]
    RuntimeValueProvider.set_runtime_options({"run": "../evil"})
    with pytest.raises(ss.InvalidInputError, match="a run id must be"):
        repeat(noise, times=1, claims=str(tmp_path), run_id=RuntimeValueProvider("run", str, ""))


def test_finishing_waits_for_the_results_and_ends_the_claim(tmp_path: Path, repeat: Callable[..., Any]) -> None:
    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        releases = noise(pipeline)
        written = releases | "Sink" >> beam.Map(_sink, str(tmp_path / "today.claim"))
        (written, releases) | FinishRun()
        return written

    (found,) = repeat(build, times=1, claims=str(tmp_path), run_id="today")
    assert found == {True}, "while results are written the claim holds its nonce"
    assert claims.Claim.decode((tmp_path / "today.claim").read_bytes(), "").nonce is None


def _sink(_: Any, path: str) -> bool:
    return claims.Claim.decode(Path(path).read_bytes(), path).nonce is not None


def test_there_must_be_a_claim_to_finish() -> None:
    pipeline = beam.Pipeline(runner="FnApiRunner")
    with pytest.raises(ss.InvalidInputError, match="no claim to end"):
        (noise(pipeline),) | FinishRun()


@pytest.mark.parametrize("build", [noise, flips, cuts])
def test_runners_that_compute_again_need_claims(build: Build, tmp_path: Path) -> None:
    with pytest.raises(ss.InvalidInputError, match="FlinkRunner may recompute"):
        build(beam.Pipeline(runner=FlinkRunner()))
    pipeline = beam.Pipeline(runner=FlinkRunner())
    configure_run(pipeline, claims=str(tmp_path))
    build(pipeline)


@pytest.mark.parametrize("run_id", ["", "a/b", "..", ".a", "a" * 129, "ä", "a\n"])
def test_an_id_is_a_file_name(run_id: str, tmp_path: Path) -> None:
    with pytest.raises(ss.InvalidInputError, match="a run id must be"):
        configure_run(beam.Pipeline(), claims=str(tmp_path), run_id=run_id)


def test_a_run_is_configured_once_before_all_that_draw() -> None:
    pipeline = beam.Pipeline(runner="FnApiRunner")
    noise(pipeline)
    with pytest.raises(ss.InvalidInputError, match="before the first transform that draws"):
        configure_run(pipeline)
    with pytest.raises(ss.InvalidInputError, match="pass claims as well"):
        configure_run(beam.Pipeline(), run_id="today")


@pytest.mark.parametrize("scheme", ["hdfs", "azfs", "ftp"])
def test_file_systems_that_cannot_create_once_are_refused(scheme: str) -> None:
    with pytest.raises(ss.InvalidInputError, match=f"got {scheme}://"):
        claims.create_once(f"{scheme}://host/today.claim", b"")


def test_a_run_of_an_earlier_version_is_told_to_begin_anew(tmp_path: Path) -> None:
    """Its secrets followed from the nonce in another way, so that it would draw a second noise for the same sums."""
    path = str(tmp_path / "a.claim")
    claims.claimed_nonce(path, bytes(16), b"")
    Path(path).write_text(Path(path).read_text().replace("claim 2", "claim 1"))
    for act in (lambda: claims.claimed_nonce(path, bytes(16), b""), lambda: claims.finish(path)):
        with pytest.raises(ss.InvalidInputError, match=r"was begun by an earlier version, .*; pass another run_id"):
            act()
    restore, facts = RunSecret(bytes(32), b"", None).__reduce__()
    assert restore(*facts).derive("noise", "a") == RunSecret(bytes(32), b"", None).derive("noise", "a")
    with pytest.raises(ss.InvalidInputError, match=r"was begun by an earlier version, .* as a new run"):
        restore(*facts[:-1])
