"""The manifests of pipelines/kubernetes name commands, fields, ports and paths that exist, and agree with the job."""

import dataclasses
import shutil
import subprocess
import urllib.request
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import typer

import streamsketch as ss
from streamsketch.cli.app import app
from streamsketch.streams.job import Job
from streamsketch.streams.policy import StreamPolicy

pytest.importorskip("prometheus_client")

from streamsketch.jobs import Server, Watch
from tests.patience import PATIENCE

yaml = pytest.importorskip("yaml")

FOLDER = Path(__file__).parents[2] / "pipelines/kubernetes"
WRITTEN = ("folder", "state", "summary", "alarms", "counts")  # by the stream, of the places in its job
PUBLIC = {"job", "stream", "delay", "clock", "folder", "alarms", "address", "port"}


def objects() -> dict[str, Any]:
    """Return the objects of all manifests, by their kinds."""
    files = [FOLDER / name for name in yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["resources"]]
    return {each["kind"]: each for file in files for each in yaml.safe_load_all(file.read_text())}


OBJECTS = objects()
POD = OBJECTS["StatefulSet"]["spec"]["template"]["spec"]
CONTAINERS = {each["name"]: each for each in [*POD["initContainers"], *POD["containers"]]}
KUSTOMIZED = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())


def mount_of(container: str, place: str) -> Any:
    """Return the mount in which a place is, the innermost of several."""
    path = PurePosixPath(place)
    mounts = [one for one in CONTAINERS[container]["volumeMounts"] if path.is_relative_to(one["mountPath"])]
    assert mounts, (container, place, "is in no mount")
    return max(mounts, key=lambda one: len(one["mountPath"]))


@pytest.mark.parametrize(("name", "job"), [("stream", "job.json"), ("watch", "watch.json")])
def test_each_command_exists_and_reads_files_that_are_mounted(name: str, job: str) -> None:
    arguments, found = list(CONTAINERS[name]["args"]), typer.main.get_command(app)
    parents: list[Any] = []
    while hasattr(found, "commands"):
        parents.append(found)
        found = found.commands[arguments.pop(0)]
    found = found.loaded() if hasattr(found, "loaded") else found
    given = found.make_context("streamsketch", arguments).params
    (generated,) = KUSTOMIZED["configMapGenerator"]
    assert Path(given["job"]).name == job
    for option in ("agreement", "job"):
        path = Path(given[option])
        assert mount_of(name, str(path))["name"] == "job"
        assert path.name in generated["files"]
        assert (FOLDER / path.name).is_file()
    (volume,) = (one for one in POD["volumes"] if one["name"] == "job")
    assert volume["configMap"]["name"] == generated["name"]


def test_what_the_job_writes_is_on_a_disk_and_what_is_secret_is_the_streams_alone() -> None:
    job = Job.load(FOLDER / "job.json")
    StreamPolicy(ss.Agreement.load(FOLDER / "agreement.json"), job).publisher()
    claims = {one["metadata"]["name"] for one in OBJECTS["StatefulSet"]["spec"]["volumeClaimTemplates"]}
    for field in WRITTEN:
        mount = mount_of("stream", getattr(job, field))
        assert mount["name"] in claims, field
        assert not mount.get("readOnly"), field
        assert (mount["name"] == "published") == (field == "folder"), field
    assert mount_of("stream", str(job.client_settings))["name"] == "settings"
    assert f"install -m 0600 /secrets/client.properties {job.client_settings}" in CONTAINERS["settings"]["args"][0]
    assert f"mkdir -p -m 0700 {job.alarms}" in CONTAINERS["settings"]["args"][0]
    (settings,) = (one for one in POD["volumes"] if one["name"] == "settings")
    assert settings["emptyDir"]["medium"] == "Memory"
    assert PurePosixPath(job.folder).parent != PurePosixPath("/"), "the folder of unfinished files is beside it"


def test_the_watch_sees_what_is_published_and_the_names_of_alarms_alone() -> None:
    job, watched = Job.load(FOLDER / "job.json"), Job.load(FOLDER / "watch.json")
    assert watched.to_dict().keys() <= PUBLIC
    shared = dataclasses.replace(job, address=watched.address, port=watched.port).to_dict()
    assert watched.to_dict().items() <= shared.items()
    mounts = CONTAINERS["watch"]["volumeMounts"]
    assert all(one.get("readOnly") for one in mounts if one["name"] != "tmp")
    assert {one["name"] for one in mounts} == {"job", "state", "published", "tmp"}
    (alarms,) = (one for one in mounts if one["name"] == "state")
    assert str(PurePosixPath("/state") / alarms["subPath"]) == alarms["mountPath"] == job.alarms
    assert "envFrom" not in CONTAINERS["watch"]


