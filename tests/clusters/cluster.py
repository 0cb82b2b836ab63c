"""Start and stop a Flink cluster, with all that Beam needs beside it, as processes of this machine."""

import contextlib
import json
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.clusters.processes import Processes, StartError, Usage, free_ports, listens
from tests.patience import PATIENCE

_JOB_MANAGER = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
_TASK_MANAGER = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
_JOB_SERVER = Path(__file__).with_name("JobServer.java")  # java runs source files as they are
_EXPORTED = ["java.base/sun.net.util", "java.rmi/sun.rmi.registry", "java.security.jgss/sun.security.krb5"]
_OPENED = ["lang", "net", "io", "nio", "lang.reflect", "text", "time", "util", "util.concurrent"]
_OPENED += ["util.concurrent.atomic", "util.concurrent.locks"]
_RESTART_MS = 1000
_SHORT = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]  # short jobs end before C2's code pays
_ROOMY = [*_SHORT[1:], "-Xmx1g", "-Xmn400m"]  # messages are copied several times, and die young
_LASTING = ["-Xms1g", "-Xmx1g", "-XX:+AlwaysPreTouch", "-XX:+UseParallelGC"]  # so that only what leaks grows
# What Flink's own start script asks of Java 17.
_JAVA = [
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
    *(f"--add-exports={name}=ALL-UNNAMED" for name in _EXPORTED),
    *(f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in _OPENED),
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
]


