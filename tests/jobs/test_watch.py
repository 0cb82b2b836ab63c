"""A stream watched from outside: what its sink holds, whether it goes on, and nothing else."""

import contextlib
import json
import shutil
import signal
import socket
import sqlite3
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from streamsketch.errors import InvalidInputError
from streamsketch.jobs import Watch
from streamsketch.jobs.causes import Findings
from tests.beam.streams.prism import BASE, MINUTE, ROOT
from tests.cli.running import Forks
from tests.jobs.job import end, options, policy_of, put, run

pytest.importorskip("prometheus_client")
from prometheus_client.parser import text_string_to_metric_families

from streamsketch.jobs import Server
from tests.patience import PATIENCE

ROWS = [("AA", "JFK-LAX", "N1", 5), ("UA", "EWR-SFO", "N2", 61), ("AA", "EWR-SFO", "N3", 130)]


@pytest.fixture(scope="module", params=["folder", "sqlite"])
def stream(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str | None]:
    """Return what a job left behind that was launched twice: three windows, all of which were refused once."""
    place = tmp_path_factory.mktemp("stream")
    (place / "root key").write_bytes(bytes(32))
    (place / "root key").chmod(0o600)
    put(place / "log", "001.parquet", ROWS)
    end(place / "log")
    database = f"sqlite:{place}/releases.db" if request.param == "sqlite" else None
    for _ in range(2):
        assert run(place, [], database=database) == 0
    return place, database


@pytest.fixture
def copy(stream: tuple[Path, str | None], tmp_path: Path) -> tuple[Path, str | None]:
    """Return a copy of it to change."""
    place, database = stream
    shutil.copytree(place, tmp_path / "copy")
    return tmp_path / "copy", database and f"sqlite:{tmp_path}/copy/releases.db"


def remove(copy: tuple[Path, str | None], minute: int, key: str) -> None:
    place, database = copy
    if database is None:
        window = time.strftime("%Y-%m-%dT%H-%M-%SZ", time.gmtime(BASE + MINUTE * minute))
        (place / "out/flights" / window / f"{key}.sketch").unlink()
        return
    with contextlib.closing(sqlite3.connect(place / "releases.db")) as connected:
        start = (BASE + MINUTE * minute) * 10**6
        assert connected.execute("DELETE FROM releases WHERE window_start = ? AND key = ?", (start, key)).rowcount == 1
        connected.commit()


def watch(stream: tuple[Path, str | None], clock: Callable[[], float], **changed: Any) -> Watch:
    place, database = stream
    given: dict[str, Any] = {"stale_after": 100, "alarms": f"{place}/claims/flights.alarms", "database": database}
    return Watch(*policy_of(place, **given | changed), clock=clock)


@contextlib.contextmanager
def served(
    watched: Watch, address: str = "127.0.0.1", client: str = "127.0.0.1"
) -> Iterator[Callable[[str], tuple[int, str]]]:
    with Server(watched, 0, address) as server:

        def get(path: str) -> tuple[int, str]:
            try:
                with urllib.request.urlopen(f"http://{client}:{server.server_port}{path}", timeout=PATIENCE) as answer:
                    return answer.status, answer.read().decode()
            except urllib.error.HTTPError as error:
                with error:
                    return error.code, error.read().decode()

        yield get


def numbers(text: str) -> dict[str, float]:
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            assert sample.labels == {"stream": "flights"}
            found[sample.name.removeprefix("streamsketch_stream_")] = sample.value
    return found


def test_metrics_and_health_say_what_the_sink_holds(stream: tuple[Path, str | None]) -> None:
    last = BASE + 3 * MINUTE
    watched = watch(stream, lambda: last + 7.5)
    watched.look()
    with served(watched) as get:
        status, text = get("/metrics")
        assert status == 200
        assert numbers(text) == {
            "healthy": 1,
            "releases": 6,
            "newest_window_end_seconds": last,
            "lag_seconds": 7.5,
            "windows_missing_keys": 0,
            "alarms": 6,
            "refused": 0,
        }
        status, line = get("/health")
        assert (status, line.count("\n")) == (200, 1)
        assert json.loads(line)["healthy"]
        assert get("/")[0] == 404


