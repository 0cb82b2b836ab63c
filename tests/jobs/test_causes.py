"""Why a stream stands still: what a watch says of Flink, Kafka, the ledger and a locked sink."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import streamsketch as ss
from streamsketch.jobs import FlinkJob, Watch
from tests.jobs.job import policy_of
from tests.serving import Page, serving_pages

pytest.importorskip("prometheus_client")
pytest.importorskip("confluent_kafka")

from confluent_kafka import KafkaError, KafkaException

from streamsketch.jobs import PartitionLag, Server, SilentPartitions, brokers, client_settings, group_of
from streamsketch.jobs.logs import causes_of
from streamsketch.jobs.run import beam_options

PREFIX = "streamsketch_stream_"


class Flink:
    """The answers of a job manager's REST interface, as Flink 1.19 gives them."""

    def __init__(self) -> None:
        self.jobs = {"j1": "RUNNING", "j0": "CANCELED"}
        self.restarts, self.failed = 0, 0
        self.latest: dict[str, Any] = {"completed": {"trigger_timestamp": 90_000}, "failed": None}

    def answer(self, path: str) -> Any:
        if path == "/jobs/overview":
            return {"jobs": [{"jid": job, "name": "BeamApp", "state": state} for job, state in self.jobs.items()]}
        if path == "/jobs/j1/checkpoints":
            return {"counts": {"failed": self.failed, "completed": 9}, "latest": self.latest}
        assert path == "/jobs/j1/metrics?get=numRestarts"
        return [{"id": "numRestarts", "value": str(self.restarts)}]


@pytest.fixture
def flink() -> Iterator[tuple[Flink, str]]:
    flink = Flink()

    class Overview(Page):
        def respond(self) -> None:
            self.answer_json(200, flink.answer(self.path))

    with serving_pages(Overview) as address:
        yield flink, address


def test_restarts_and_checkpoints_of_a_job_are_causes(flink: tuple[Flink, str]) -> None:
    said, url = flink
    job = FlinkJob(url)
    assert job.look(100, 60) == ([], {"job_restarts": 0, "checkpoints_failed": 0, "checkpoint_age_seconds": 10})
    said.restarts, said.failed = 4, 2
    said.latest["failed"] = {"trigger_timestamp": 95_000}
    wrong, numbers = job.look(110, 60)
    assert wrong == ["the job was restarted 4 times in 10 s", "the last checkpoint failed (2 in all)"]
    assert numbers == {"job_restarts": 4, "checkpoints_failed": 2, "checkpoint_age_seconds": 20}
    assert job.look(175, 60)[0] == ["the last checkpoint failed (2 in all)", "no checkpoint was completed for 85 s"]
    said.jobs["j1"] = "RESTARTING"
    said.latest = {"completed": {"trigger_timestamp": 180_000}}
    assert job.look(181, 60)[0] == ["the job is RESTARTING"]
    said.jobs["j2"] = "RUNNING"
    assert job.look(182, 60)[0] == ["Flink has 2 jobs that have not ended; name the stream's job"]
    assert FlinkJob(url, "j1").look(182, 60)[0] == ["the job is RESTARTING"]
    assert FlinkJob(url, "j9").look(182, 60)[0] == ["Flink does not know the job"]
    with pytest.raises(ss.InvalidInputError, match="must be a URL such as"):
        FlinkJob("file:///etc/passwd")


def test_an_interface_that_does_not_answer_is_a_cause() -> None:
    assert FlinkJob("http://127.0.0.1:1").look(0, 60) == (["Flink does not answer: URLError"], {})


