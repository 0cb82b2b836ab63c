"""Prism, in `make test-streams`."""

import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamsketch.release.additive_noise import CalibratedNoise
from streamsketch.release.ready import Calibrated
from tests.clusters.processes import Processes, free_ports, listens

NO_PRISM = "streams on Prism are tested by make test-streams, which needs go"


@pytest.fixture(scope="session")
def prism(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Return the options of a runner with event time: windows fire as the watermark passes them."""
    binary = os.environ.get("STREAMSKETCH_PRISM")
    if not binary:
        pytest.skip(NO_PRISM)
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
    monkeypatch.setattr(CalibratedNoise, "_draw_each", Calibrated._draw_each)  # by `_draw`
