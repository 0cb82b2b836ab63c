"""The dashboard, the alerts and the collector's configuration have the metrics that a watch serves, and all of them."""

import json
import re
import urllib.request
from pathlib import Path

import pytest

from streamsketch.jobs import DroppedRows, FlinkJob, Watch, brokers
from streamsketch.once.counts import RowCounts, Tally
from streamsketch.streams import FileSink, Slot
from streamsketch.streams.job import Job
from tests.beam.streams.prism import BASE
from tests.jobs.job import KEYS, policy_of

pytest.importorskip("prometheus_client")
pytest.importorskip("confluent_kafka")

from streamsketch.jobs import PartitionLag, Server, SilentPartitions
from streamsketch.jobs.serving import METRICS
from tests.jobs.test_causes import PREFIX, Broker, Flink, flink
from tests.patience import PATIENCE

yaml = pytest.importorskip("yaml")
__all__ = ["flink"]  # the fixture

ROOT = Path(__file__).parents[2]
MONITORING = ROOT / "pipelines/monitoring"
ON_FLINK = "The job on Flink, with flink in the watch's job"


def metrics_in(text: str) -> set[str]:
    return set(re.findall(PREFIX + r"([a-z_]+)", text))


def headings(page: Path) -> set[str]:
    found = re.findall(r"^## (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^a-z0-9 -]", "", one.lower()).replace(" ", "-") for one in found}


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watch:
    """Return a watch beside `stream kafka`, with all that its job may name."""
    monkeypatch.setattr(brokers, "Consumer", Broker({0: 1, 1: 1}).consumer)
    tally = Tally(str(tmp_path / "counts"))
    tally.add(RowCounts(read=10, late=1))
    tally.flush(now=True)
    (tmp_path / "alarms").mkdir()
    agreement, job = policy_of(tmp_path, alarms=str(tmp_path / "alarms"))
    for key in KEYS:
        FileSink(job.folder).put(Slot("flights", BASE * 10**6, "text", key), b"a release")
    topic = "broker:9092", "sales"
    causes = [
        DroppedRows(tmp_path / "counts"),
        SilentPartitions(*topic, 30),
        PartitionLag(*topic, "streamsketch-flights"),
    ]
    found = Watch(agreement, job, causes=causes)
    found.look()
    return found


@pytest.fixture
def served(watched: Watch) -> set[str]:
    """Return the names of the metrics that are served beside `stream kafka`."""
    with (
        Server(watched, 0) as server,
        urllib.request.urlopen(f"{server.url}/metrics", timeout=PATIENCE) as answer,  # noqa: S310 - HTTP alone
    ):
        return metrics_in(answer.read().decode())


@pytest.fixture
def of_flink(flink: tuple[Flink, str]) -> set[str]:
    """Return the names of those that only a job on Flink has."""
    return set(FlinkJob(flink[1]).look(100, 60)[1])


def test_every_metric_that_is_served_is_described(served: set[str], of_flink: set[str]) -> None:
    assert served | of_flink == METRICS.keys()
    assert metrics_in((ROOT / "docs/reference/monitoring.md").read_text()) == METRICS.keys()
    assert metrics_in((ROOT / "docs/how-to/runbook.md").read_text()) <= METRICS.keys()


def test_the_dashboard_shows_every_metric_and_those_of_flink_apart(served: set[str], of_flink: set[str]) -> None:
    panels = json.loads((MONITORING / "dashboard.json").read_text())["panels"]
    shown, title = dict[str, set[str]](), ""
    for panel in panels:
        if panel["type"] == "row":
            title = panel["title"]
            shown[title] = set()
        for one in panel.get("targets", ()):
            assert '{stream=~"$stream"}' in one["expr"]
            shown[title] |= metrics_in(one["expr"])
    assert shown.pop(ON_FLINK) == of_flink
    assert set().union(*shown.values()) == served
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = [(at["x"], at["y"]) for at in (panel["gridPos"] for panel in panels)]
    assert taken == sorted(set(taken), key=lambda place: (place[1], place[0])), "from top to bottom, none on another"


def test_alerts_name_metrics_that_are_served_and_sections_of_the_runbook(served: set[str], of_flink: set[str]) -> None:
    (group,) = yaml.safe_load((MONITORING / "alerts.yml").read_text())["groups"]
    used = set().union(*(metrics_in(rule["expr"]) for rule in group["rules"]))
    assert used <= served | of_flink
    assert METRICS.keys() - used == {"releases", "lag_seconds", "partitions"}, "all others have an alert"
    names = [rule["alert"] for rule in group["rules"]]
    assert len(set(names)) == len(names)
    for rule in group["rules"]:
        page, _, section = rule["annotations"]["runbook"].partition("#")
        assert section in headings(ROOT / page), rule["alert"]
        assert re.fullmatch(r"\d+[mh]", rule["for"])


def test_the_collector_reads_what_a_watch_serves(watched: Watch) -> None:
    config = yaml.safe_load((MONITORING / "collector.yaml").read_text())
    (scrape,) = config["receivers"]["prometheus"]["config"]["scrape_configs"]
    (targets,) = scrape["static_configs"]
    defaults = Job(folder="releases", delay=0)
    assert targets == {"targets": [f"{defaults.address}:{defaults.port}"]}
    (kept,) = scrape["metric_relabel_configs"]
    assert kept["action"] == "keep"
    assert all(re.fullmatch(kept["regex"], PREFIX + name) for name in METRICS)
    (pipeline,) = config["service"]["pipelines"].values()
    assert set(pipeline["receivers"]) == config["receivers"].keys()
    assert set(pipeline["exporters"]) == config["exporters"].keys()
    with (
        Server(watched, 0) as server,
        urllib.request.urlopen(server.url + scrape["metrics_path"], timeout=PATIENCE) as answer,  # noqa: S310 - likewise
    ):
        assert answer.status == 200