class Broker:
    """What a consumer of `brokers` asks: the newest timestamp of each partition, its end, and offsets of a group."""

    def __init__(self, newest: dict[int, int]) -> None:
        self.newest, self.end, self.committed = newest, 50, {0: 43}

    def consumer(self, settings: dict[str, Any]) -> Any:
        assert settings["enable.auto.commit"] is False
        assert settings["bootstrap.servers"] == "broker:9092"

        def list_topics(topic: str, _: float) -> Any:
            if not self.newest:
                settings["error_cb"](KafkaError(KafkaError._AUTHENTICATION, "sasl_ssl://b:1/bootstrap: wrong password"))
                raise KafkaException(KafkaError(KafkaError._TRANSPORT, "no metadata"))
            found = SimpleNamespace(partitions=dict.fromkeys(self.newest), error=None)
            return SimpleNamespace(topics={topic: found})

        def offsets_for_times(asked: list[Any], _: float) -> list[Any]:
            for one in asked:  # with the time as the offset
                one.offset = 7 if self.newest[one.partition] >= one.offset else -1
            return asked

        def committed(asked: list[Any], _: float) -> list[Any]:
            assert settings["group.id"] == "streamsketch-flights"
            for one in asked:
                one.offset = self.committed.get(one.partition, -1001)
            return asked

        return SimpleNamespace(
            list_topics=list_topics,
            offsets_for_times=offsets_for_times,
            committed=committed,
            get_watermark_offsets=lambda *_: (0, self.end),
            poll=lambda _: None,
        )


