"""Every command names a file whose noise is not what it states; releases of the same data are not disjoint."""

import json
from pathlib import Path

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.privacy.noise import NoiseMoments
from streamsketch.release.private_sketch import PrivateSketch
from tests.cli.running import Forks
from tests.tampering import tampered

PROJECTION = ss.SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=3)
SALE = ss.L1(1, unit="sale")


def stream(count: int = 500) -> ss.Sketch:
    sketch = PROJECTION.sketch()
    sketch.update([1, 2], [count, 700])
    return sketch


def release(sketch: ss.Sketch | None = None) -> PrivateSketch:
    return (sketch or stream()).release(epsilon=1.0, neighbours=SALE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    honest, thin = release(), tampered(release(), noise=NoiseMoments(0.01, 0.0))
    for name in ("north", "south"):
        release().save(tmp_path / f"{name}.sketch")
    thin.save(tmp_path / "forged.sketch")
    ids = [*thin.release_ids, b"made up!"]
    PrivateSketch(PROJECTION, thin.values, thin.noise, thin.guarantee, release_ids=ids).save(tmp_path / "sum.sketch")
    PrivateSketch(
        PROJECTION, PROJECTION.sketch().state(), honest.noise, honest.guarantee, release_ids=honest.release_ids
    ).save(tmp_path / "empty.sketch")
    ss.PrivateTable({"sound": release(), "bad": tampered(release(), noise=NoiseMoments(0.01, 0.0))}).save(
        tmp_path / "table.parquet"
    )
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        ["compare", "north.sketch", "{}"],
        ["nearest", "north.sketch", "{}"],
        ["explain", "{}"],
        ["merge", "--mean", "north.sketch", "{}", "-o", "out.sketch", "--populations", "disjoint"],
        ["merge", "north.sketch", "{}", "-o", "out.sketch", "--populations", "disjoint"],
        ["report", "north.sketch", "{}", "-o", "out.html"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_every_command_names_a_file_whose_noise_is_not_what_it_states(
    arguments: list[str], folder: Path, forks: Forks
) -> None:
    wrong_ones = {
        "forged.sketch": "the estimates assume another noise than the discrete Laplace, scale 4",
        "south.sketch": None,
    }
    if arguments[0] == "explain":
        wrong_ones |= {
            "sum.sketch": "2 releases by discrete Laplace, scale 4 have a noise of variance",
            "empty.sketch": "the squared norm of its cells is 0 grid steps²",
        }
    for wrong, reason in wrong_ones.items():
        done = forks.run(*(argument.format(wrong) for argument in arguments), cwd=folder)
        assert done.returncode == 0, done.stderr
        said = [line for line in done.stderr.splitlines() if "warning" in line.lower()]
        if reason is None:
            assert said == []
        else:
            (line,) = said
            assert line.startswith(f"warning: {wrong} states too little noise for its guarantee")
            assert reason in line
        for written in folder.glob("out.*"):
            written.unlink()


def test_keys_of_a_table_are_named(folder: Path, forks: Forks) -> None:
    for command in ("compare", "nearest", "explain"):
        done = forks.run(command, "table.parquet", cwd=folder)
        assert "warning: table.parquet, key bad states too little noise" in done.stderr
        assert "key sound" not in done.stderr
    many = {f"key{place}": tampered(release(), noise=NoiseMoments(0.01, 0.0)) for place in range(8)}
    ss.PrivateTable(many).save(folder / "many.parquet")
    said = forks.run("explain", "many.parquet", cwd=folder).stderr.splitlines()
    assert len(said) == 6
    assert said[-1] == "warning: so do 3 more of the keys of many.parquet"


def test_signs_with_too_few_flips_are_named(tmp_path: Path, forks: Forks) -> None:
    projection = ss.projections.OPORP(dim=256, sketch_dim=64, seed=3)
    publish = ss.signs.DPSignOPORPRR(epsilon=2, neighbours=ss.OneCoordinate(1))
    x, y = (publish.release(projection.sketch()) for _ in range(2))
    y.save(tmp_path / "sound.signs")
    greedy = ss.signs.DPSignOPORPRR(epsilon=1, neighbours=ss.OneCoordinate(1)).guarantee(projection)
    ss.signs.SignSketch(projection, x.packed, x.law, greedy, release_id=x.release_id).save(tmp_path / "greedy.signs")
    for command in ("compare", "nearest"):
        done = forks.run(command, "sound.signs", "greedy.signs", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "warning: greedy.signs states too little noise" in done.stderr
        assert "sound.signs states" not in done.stderr


# --- releases of the same data ------------------------------------------------------------------------------------


def test_releases_of_the_same_data_are_not_disjoint(tmp_path: Path, forks: Forks) -> None:
    sketch = stream()
    for name in ("first", "second"):
        release(sketch).save(tmp_path / f"{name}.sketch")
    release().save(tmp_path / "other.sketch")
    files = ["first.sketch", "other.sketch", "second.sketch"]
    said = "first.sketch and second.sketch share data, so their populations are not disjoint"
    for arguments in (
        ["explain", *files],
        ["merge", *files, "-o", "out.sketch"],
        ["merge", "--mean", *files, "-o", "out.sketch"],
    ):
        assert said in forks.refused(*arguments, "--populations", "disjoint", cwd=tmp_path)
    shown = forks.run("explain", *files, cwd=tmp_path).stdout
    assert said in " ".join(shown.split())
    told = json.loads(forks.run("explain", *files, "--json", cwd=tmp_path).stdout)
    assert told["sharing"] == [["first.sketch", "second.sketch"]]
    apart = forks.run("explain", "first.sketch", "other.sketch", "--populations", "disjoint", cwd=tmp_path)
    assert apart.returncode == 0
    assert "some of the same data" not in apart.stdout


def test_copies_and_merges_beside_their_parts_are_not_refused(tmp_path: Path, forks: Forks) -> None:
    one, two = release(), release()
    one.save(tmp_path / "one.sketch")
    one.save(tmp_path / "copy.sketch")
    two.save(tmp_path / "two.sketch")
    one.combine(two, populations="disjoint").save(tmp_path / "both.sketch")
    files = ["one.sketch", "copy.sketch", "two.sketch", "both.sketch"]
    done = forks.run("explain", *files, "--populations", "disjoint", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "the largest guarantee holds: ε = 1, δ = 0" in " ".join(done.stdout.split())
    assert "some of the same data" not in done.stdout
    refused = forks.refused("explain", "one.sketch", "both.sketch", "--populations", "disjoint", cwd=tmp_path)
    assert "one.sketch and both.sketch share data" in refused


def test_tables_of_the_same_data_are_named(tmp_path: Path, forks: Forks) -> None:
    table = PROJECTION.table()
    table.update(["a", "a", "b"], [1, 2, 3], [500, 700, 900])
    for name in ("first", "second"):
        ss.PrivateTable({key: release(table[key]) for key in ("a", "b")}).save(tmp_path / f"{name}.parquet")
    told = json.loads(forks.run("explain", "first.parquet", "--json", cwd=tmp_path).stdout)
    assert told["sharing"] == [], "keys of one table hold different data"
    disjoint = ["--populations", "disjoint"]
    assert forks.run("explain", "first.parquet", *disjoint, cwd=tmp_path).returncode == 0
    refused = forks.refused("explain", "first.parquet", "second.parquet", *disjoint, cwd=tmp_path)
    assert "first.parquet and second.parquet share data" in refused
    release(table["b"]).save(tmp_path / "b.sketch")
    refused = forks.refused("explain", "b.sketch", "first.parquet", *disjoint, cwd=tmp_path)
    assert "b.sketch and first.parquet share data" in refused
    twice = {key: release(table["a"]) for key in ("a", "again")}
    with pytest.raises(ss.InvalidInputError, match="that one unit may be in 2 of them"):
        ss.PrivateTable(twice)


def test_signs_of_the_same_data_are_not_disjoint(tmp_path: Path, forks: Forks) -> None:
    projection = ss.projections.OPORP(dim=256, sketch_dim=64, seed=3)
    sketch = projection.sketch()
    publish = ss.signs.DPSignOPORPRR(epsilon=2, neighbours=ss.OneCoordinate(1))
    for name in ("first", "second"):
        publish.release(sketch).save(tmp_path / f"{name}.signs")
    files = ["first.signs", "second.signs"]
    assert "share data" in forks.refused("explain", *files, "--populations", "disjoint", cwd=tmp_path)
    assert "share data" in " ".join(forks.run("explain", *files, cwd=tmp_path).stdout.split())


# --- nearest ------------------------------------------------------------------------------------------------------


def test_nearest_prints_intervals_that_allow_for_selection(tmp_path: Path, forks: Forks) -> None:
    rng = np.random.default_rng(4)
    releases = {}
    for name in "abcdefgh":
        sketch = PROJECTION.sketch()
        sketch.update(np.arange(1000), rng.integers(-20, 20, 1000))
        releases[name] = release(sketch)
    ss.PrivateTable(releases).save(tmp_path / "all.parquet")
    distances = ss.pairwise(releases.values())
    for row in json.loads(forks.run("nearest", "all.parquet", "--json", cwd=tmp_path).stdout):
        estimate = distances["abcdefgh".index(row["of"]), "abcdefgh".index(row["neighbour"])]
        assert (row["low"], row["high"]) == pytest.approx(estimate.selected_interval(7))
        assert row["candidates"] == 7
        assert row["high"] > estimate.interval().high
    shown = forks.run("nearest", "all.parquet", "--to", "a", cwd=tmp_path).stdout
    best = min((float(distances.value[0, other]), other) for other in range(1, 8))[1]
    high = distances[0, best].selected_interval(7).high
    assert f"{high:,.0f}" in shown


def test_too_few_cells_for_an_upper_end_are_null(tmp_path: Path, forks: Forks) -> None:
    projection = PROJECTION.replace(sketch_dim=8)
    releases = {}
    for name in "abc":
        sketch = projection.sketch()
        sketch.update([1], [1000 * ord(name)])
        releases[name] = release(sketch)
    ss.PrivateTable(releases).save(tmp_path / "all.parquet")
    rows = json.loads(forks.run("nearest", "all.parquet", "--json", "--confidence", "0.9999", cwd=tmp_path).stdout)
    assert all(row["high"] is not None for row in rows), "of several candidates, the upper end is found by χ²"
    for confidence, ends in (("0.99", False), ("0.9", True)):
        done = forks.run("compare", "all.parquet", "--json", "--confidence", confidence, cwd=tmp_path)
        rows = json.loads(done.stdout)
        assert [row["high"] is not None for row in rows] == [ends] * 3
        shown = forks.run("compare", "all.parquet", "--confidence", confidence, cwd=tmp_path).stdout
        assert ("∞" in shown) != ends


def test_nearest_signs_allow_for_selection_too(tmp_path: Path, forks: Forks) -> None:
    projection = ss.projections.OPORP(dim=256, sketch_dim=64, seed=3)
    publish = ss.signs.DPSignOPORPRR(epsilon=4, neighbours=ss.OneCoordinate(1))
    rng = np.random.default_rng(5)
    releases = {}
    for name in "abcd":
        sketch = projection.sketch()
        sketch.update(np.arange(256), rng.integers(-20, 20, 256))
        releases[name] = publish.release(sketch)
    ss.signs.SignTable(releases).save(tmp_path / "all.parquet")
    for row in json.loads(forks.run("nearest", "all.parquet", "--json", cwd=tmp_path).stdout):
        angle = ss.signs.angle(releases[row["of"]], releases[row["neighbour"]]).scaled(180 / np.pi)
        found = row["angle_degrees"]
        assert (found["low"], found["high"]) == pytest.approx(tuple(angle.selected_interval(3)))
        assert found["confidence"] == 0.95