class FlinkCluster:
    """Flink's job manager, its task managers of one slot each, Beam's job server and Python workers, on 127.0.0.1.

    A context manager: all processes start on entry and are gone after exit. A job survives the loss of task managers:
    Flink notices within seconds and starts what was lost again as soon as there are slots.

    One thing is not on loopback: the ports at which a task manager waits for its Python workers. Beam opens them on
    every address of the machine, under random numbers, and accepts whoever calls. Keep private data to machines behind
    a firewall.

    Parameters
    ----------
    jars
        Folder of the jars that ``pom.xml`` names.
    folder
        A folder for configuration and logs.
    task_managers
        How many to start with.
    lasting
        Whether task managers run for long: with Java's second compiler, and 1 GB of heap instead of 512 MB.
    roomy
        Whether short ones have 1 GB of heap too.

    Raises
    ------
    StartError
        If Java or the jars are missing, or a process does not come up.

    Attributes
    ----------
    task_managers
        The processes that were not killed, in the order in which they were started.
    """

    def __init__(
        self, jars: Path, folder: Path, *, task_managers: int = 2, lasting: bool = False, roomy: bool = False
    ) -> None:
        self.task_managers: list[subprocess.Popen[bytes]] = []
        self._started = 0
        self._jars, self._folder, self._count = jars.resolve(), folder.resolve(), task_managers
        self._how = _LASTING if lasting else _ROOMY if roomy else _SHORT
        self._temporary = self._folder / "tmp"
        self._processes = Processes(folder)
        self._rest, self._rpc, self._jobs, self._workers = free_ports(4)

    def __enter__(self) -> Self:
        for tool in ("java", "javac"):
            if shutil.which(tool) is None:
                raise StartError(f"Flink needs Java 17, and there is no {tool} on the PATH; install a development kit")
        if not any(self._jars.glob("beam-runners-flink-*.jar")):
            raise StartError(f"there are no Flink jars in {self._jars}; fetch them with: make flink")
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._processes)
            self._temporary.mkdir(exist_ok=True)
            (self._folder / "config.yaml").write_text(self._config())
            self._start_all()
            self._stack = stack.pop_all()  # all is up: exit stops it, not the end of this block
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def web_page(self) -> str:
        """Address of Flink's own page about the cluster and its jobs."""
        return f"http://127.0.0.1:{self._rest}"

    def pipeline_options(self, parallelism: int | None = None) -> list[str]:
        """Return the options that make a Beam pipeline run here, by default in all slots there were at the start."""
        return [
            "--runner=PortableRunner",
            f"--job_endpoint=127.0.0.1:{self._jobs}",
            "--environment_type=EXTERNAL",
            f"--environment_config=127.0.0.1:{self._workers}",
            f"--parallelism={parallelism or self._count}",
            # without it each task manager ends its Python worker whenever none of its steps happens to run; but it
            # keeps dead ones as well, and must have forgotten them when a job starts again
            f"--environment_cache_millis={_RESTART_MS // 2}",
        ]

    def stream_options(
        self, *, interval: int = 1000, backend: str = "filesystem", bundle: int = 50, parallelism: int | None = None
    ) -> list[str]:
        """Return the options of a pipeline that never ends: checkpoints every ``interval`` milliseconds."""
        return [
            # its steps always run, so their workers need not be kept
            *(one for one in self.pipeline_options(parallelism) if "environment_cache" not in one),
            "--streaming",
            f"--checkpointing_interval={interval}",
            f"--state_backend={backend}",
            f"--state_backend_storage_path=file://{self._folder}/checkpoints",
            f"--max_bundle_size={bundle}",  # longer ones may never end
            "--finish_bundle_before_checkpointing",  # else the watermark overtakes what bundles hold back
            *("--max_bundle_time_mills=100", "--auto_watermark_interval=50"),  # windows pass each step sooner
            "--faster_copy",  # none of messages between steps: nobody changes them
        ]

    def usage(self) -> dict[str, Usage]:
        """Return what each process uses."""
        return self._processes.usage()

    def start_task_manager(self) -> subprocess.Popen[bytes]:
        """Start one more task manager; it registers itself within seconds."""
        self._started += 1
        name = f"-Dtaskmanager.resource-id=tm{self._started}"
        process = self._java(f"task-manager-{self._started}", _TASK_MANAGER, "--configDir", str(self._folder), name)
        self.task_managers.append(process)
        return process

    def kill_task_manager(self, place: int) -> None:
        """Kill a task manager at once, as a failing machine would."""
        self._processes.kill(self.task_managers.pop(place))

    def kill_workers(self) -> int:
        """Kill all Python workers at once, as the kernel does when memory is short; return how many there were.

        The pool that starts them lives on.
        """
        return self._processes.kill_grandchildren(self._pool)

    def wait_for_task_managers(self, count: int, *, seconds: float = PATIENCE) -> None:
        """Wait until the job manager knows of so many task managers, no more and no less."""
        self._processes.wait(
            f"a cluster of {count} task managers", lambda: self._registered() == count, seconds=seconds
        )

    def rest(self, path: str) -> Any:
        """Return what Flink's REST interface answers, e.g. to ``/jobs/overview``."""
        return self.call(path, "GET")

    def call(self, path: str, method: str, body: Any = None) -> Any:
        """Ask Flink's REST interface for something, such as a savepoint; return what it answers."""
        request = urllib.request.Request(  # noqa: S310 - our own address
            f"{self.web_page}/{path.lstrip('/')}",
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:  # noqa: S310
            return json.loads(answer.read() or "null")

    def _start_all(self) -> None:
        self._java("job-manager", _JOB_MANAGER, "--configDir", str(self._folder))
        for _ in range(self._count):
            self.start_task_manager()
        self._java(
            "job-server",
            str(_JOB_SERVER),
            f"--flink-master=127.0.0.1:{self._rest}",
            f"--flink-conf-dir={self._folder}",
            "--job-host=127.0.0.1",
            f"--job-port={self._jobs}",
            "--artifact-port=0",
            "--expansion-port=-1",  # none: no step is written in Java
            f"--artifacts-dir={self._folder / 'artifacts'}",
        )
        self._pool = self._processes.start("workers", worker_pool(self._workers))
        self._processes.wait("Beam's worker pool", lambda: listens(self._workers))
        self._processes.wait("Beam's job server", lambda: listens(self._jobs))
        self.wait_for_task_managers(self._count)

    def _registered(self) -> int:
        try:
            return int(self.rest("/overview")["taskmanagers"])
        except OSError:  # as urllib's errors are: the job manager is not up yet
            return -1

    def _java(self, name: str, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        how = self._how if main == _TASK_MANAGER else _SHORT
        scratch = f"-Djava.io.tmpdir={self._temporary}"  # job graphs pass there
        return self._processes.start(name, ["java", *how, *_JAVA, scratch, "-cp", f"{self._jars}/*", main, *arguments])

    def _config(self) -> str:
        settings = {
            "jobmanager.rpc.address": "127.0.0.1",
            "jobmanager.rpc.port": self._rpc,
            "jobmanager.bind-host": "127.0.0.1",
            "jobmanager.memory.process.size": "1g",
            "rest.address": "127.0.0.1",
            "rest.bind-address": "127.0.0.1",
            "rest.port": self._rest,
            "taskmanager.host": "127.0.0.1",
            "taskmanager.bind-host": "127.0.0.1",
            "taskmanager.numberOfTaskSlots": 1,
            # a task manager started without Flink's script has to be told all of its memory
            "taskmanager.cpu.cores": 1,
            "taskmanager.memory.framework.heap.size": "128m",
            "taskmanager.memory.framework.off-heap.size": "128m",
            "taskmanager.memory.task.heap.size": "256m",
            "taskmanager.memory.task.off-heap.size": "0m",
            "taskmanager.memory.network.min": "64m",
            "taskmanager.memory.network.max": "64m",
            "taskmanager.memory.managed.size": "256m",
            "taskmanager.memory.jvm-metaspace.size": "256m",
            "taskmanager.memory.jvm-overhead.min": "128m",
            "taskmanager.memory.jvm-overhead.max": "128m",
            "io.tmp.dirs": self._temporary,
            # a lost task manager is noticed within seconds, and what ran there starts again
            "heartbeat.interval": 1000,
            "heartbeat.timeout": 6000,
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": 60,  # a task manager may take half a minute to start
            "restart-strategy.fixed-delay.delay": f"{_RESTART_MS} ms",
            "jobmanager.execution.failover-strategy": "region",
        }
        return "".join(f"{name}: {json.dumps(str(value))}\n" for name, value in settings.items())


def worker_pool(port: int) -> list[str]:
    """Return the command that serves Python workers at a port of 127.0.0.1."""
    return [sys.executable, "-m", "tests.clusters.workers", str(port)]