def test_probes_ask_for_pages_that_are_served_where_they_ask(tmp_path: Path) -> None:
    job, container = Job.load(FOLDER / "watch.json"), CONTAINERS["watch"]
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    moved = dataclasses.replace(job, folder=str(tmp_path / "releases"), alarms=str(tmp_path / "alarms"))
    watch = Watch(ss.Agreement.load(FOLDER / "agreement.json"), moved)
    watch.look()
    asked = [container[probe]["httpGet"] for probe in ("readinessProbe", "livenessProbe")]
    assert [one["path"] for one in asked] == ["/health", "/metrics"]
    with Server(watch, 0, job.address) as server:
        assert not server.is_private
        for one in asked:
            assert ports[one["port"]] == job.port
            address = f"http://127.0.0.1:{server.server_port}{one['path']}"
            with urllib.request.urlopen(address, timeout=PATIENCE) as answer:
                assert answer.status == 200
    (port,) = OBJECTS["Service"]["spec"]["ports"]
    assert port["targetPort"] in ports
    assert port["port"] == job.port


def test_the_network_lets_through_what_the_job_needs_and_no_more() -> None:
    job, watched = Job.load(FOLDER / "job.json"), Job.load(FOLDER / "watch.json")
    policy = OBJECTS["NetworkPolicy"]["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert [port["port"] for rule in policy["ingress"] for port in rule["ports"]] == [watched.port]
    assert all(rule["from"] for rule in policy["ingress"])
    brokers = {int(one.rpartition(":")[2]) for one in str(job.servers).split(",")}
    assert {port["port"] for rule in policy["egress"] for port in rule["ports"]} == {53, *brokers}


def test_no_container_has_rights_that_it_does_not_need() -> None:
    assert POD["securityContext"]["runAsNonRoot"]
    assert POD["securityContext"]["runAsUser"] > 0
    assert POD["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch"
    assert not POD["automountServiceAccountToken"]
    for container in CONTAINERS.values():
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"]
        assert not context["allowPrivilegeEscalation"]
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["limits"]["memory"]


def test_one_process_has_the_state_and_no_secret_is_in_a_manifest() -> None:
    of_set = OBJECTS["StatefulSet"]["spec"]
    assert of_set["replicas"] == 1
    assert "Secret" not in OBJECTS
    assert "secretGenerator" not in KUSTOMIZED
    (state,) = (one for one in of_set["volumeClaimTemplates"] if one["metadata"]["name"] == "state")
    assert state["spec"]["accessModes"] == ["ReadWriteOncePod"]
    assert set(of_set["persistentVolumeClaimRetentionPolicy"].values()) == {"Retain"}
    volumes = {one["name"] for one in POD["volumes"]} | {
        one["metadata"]["name"] for one in of_set["volumeClaimTemplates"]
    }
    assert {one["name"] for each in CONTAINERS.values() for one in each["volumeMounts"]} == volumes


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl builds what Kustomize makes")
def test_kustomize_builds_it() -> None:
    done = subprocess.run(["kubectl", "kustomize", FOLDER], capture_output=True, text=True, check=False)  # noqa: S603, S607
    if "unknown command" in done.stderr:
        pytest.skip("this kubectl has no kustomize")
    assert done.returncode == 0, done.stderr
    built = {each["kind"]: each for each in yaml.safe_load_all(done.stdout)}
    assert built.keys() == {*OBJECTS, "ConfigMap"}
    assert set(built["ConfigMap"]["data"]) == {"agreement.json", "job.json", "watch.json"}
    spec = built["StatefulSet"]["spec"]
    assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
    (volume,) = (one for one in spec["template"]["spec"]["volumes"] if one["name"] == "job")
    assert volume["configMap"]["name"] == built["ConfigMap"]["metadata"]["name"]


@pytest.mark.skipif(shutil.which("kubectl-validate") is None, reason="it has the schemas of Kubernetes")
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl builds what Kustomize makes")
def test_the_schemas_of_kubernetes_accept_it(tmp_path: Path) -> None:
    built = subprocess.run(["kubectl", "kustomize", FOLDER], capture_output=True, check=True).stdout  # noqa: S603, S607
    for name, content, status in (("ours", built, 0), ("other", built.replace(b"serviceName:", b"serviceNames:"), 1)):
        (tmp_path / f"{name}.yaml").write_bytes(content)
        checked = ["kubectl-validate", tmp_path / f"{name}.yaml", "--version", "1.30"]
        done = subprocess.run(checked, capture_output=True, text=True, check=False)  # noqa: S603
        assert done.returncode == status, done.stderr
