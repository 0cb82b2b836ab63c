"""Run a Beam job on a Flink cluster that lives as long as the job.

    python -m tests.clusters [--jars DIR] -- streamsketch release … --agreement … --output out

The module after ``--`` runs with ``--claims``, a folder that is as short-lived as the cluster, unless it names one, and
with the cluster's Beam options behind another ``--``.
"""

import argparse
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.clusters.cluster import FlinkCluster
from tests.clusters.processes import STOPPING, StartError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; return its exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    place = given.index("--") if "--" in given else len(given)
    own, job = given[:place], given[place + 1 :]
    parser = argparse.ArgumentParser(
        prog="python -m tests.clusters",
        description="Run a Beam job on a Flink cluster that lives as long as the job.",
        usage="%(prog)s [options] -- MODULE [ARGUMENT …]",
        allow_abbrev=False,
    )
    parser.add_argument("--jars", type=Path, default=Path(".flink/lib"), metavar="DIR", help="(default .flink/lib)")
    parser.add_argument("--task-managers", type=int, default=2, metavar="N", help="of one slot each (default 2)")
    known = parser.parse_args(own)
    if not job:
        parser.error("name the job's module after --")
    if known.task_managers < 1:
        parser.error("--task-managers takes a number > 0")
    try:
        with (
            tempfile.TemporaryDirectory(prefix="flink-", ignore_cleanup_errors=True) as folder,
            FlinkCluster(known.jars, Path(folder), task_managers=known.task_managers) as cluster,
        ):
            print(f"Flink with {known.task_managers} task managers: {cluster.web_page}", flush=True)  # noqa: T201
            own = "--set=claims=" if job[0] == "streamsketch" else "--claims="
            claims = [] if any(given.startswith(own) for given in job) else [f"{own}{folder}/claims"]
            options = [*claims, "--", *cluster.pipeline_options()]
            command = [sys.executable, "-m", *job, *options]
            return subprocess.run(command, check=False).returncode  # noqa: S603
    except StartError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    for number in STOPPING - {signal.SIGINT}:  # as on Ctrl-C, nothing may stay behind
        signal.signal(number, lambda received, _: sys.exit(128 + received))
    sys.exit(main())