def test_a_stream_that_stands_still_becomes_unhealthy(copy: tuple[Path, str | None]) -> None:
    now = BASE + 3 * MINUTE + 20.0
    watched = watch(copy, lambda: now)
    watched.look()
    assert watched.complaints() == []
    now += 90
    watched.look()
    with served(watched) as get:
        status, line = get("/health")
        assert status == 503
        assert json.loads(line)["complaints"] == ["no window was completed for 110 s"]
        assert numbers(get("/metrics")[1])["healthy"] == 0


def test_a_backlog_that_is_worked_off_is_healthy_however_old(copy: tuple[Path, str | None], tmp_path: Path) -> None:
    now = BASE + 10.0**6
    place, _ = copy
    kept = shutil.copytree(place, tmp_path / "kept")
    remove(copy, 2, "AA")
    watched = watch(copy, lambda: now)
    watched.look()
    assert watched.complaints() == ["no window was completed for 999880 s"]
    shutil.copytree(kept, place, dirs_exist_ok=True)
    watched.look()
    assert watched.complaints() == []
    now += 101
    watched.look()
    assert watched.complaints() == ["no window was completed for 101 s"]


def test_a_key_that_is_missing_is_seen(copy: tuple[Path, str | None]) -> None:
    now = BASE + 3 * MINUTE + 1.0
    remove(copy, 1, "UA")
    watched = watch(copy, lambda: now, stale_after=1000)
    watched.look()
    assert watched.seen is not None
    assert (watched.seen.missing, watched.seen.releases) == (1, 5)
    assert watched.complaints() == [], "it may still come"
    now += 1001
    watched.look()
    assert "1 windows before the newest one lack keys" in watched.complaints()


def test_the_newest_window_is_not_complete_before_all_keys_are_there(copy: tuple[Path, str | None]) -> None:
    remove(copy, 2, "AA")
    watched = watch(copy, lambda: BASE + 3.0 * MINUTE)
    watched.look()
    assert watched.seen is not None
    assert (watched.seen.missing, watched.seen.newest_end) == (0, BASE + 2 * MINUTE)


def test_a_sink_that_cannot_be_read_is_unhealthy_and_one_without_releases_is_not_yet(tmp_path: Path) -> None:
    now = BASE + 0.0
    lost = watch((tmp_path, None), lambda: now)
    lost.look()
    assert lost.complaints() == ["the alarms cannot be read: FileNotFoundError"], "there are no claims there"
    (tmp_path / "claims").mkdir()
    unread = watch((tmp_path, f"sqlite:{tmp_path}/none.db"), lambda: now)
    unread.look()
    assert unread.complaints() == ["the sink cannot be read: OperationalError"]
    assert not (tmp_path / "none.db").exists(), "a watch changes nothing"
    empty = watch((tmp_path, None), lambda: now)
    empty.look()
    assert empty.complaints() == []
    now += 101
    empty.look()
    assert empty.complaints() == ["no window was completed for 101 s"]
    assert empty.seen is not None
    assert empty.seen.alarms == 0


def test_a_watch_that_hangs_is_unhealthy(copy: tuple[Path, str | None]) -> None:
    now = BASE + 3 * MINUTE + 1.0
    watched = watch(copy, lambda: now, stale_after=1000)
    watched.look()
    now += 61
    assert watched.complaints() == ["the sink has not answered for 61 s"]


class Dropped:
    """A cause that knows what is private."""

    def look(self, now: float, stale_after: float) -> Findings:  # noqa: ARG002
        return ["5 % of the rows were dropped"], {"rows_late": 5.0, "partition_lag_records": {0: 3.0}}


