"""``streamsketch explain``, through the real executable."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import streamsketch as ss
from streamsketch.privacy.noise import NoiseMoments
from tests.cli.running import Forks
from tests.tampering import tampered

PROJECTION = ss.SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=3)


def gaussian(sketch: ss.Sketch | None = None) -> ss.PrivateSketch:
    """Release a sketch, by default one of data of its own."""
    if sketch is None:
        sketch = PROJECTION.sketch()
        sketch.update([1, 2], [500, 700])
    return sketch.release(epsilon=1.0, delta=1e-6, neighbours=ss.L1(1, unit="sale"), mechanism="gaussian")


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    for name in ("north", "south"):
        gaussian().save(tmp_path / f"{name}.sketch")
    ss.PrivateTable({key: gaussian() for key in ("AA", "B6", "\x1b[2J")}).save(tmp_path / "table.parquet")
    return [tmp_path / "north.sketch", tmp_path / "south.sketch", tmp_path / "table.parquet"]


def test_one_file_is_explained_within_eighty_columns(files: list[Path], forks: Forks) -> None:
    done = forks.run("explain", files[0])
    assert done.returncode == 0
    explained = f"{files[0]}\n\n{ss.load(files[0]).explain()}\n"
    assert done.stdout.startswith(f"{explained}\n{files[0]}\n"), "what it holds stands below"
    assert "Together" not in done.stdout
    assert max(map(len, explained.splitlines()[1:])) <= 80


def test_several_files_are_added_up(files: list[Path], forks: Forks) -> None:
    done = forks.run("explain", *files)
    shown = " ".join(done.stdout.split())
    assert done.returncode == 0
    assert "table.parquet: 3 keys (\\x1b[2J, AA, B6)" in shown
    assert "as long as no unit is in more keys than the guarantee allows" in " ".join(shown.split())
    assert "\x1b" not in done.stdout
    assert "Together, 3 releases: if one sale may be in all of them, ε and δ add up to ε = 3, δ = 3e-06" in shown
    assert "by the closed form for Gaussian noise" in shown


def test_files_of_disjoint_populations_keep_the_largest_guarantee(files: list[Path], forks: Forks) -> None:
    shown = " ".join(forks.run("explain", *files, "--populations", "disjoint").stdout.split())
    assert "if no sale is in two of the streams, the largest guarantee holds: ε = 1, δ = 1e-06" in shown


def test_releases_for_different_neighbours_are_explained_one_by_one(files: list[Path], forks: Forks) -> None:
    other = files[0].with_name("other.sketch")
    PROJECTION.sketch().release(epsilon=1.0, neighbours=ss.L1(2)).save(other)
    done = forks.run("explain", files[0], other)
    assert done.returncode == 0
    assert done.stdout.count("Guarantee") == 2
    assert "these releases have different neighbour relations, L1(1, unit='sale'), L1(2, unit='event')" in " ".join(
        done.stdout.split()
    )


def test_json_has_it_all(files: list[Path], forks: Forks) -> None:
    done = forks.run("explain", *files, "--delta", 1e-5, "--json")
    told = json.loads(done.stdout)
    assert [Path(one["file"]).name for one in told["releases"]] == ["north.sketch", "south.sketch", "table.parquet"]
    assert told["releases"][2]["keys"][1:] == ["AA", "B6"]
    assert told["releases"][0]["check"]["verdict"] == "enough"
    assert told["together"]["delta"] == told["together"]["finer"]["delta"] == 1e-5
    assert told["together"]["guarantee"]["epsilon"] == 3.0


def test_mistakes_are_sentences(files: list[Path], forks: Forks) -> None:
    folder = files[0].parent
    (folder / "cut.sketch").write_bytes(files[0].read_bytes()[:-1])
    (folder / "broken.parquet").write_bytes(files[2].read_bytes()[:50])
    pq.write_table(pq.read_table(files[2]).slice(0, 0), folder / "empty.parquet")
    for arguments, message in (
        (["empty.parquet"], "empty.parquet is not a valid table of private sketches: length: a table without a row"),
        (["empty.parquet", files[0]], "a table without a row"),
        (["cut.sketch"], "cut.sketch is not a valid private sketch: "),
        (["broken.parquet"], "broken.parquet is not a valid table of private sketches: "),
        (["nowhere.sketch"], "nowhere.sketch does not exist"),
        (["."], "cannot be read or written: Is a directory"),
        ([*files, "--delta", 1e-9], "at least the sum that the releases spend"),
    ):
        assert message in forks.refused("explain", *arguments, cwd=folder)


def test_strangers_keys_and_names_forge_no_line(tmp_path: Path, forks: Forks) -> None:
    forged = "AA\n\nGuarantee  ε = 0.001, δ = 0 for one sale"
    release = PROJECTION.sketch().release(epsilon=1.0, neighbours=ss.L1(1, unit="sale"))
    other = PROJECTION.sketch().release(epsilon=1.0, neighbours=ss.L1(1, unit="sale"))
    ss.PrivateTable({forged: release, "turn\u202eback\x9b": other}).save(tmp_path / "keys.parquet")
    release.save(tmp_path / "turn\u202eback\n.sketch")
    for arguments in (["explain", "keys.parquet"], ["compare", "keys.parquet"]):
        shown = forks.run(*arguments, cwd=tmp_path).stdout
        assert "AA\\n\\nGuarantee" in shown
        assert not any(line.lstrip().startswith("Guarantee  ε = 0.001") for line in shown.splitlines())
        told = forks.run(*arguments, "--json", cwd=tmp_path).stdout
        assert all(char.isprintable() or char == "\n" for char in shown + told)
        json.loads(told)
    assert forks.run("explain", "turn\u202eback\n.sketch", cwd=tmp_path).stdout.startswith(
        "turn\\u202eback\\n.sketch\n"
    )
    rows = json.loads(forks.run("explain", "keys.parquet", "--json", cwd=tmp_path).stdout)["files"][0]["releases"]
    assert [row["key"] for row in rows] == [forged, "turn\u202eback\x9b"]
    forged_name = forks.run("compare", "no\nerror: such", "keys.parquet", cwd=tmp_path)
    assert forged_name.returncode == 2
    assert forged_name.stderr.count("\n") == 1


def test_tables_that_share_a_release_count_as_the_tables_they_are(tmp_path: Path, forks: Forks) -> None:
    one = ss.L1(1, unit="sale")
    releases = [PROJECTION.sketch().release(epsilon=1.0, neighbours=one) for _ in range(4)]
    large = PROJECTION.sketch().release(epsilon=2.0, neighbours=one)
    forged = tampered(releases[0], epsilon=4.0)
    tables = {
        "ab": {"a": releases[0], "b": releases[1]},
        "ac": {"a": releases[0], "c": releases[2]},
        "bc": {"b": releases[1], "c": releases[2]},
        "b": {"b": releases[1]},
        "ad": {"a": releases[0], "d": releases[3]},
        "large": {"e": large},
        "forged": {"a": forged},
    }
    for name, table in tables.items():
        ss.PrivateTable(table).save(tmp_path / f"{name}.parquet")
    releases[0].save(tmp_path / "a.sketch")
    for given, told in (
        (
            ["ab.parquet", "ac.parquet"],
            "Together, 2 releases: if one sale may be in all of them, ε and δ add up to ε = 2,",
        ),
        (["ab.parquet", "b.parquet"], "Together, 2 releases, of which 1 counts"),
        (["b.parquet", "ab.parquet", "a.sketch"], "Together, 3 releases, of which 1 counts"),
        (["ab.parquet", "ac.parquet", "bc.parquet"], "Together, 3 releases, of which 2 count"),  # two make the third
        (["ab.parquet", "ac.parquet", "ad.parquet"], "ε and δ add up to ε = 3,"),
        (["ab.parquet", "large.parquet"], "ε and δ add up to ε = 3,"),
    ):
        shown = " ".join(forks.run("explain", *given, cwd=tmp_path).stdout.split())
        assert told in shown, (given, shown[shown.index("Together") :])
    refused = forks.refused("explain", "ab.parquet", "forged.parquet", cwd=tmp_path)
    assert "releases 1 and 2 of 2 have the same id, but differ: guarantees." in refused


def test_one_key_with_too_little_noise_spoils_its_tables_sum(tmp_path: Path, forks: Forks) -> None:
    one = ss.L1(1, unit="sale")
    sound, other = (PROJECTION.sketch().release(epsilon=1.0, neighbours=one) for _ in range(2))
    ss.PrivateTable({"a": sound, "b": tampered(other, noise=NoiseMoments(0.5, 0.1))}).save(tmp_path / "all.parquet")
    PROJECTION.sketch().release(epsilon=1.0, neighbours=one).save(tmp_path / "c.sketch")
    shown = " ".join(forks.run("explain", "all.parquet", "c.sketch", cwd=tmp_path).stdout.split())
    assert "WARNING: 1 of them state too little noise for their guarantee, so this does not hold." in shown


def test_files_are_one_entry_of_the_public_registry(files: list[Path], forks: Forks) -> None:
    one = json.loads(forks.succeeded("explain", "--registry", files[0]))
    assert one == ss.load(files[0]).explain().to_registry()
    both = json.loads(forks.succeeded("explain", "--registry", *files[:2], "--populations", "disjoint"))
    assert both["entry"]["deployment"]["privacy_loss"]["privacy_parameters"] == {"epsilon": 1.0, "delta": 1e-6}
    PROJECTION.sketch().release(epsilon=1.0, neighbours=ss.L1(1, unit="person")).save(files[0].with_name("x.sketch"))
    mixed = forks.refused("explain", "--registry", files[0], files[0].with_name("x.sketch"), cwd=files[0].parent)
    assert "one entry is for one neighbour relation" in mixed


def test_parts_of_a_history_are_named_and_no_row_is_compared(tmp_path: Path, forks: Forks) -> None:
    publish = ss.AdditiveNoise(epsilon=1.0, neighbours=ss.L1(1, unit="sale"), schedule=ss.continual.Tree(horizon=3))
    tables = ss.continual.release([PROJECTION.table() for _ in range(2)], publish, public_keys=["a", "b"])
    rows = [ss.continual.release([PROJECTION.sketch() for _ in range(2)], publish) for _ in range(2)]
    for name, published in (("t.parquet", tables[1]), ("1.sketch", rows[0][1]), ("2.sketch", rows[1][1])):
        published.save(tmp_path / name)
        shown = " ".join(forks.succeeded("explain", tmp_path / name).split())
        assert f"row 1 of history {published.history.id.hex()}, which alone is not a stream" in shown
        assert "squared norm" not in shown
        (fields,) = json.loads(forks.succeeded("explain", "--json", tmp_path / name))["files"]
        (one, *_) = fields.get("releases", [fields])
        assert (one["history"]["start"], one["history"]["is_row"]) == (1, True)
        assert "This is row 1 of a history: a weighted sum of windows up to 1" in " ".join(
            forks.succeeded("explain", tmp_path / name).split()
        )
    done = forks.run("compare", tmp_path / "1.sketch", tmp_path / "2.sketch")
    assert done.returncode == 2
    assert "row 1 of a schedule is not a stream" in " ".join(done.stderr.split())


def test_an_agreement_is_explained_with_its_windows_and_what_each_costs(tmp_path: Path, forks: Forks) -> None:
    agreed = ss.Agreement(
        ss.SJLT(sketch_dim=64, sparsity=4, seed=7), index="item", neighbours=ss.L1(1, unit="sale"),
        terms=ss.Terms(epsilon=1), windows=ss.Windows(time="at", every="day", zone="Europe/Berlin", first="2026-11-22"),
    )  # fmt: skip
    agreed.save(tmp_path / "a.json")
    agreed.replace(windows=None).save(tmp_path / "b.json")
    shown = " ".join(forks.succeeded("explain", "a.json", cwd=tmp_path).split())
    assert f"windows {agreed.windows}" in shown
    assert "for one sale in one day (Europe/Berlin)" in shown
    assert agreed.fingerprint in shown
    (one, two) = json.loads(forks.succeeded("explain", "a.json", "b.json", "--json", cwd=tmp_path))["agreements"]
    assert one["agreement"]["windows"] == agreed.to_dict()["windows"]
    assert (one["fingerprint"], two["agreement"]["guarantee"]["unit"]) == (agreed.fingerprint, "sale")
    (tmp_path / "c.json").write_text("{}")
    assert "c.json is not an agreement" in forks.refused("explain", "c.json", cwd=tmp_path)