def test_silent_and_added_partitions_are_causes(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker({0: 95_000, 1: 50_000})
    monkeypatch.setattr(brokers, "Consumer", broker.consumer)
    watched = SilentPartitions("broker:9092", "sales", 30)
    wrong, numbers = watched.look(100, 60)
    assert wrong == ["no record for 30 s in partitions 1"]
    assert numbers == {"partitions": 2, "partitions_silent": 1, "partitions_added": 0}
    broker.newest |= {1: 99_000, 2: 99_000}
    assert watched.look(100, 60) == ([], {"partitions": 3, "partitions_silent": 0, "partitions_added": 1})
    broker.newest.clear()
    assert watched.look(100, 60)[0] == ["Kafka does not answer: Kafka reports: wrong password (no metadata)"]


def test_lag_is_by_partition(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broker = Broker({0: 1, 1: 1})
    monkeypatch.setattr(brokers, "Consumer", broker.consumer)
    lag = PartitionLag("broker:9092", "sales", group_of("flights"))
    assert lag.look(0, 0) == ([], {"partition_lag_records": {0: 7}})
    broker.committed[1] = 60  # the topic was cut meanwhile
    watched = Watch(*policy_of(tmp_path), causes=[lag])
    watched.look()
    assert watched.health()["partition_lag_records"] == {"0": 7, "1": 0}
    with Server(watched, 0) as server:
        (family,) = [one for one in server.registry.collect() if one.name == PREFIX + "partition_lag_records"]
    assert {sample.labels["partition"]: sample.value for sample in family.samples} == {"0": 7, "1": 0}


def test_client_settings_are_read(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("# ours\n\nsecurity.protocol = SASL_SSL\nsasl.password=a=b \n")
    path.chmod(0o600)
    assert client_settings(path) == {"security.protocol": "SASL_SSL", "sasl.password": "a=b"}
    assert "a=b" not in repr(brokers.Brokers("broker:9092", client_settings(path)))


@pytest.mark.parametrize(
    ("text", "mode", "problem"),
    [
        ("security.protocol=SSL", 0o640, "chmod 600"),
        ("security.protocol", 0o600, "line 1 of .* is not a setting; write NAME=VALUE"),
        ("\ngroup.id=other", 0o600, "line 2 of .* sets 'group.id', which is not a setting of connections"),
        ("isolation.level=read_uncommitted", 0o600, "sets 'isolation.level'"),
        (
            "sasl.jaas.config=x",
            0o600,
            "sasl.jaas.config, a setting of Java clients; use sasl.username and sasl.password",
        ),
        ("sasl.mechanism=A\nsasl.mechanism=B", 0o600, "line 2 .* sets sasl.mechanism again"),
    ],
)
def test_client_settings_that_are_refused(tmp_path: Path, text: str, mode: int, problem: str) -> None:
    path = tmp_path / "client.properties"
    path.write_text(text)
    path.chmod(mode)
    with pytest.raises(ss.InvalidInputError, match=problem):
        client_settings(path)


def test_health_says_why(flink: tuple[Flink, str], tmp_path: Path) -> None:
    alarms = tmp_path / "claims/flights.alarms"
    alarms.mkdir(parents=True)
    for name in ("2013-01-01T05-00-00Z AA.refused.json", "2013-01-01T05-00-00Z UA.sketch.json"):
        (alarms / name).touch()
    said, url = flink
    now = 100.0
    watched = Watch(
        *policy_of(tmp_path, stale_after=60.0, alarms=str(alarms)), causes=[FlinkJob(url)], clock=lambda: now
    )
    watched.look()
    assert watched.health()["healthy"], "what is refused is an alarm, and the stream goes on"
    now, said.jobs["j1"] = 170.0, "FAILING"
    watched.look()
    health = watched.health()
    assert health["complaints"] == [
        "no window was completed for 70 s",
        "the ledger refused 1 slots, which are not released",
        "the job is FAILING",
        "no checkpoint was completed for 80 s",
    ]
    assert (health["alarms"], health["refused"], health["checkpoint_age_seconds"]) == (2, 1, 80)


def test_a_locked_sink_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *given, **options: connect(*given, **options | {"timeout": 0}))
    with contextlib.closing(connect(tmp_path / "r.db", isolation_level=None)) as other:
        other.execute("CREATE TABLE releases (stream, window_start, kind, key)")
        other.execute("BEGIN EXCLUSIVE")
        watched = Watch(*policy_of(tmp_path, database=f"sqlite:{tmp_path}/r.db"))
        watched.look()
    assert "the sink is locked by another process" in watched.complaints()


def test_a_failure_names_its_causes_and_none_of_its_words() -> None:
    text = (
        "Traceback:\n  File x\nstreamsketch.errors.LedgerError: canary\nCanaryError: 7\n"
        "Caused by: org.apache.kafka.common.errors.TimeoutException: canary\nKeyError: LedgerError"
    )
    error = RuntimeError(text)
    error.__cause__ = OSError("canary")
    assert causes_of(error) == ["RuntimeError", "LedgerError", "TimeoutException", "OSError"]


def test_checkpoints_are_kept_when_a_job_is_cancelled() -> None:
    def kept(*given: str) -> list[str]:
        found = beam_options(given, streaming=True).get_all_options(retain_unknown_options=True)
        return sorted(name for name in found if "externalized" in name)

    both = ["externalized_checkpoints_enabled", "retain_externalized_checkpoints_on_cancellation"]
    assert kept("--checkpointing_interval=1000") == both
    assert kept("--checkpointing_interval=1000", f"--{both[0]}") == both
    assert kept() == []


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (["--environment_cache_millis=10000"], "keeps Python workers that were killed"),
        (["--environment_cache_millis", "1"], "keeps Python workers that were killed"),
        (["--retain_externalized_checkpoints_on_cancellation=false"], "lets Flink delete the checkpoints"),
        (["--externalized_checkpoints_enabled", "False"], "lets Flink delete the checkpoints"),
    ],
)
def test_options_that_prevent_recovery_are_refused_for_streams_alone(given: list[str], problem: str) -> None:
    with pytest.raises(ss.InvalidInputError, match=problem):
        beam_options(["--checkpointing_interval=1000", *given], streaming=True)
    beam_options(given)


@pytest.mark.parametrize(
    ("given", "is_warned"),
    [
        ([], True),
        (["--parallelism=1"], True),
        (["--parallelism=2"], False),
        (["--parallelism=1", "--operator_chaining"], False),
    ],
)
def test_a_stream_that_cannot_be_rescaled_is_warned_of(
    given: list[str], *, is_warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    beam_options(["--checkpointing_interval=1000", *given], streaming=True)
    assert ("restored with one slot" in caplog.text) == is_warned


def test_a_server_shows_what_causes_measured(tmp_path: Path, flink: tuple[Flink, str]) -> None:
    watched = Watch(*policy_of(tmp_path), causes=[FlinkJob(flink[1])], clock=lambda: 100.0)
    watched.look()
    with Server(watched, 0) as server:
        (family,) = [one for one in server.registry.collect() if one.name == PREFIX + "checkpoint_age_seconds"]
    assert family.samples[0].value == 10
