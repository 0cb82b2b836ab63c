"""Clusters and services of this machine, started once for all tests that want them."""

import os
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamsketch.data.canonical import HASHED_DIM
from tests.beam.streams.conftest import NO_PRISM
from tests.clusters.cluster import FlinkCluster, worker_pool
from tests.clusters.kafka import Kafka
from tests.clusters.processes import Processes, StartError, free_ports, listens
from tests.clusters.steps import KEYS, one_loop
from tests.clusters.streaming import Log

NO_FLINK = "Flink and Kafka are tested by make test-flink, which needs Java and Maven"
EVENTS, ROW_GROUPS = 200_000, 16
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def columns() -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(5)
    return {
        "key": np.array(KEYS)[rng.integers(len(KEYS), size=EVENTS)],
        "index": rng.integers(HASHED_DIM, size=EVENTS),
        "value": rng.integers(-1000, 1001, size=EVENTS),
    }


@pytest.fixture(scope="session")
def expected(columns: dict[str, np.ndarray[Any, Any]]) -> dict[str, bytes]:
    return one_loop(columns)


@pytest.fixture(scope="session")
def events(columns: dict[str, np.ndarray[Any, Any]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("events")
    table = pa.table(columns)
    half = EVENTS // 2
    for name, part in (("a", table[:half]), ("b", table[half:])):
        pq.write_table(part, folder / f"{name}.parquet", row_group_size=EVENTS // ROW_GROUPS)
    return folder


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlinkCluster]:
    with FlinkCluster(jars_of_flink(), tmp_path_factory.mktemp("flink")) as running:
        yield running


def jars_of_flink() -> Path:
    """Return the folder of the jars, or skip the test."""
    jars = os.environ.get("STREAMSKETCH_FLINK_JARS")
    if not jars:
        pytest.skip(NO_FLINK)
    return Path(jars)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    with Kafka(jars_of_flink(), tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture(scope="session")
def job_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    with Processes(tmp_path_factory.mktemp("job-service")) as processes:
        try:
            jobs, workers = started_job_service(processes)
        except StartError:  # others may have taken a port that was free
            jobs, workers = started_job_service(processes)
        yield [
            "--runner=PortableRunner",
            f"--job_endpoint=127.0.0.1:{jobs}",
            "--environment_type=EXTERNAL",
            f"--environment_config=127.0.0.1:{workers}",
        ]


def started_job_service(processes: Processes) -> list[int]:
    jobs, workers = free_ports(2)
    main = "apache_beam.runners.portability.local_job_service_main"
    started = [
        processes.start("job-service", [sys.executable, "-m", main, "-p", str(jobs)]),
        processes.start("workers", worker_pool(workers)),
    ]
    try:
        processes.wait("the job service", lambda: listens(jobs) and listens(workers))
    except StartError:
        processes.kill(*started)
        raise
    return [jobs, workers]


@pytest.fixture(scope="session")
def prism(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    binary = os.environ.get("STREAMSKETCH_PRISM")
    if not binary:
        pytest.skip(NO_PRISM)
    (jobs,) = free_ports(1)
    with Processes(tmp_path_factory.mktemp("prism")) as processes:
        processes.start("prism", [binary, f"--job_port={jobs}", "--serve_http=false"])
        processes.wait("Prism", lambda: listens(jobs))
        yield ["--runner=PrismRunner", f"--job_endpoint=127.0.0.1:{jobs}", "--environment_type=LOOPBACK"]


@pytest.fixture
def options_of(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[str]]:
    """Return a runner's options; the runner starts if it is a service."""

    def find(name: str) -> list[str]:
        if name == "flink":
            return request.getfixturevalue("cluster").pipeline_options()
        if name == "job service":
            return request.getfixturevalue("job_service")
        if name == "processes":
            monkeypatch.setenv("PYTHONPATH", str(ROOT))  # Beam's own worker processes import our steps
            return ["--runner=FnApiRunner", "--direct_running_mode=multi_processing", "--direct_num_workers=2"]
        if name == "prism":
            return request.getfixturevalue("prism")
        return ["--runner=FnApiRunner"]

    return find


@pytest.fixture
def log(kafka: Kafka) -> Iterator[Log]:
    with Log(kafka, f"topic-{uuid.uuid4().hex[:8]}") as written:
        yield written