def has_ipv6() -> bool:
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as one:
        one.bind(("::1", 0))
        return True
    return False


@pytest.mark.parametrize(
    ("address", "client"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.2", "127.0.0.2"),
        ("0.0.0.0", "127.0.0.1"),  # noqa: S104 - only public facts
        ("::1", "[::1]"),
        ("::", "[::1]"),
        ("::", "127.0.0.1"),
    ],
)
def test_an_address_that_others_reach_serves_what_is_public_alone(
    stream: tuple[Path, str | None], address: str, client: str
) -> None:
    if ":" in address and not has_ipv6():
        pytest.skip("this machine has no IPv6")
    place, database = stream
    clock = lambda: BASE + 3 * MINUTE + 7.5  # noqa: E731
    policy = policy_of(place, stale_after=100, alarms=f"{place}/claims/flights.alarms", database=database)
    watched, plain = Watch(*policy, causes=[Dropped()], clock=clock), Watch(*policy, clock=clock)
    watched.look()
    plain.look()
    with served(watched, address, client) as get, served(plain) as public:
        if address in ("127.0.0.1", "127.0.0.2", "::1"):
            assert "rows_late" in get("/metrics")[1]
            status, line = get("/health")
            assert (status, json.loads(line)["rows_late"]) == (503, 5)
        else:
            assert get("/metrics") == public("/metrics"), "as of a watch that knows nothing else"
            assert get("/health") == public("/health")
            assert get("/other") == public("/other")


def test_the_operators_file_of_health_has_what_the_address_does_not_serve(
    stream: tuple[Path, str | None], tmp_path: Path
) -> None:
    class OnceOnly(Dropped):
        looks = 0

        def look(self, now: float, stale_after: float) -> Findings:
            self.looks += 1
            if self.looks > 1:
                raise SystemExit
            return super().look(now, stale_after)

    place, database = stream
    watched = Watch(*policy_of(place, database=database), causes=[OnceOnly()], clock=lambda: BASE + 3 * MINUTE)
    watched.look()
    file = tmp_path / "health.json"
    with Server(watched, 0, "0.0.0.0") as server, pytest.raises(SystemExit):  # noqa: S104 - only public facts
        server.keep_on(0, file)
    assert json.loads(file.read_text())["rows_late"] == 5


@pytest.mark.parametrize("text", ["localhost", "", "127.0.0.1:9100", "[::1]", "256.1.1.1"])
def test_an_address_is_an_ip_address(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidInputError, match="address"):
        policy_of(tmp_path, address=text)


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="asks Linux who listens where")
def test_the_command_listens_on_loopback_alone_and_keeps_the_line_of_health(
    copy: tuple[Path, str | None], forks: Forks
) -> None:
    place, database = copy
    files = options(place)[2:4]  # the agreement and the job
    own = [f"alarms={place}/claims/flights.alarms", "port=0", f"health={place}/health.json", "check_every=0.1"]
    own += [f"database={database}"] if database else []
    given = ["stream", "watch", *files, *(f"--set={one}" for one in own)]
    with forks.started(given, ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        said = process.stdout.readline().decode()
        addresses = listening(process.pid)
        deadline = time.monotonic() + PATIENCE
        while not (place / "health.json").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    port = int(said.split(":")[2].split("/")[0])
    assert addresses == {f"0100007F:{port:04X}"}, said
    assert json.loads((place / "health.json").read_text()).keys() >= {"healthy", "time", "complaints"}


def listening(process: int) -> set[str]:
    """Return the addresses at which a process listens, as Linux writes them."""
    held = set()
    for descriptor in Path(f"/proc/{process}/fd").iterdir():
        with contextlib.suppress(OSError):
            held.add(str(descriptor.readlink()))
    found = set()
    for table in ("tcp", "tcp6"):
        rows = [row.split() for row in Path("/proc/net", table).read_text().splitlines()[1:]]
        found |= {row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in held}
    return found
