"""Run the examples of federated learning on this machine, in the simulators of Flower and NVIDIA FLARE.

    python -m pipelines.federated.run flower-sites flower-updates nvflare-sites nvflare-updates

Frameworks run in processes of their own, which are gone afterwards. Nothing is sent to their makers: Flower's and Ray's
telemetry is off.
"""

import argparse
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

from pipelines.data.make_sites import SITES, write_sites
from streamsketch.parties import Key

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PRACTICES = 100
GUESSING = 0.181
"""The log loss of a model that knows only how frequent diabetes is."""
_QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "PYTHONUNBUFFERED": "1",
}
_PATIENCE = 60.0  # seconds, for a server to start


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the examples that are named; return the exit status."""
    parser = argparse.ArgumentParser(description="Examples of federated learning in their simulators.")
    parser.add_argument("examples", nargs="*", choices=[*EXAMPLES, []], help="which to run; by default all")
    options = parser.parse_args(arguments)
    for name in options.examples or EXAMPLES:
        print(f"== {name}", flush=True)
        with tempfile.TemporaryDirectory(prefix="federated-") as folder:
            prepare(Path(folder))
            EXAMPLES[name](Path(folder))
            path = Path(folder) / "losses.json"
            losses = json.loads(path.read_text()) if path.exists() else {}
        if not works(losses):
            print(f"error: {name} did not end as it should: {losses}", file=sys.stderr)
            return 1
    return 0


def works(losses: dict[str, float]) -> bool:
    """Return whether a model learned: from private updates anything, from those admitted more than from all."""
    if "all" in losses:
        return losses["admitted"] < losses["all"]
    return bool(losses) and list(losses.values())[-1] < GUESSING


def prepare(folder: Path) -> None:
    """Write each hospital's rows and private key into the folder, and all public keys into ``keys``."""
    write_sites(folder)
    (folder / "keys").mkdir()
    for name in SITES:
        (folder / name).mkdir()
        key = Key.generate(name)
        key.save(folder / name / "key.pem")
        (folder / "keys" / f"{name}.pub").write_text(key.public.to_text())  # which in earnest is compared by telephone


def flower(app: str, nodes: int, folder: Path) -> None:
    """Run a Flower app in the simulation runtime of a SuperLink of our own."""
    home = folder / "flwr"
    home.mkdir()
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = os.environ | _QUIET | {"FLWR_HOME": str(home), "PYTHONPATH": str(ROOT), "PATH": programs}
    with _superlink(home, environment) as address:
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "own"\n\n[superlink.own]\naddress = "{address}"\ninsecure = true\n'
        )
        command = ["flwr", "run", str(HERE / "flower" / app), "--stream"]
        command += ["--run-config", f'folder="{folder}"', "--federation-config", f"num-supernodes={nodes}"]
        subprocess.run(command, env=environment, cwd=home, check=True)  # noqa: S603


@contextlib.contextmanager
def _superlink(home: Path, environment: dict[str, str]) -> Iterator[str]:
    """Run a SuperLink, and yield its address; it installs nothing, as all is in this environment."""
    port = _free_port()
    command = ["flower-superlink", "--insecure", "--simulation", "--isolation", "subprocess"]
    command += ["--disable-runtime-dependency-installation", "--host", "127.0.0.1", "--port", str(port)]
    with (home / "superlink.log").open("w") as log, _process(command, environment, log) as server:
        deadline = time.monotonic() + _PATIENCE
        while True:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health"):
                break
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the SuperLink did not start: {(home / 'superlink.log').read_text()}")
            time.sleep(0.2)
        yield f"127.0.0.1:{port}"


@contextlib.contextmanager
def _process(command: list[str], environment: dict[str, str], log: TextIO) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)  # noqa: S603
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def nvflare(job: str, folder: Path) -> None:
    """Run a job in FLARE's simulator."""
    environment = os.environ | _QUIET | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pipelines.federated.nvflare_jobs", job, str(folder)]
    subprocess.run(command, env=environment, cwd=folder, check=True)  # noqa: S603


EXAMPLES = {
    "flower-sites": lambda folder: flower("sites", len(SITES), folder),
    "flower-updates": lambda folder: flower("updates", PRACTICES, folder),
    "nvflare-sites": lambda folder: nvflare("sites", folder),
    "nvflare-updates": lambda folder: nvflare("updates", folder),
}

if __name__ == "__main__":
    sys.exit(main())
