"""A standalone cluster of Spark with two workers, as processes of this machine that take each other for two hosts."""

import contextlib
import os
import sys
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from tests.clusters.processes import Processes, free_ports, listens

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_DEPLOY = "org.apache.spark.deploy"
# no copy of a slow task is started on the host of the first one
HOSTS = ("127.0.0.2", "127.0.0.3")


class SparkCluster:
    """A context manager: a master, and a worker on each of `HOSTS`, with room for two drivers.

    Parameters
    ----------
    home
        Folder of the package ``pyspark``.
    folder
        A folder for logs and what workers write.

    Attributes
    ----------
    url
        Address of the master.
    """

    def __init__(self, home: Path, folder: Path) -> None:
        self._home, self._folder = home, folder.resolve()
        self._processes = Processes(folder)
        self._port, *self._pages = free_ports(4)
        self.url = f"spark://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        os.environ |= {
            "SPARK_HOME": str(self._home),
            "SPARK_DAEMON_JAVA_OPTS": _QUICK,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_DIRS": str(self._folder),
        }
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._processes)
            page, *pages = map(str, self._pages)
            self._start("master", "master.Master", "127.0.0.1", page, "--port", str(self._port))
            self._processes.wait("the master", lambda: listens(self._port))
            room = "--cores", "2", "--memory", "4g", "--work-dir", str(self._folder), self.url
            for host, own in zip(HOSTS, pages, strict=True):
                self._start(host, "worker.Worker", host, own, *room)
            stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._processes.__exit__(kind, error, traceback)

    def _start(self, name: str, what: str, host: str, page: str, *arguments: str) -> None:
        command = [str(self._home / "bin" / "spark-class"), f"{_DEPLOY}.{what}", "--host", host, "--webui-port", page]
        self._processes.start(name, [*command, *arguments])


def session(master: str) -> "SparkSession":
    """Return a session on a cluster: an executor of one core on each host, and a copy of each task that takes long."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - in an environment of its own

    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    builder = SparkSession.builder.master(master)
    settings = {
        "spark.cores.max": "2",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": _QUICK,
        "spark.driver.host": "127.0.0.1",
        "spark.executor.cores": "1",
        "spark.executor.extraJavaOptions": _QUICK,
        "spark.executor.memory": "512m",
        "spark.executorEnv.PYTHONPATH": str(ROOT),
        "spark.speculation": "true",
        "spark.speculation.quantile": "0.5",
        "spark.sql.shuffle.partitions": "3",
        "spark.task.maxFailures": "3",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    found = builder.getOrCreate()
    found.sparkContext.setLogLevel("OFF")
    return found
