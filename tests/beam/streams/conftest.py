"""Prism, where `make test` could build it."""

import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamsketch.release import CalibratedNoise
from tests.beam.streams.prism import ROOT
from tests.clusters.processes import Processes, free_ports, listens


@pytest.fixture(scope="session")
def prism(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Return the options of a runner with event time: windows fire as the watermark passes them."""
    built = sorted((ROOT / ".flink" / "bin").glob("prism-*"))
    binary = os.environ.get("STREAMSKETCH_PRISM") or (str(built[-1]) if built else "")
    if not Path(binary).is_file():
        pytest.skip("there is no Prism: make test builds it where go is on the PATH")
    (jobs,) = free_ports(1)
    with Processes(tmp_path_factory.mktemp("prism")) as processes:
        processes.start("prism", [binary, f"--job_port={jobs}", "--serve_http=false"])
        processes.wait("Prism", lambda: listens(jobs))
        yield [
            "--runner=PrismRunner",
            f"--job_endpoint=127.0.0.1:{jobs}",
            "--environment_type=LOOPBACK",
            "--experiments=prism_disable_sdf_split",
        ]


@pytest.fixture
def root_key(tmp_path: Path) -> Path:
    """Return a file with a key of its own."""
    path = tmp_path / "root key"
    path.write_bytes(secrets.token_bytes(32))
    path.chmod(0o600)
    return path


class Silence:
    """A noise that is none, of the cumulants that it should have."""

    def __init__(self, noise: Any) -> None:
        self.cumulants = noise.cumulants

    def sample(self, size: int, _: Any) -> np.ndarray[Any, Any]:
        return np.zeros(size, dtype=np.int64)


@pytest.fixture
def no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Publish exact sums, to compare them with the truth."""
    draw = CalibratedNoise._draw

    def drawn(calibrated: Any, cells: Any, bits: Any, ids: Any) -> Any:
        object.__setattr__(calibrated, "noise", Silence(calibrated.noise))
        return draw(calibrated, cells, bits, ids)

    monkeypatch.setattr(CalibratedNoise, "_draw", drawn)
