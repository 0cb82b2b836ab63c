"""explain, compare and nearest of published signs, through the real executable."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

import streamsketch as ss
from streamsketch import signs
from tests.cli.running import ENVIRONMENT, Forks
from tests.cli.test_comparing import stream

PIXEL = ss.OneCoordinate(1, unit="pixel")
OPORP = ss.projections.OPORP(dim=784, sketch_dim=256, seed=3)
PLAIN = signs.DPSignOPORPRR(epsilon=4, neighbours=PIXEL)
SMOOTH = signs.DPSignOPORPRRSmooth(epsilon=4, neighbours=PIXEL)
INDIVIDUAL = signs.IDPSignOPORP(epsilon=4, neighbours=PIXEL)
NAMES = ["anna", "bert", "[cleo]"]
NORM = 2800.0


def sketch_of(name: str, projection: ss.projections.Projection = OPORP) -> ss.Sketch:
    """Return the sketch of one of two like vectors, or of another one."""
    rng = np.random.default_rng(1)
    rows = 100 * rng.standard_normal((2, 784))
    near = rows[0] + 20 * rng.standard_normal(784)
    sketch = projection.sketch()
    sketch.update(np.arange(784), {"anna": rows[0], "bert": near, "[cleo]": rows[1]}[name].astype(int))
    return sketch


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in NAMES:
        PLAIN.release(sketch_of(name)).save(tmp_path / f"{name}.signs")
        SMOOTH.release(sketch_of(name)).save(tmp_path / f"smooth-{name}.signs")
        INDIVIDUAL.release(sketch_of(name)).save(tmp_path / f"individual-{name}.signs")
    return tmp_path


def plain(prefix: str = "") -> list[str]:
    return [f"{prefix}{name}.signs" for name in NAMES]


# --- compare ----------------------------------------------------------------------------------------------------------


def test_compare_lists_the_nearest_pair_of_signs_first(folder: Path, forks: Forks) -> None:
    shown = forks.succeeded("compare", *plain(), "--confidence", "0.9", cwd=folder)
    assert "signs that differ, of 256; angles in degrees" in shown
    assert "90 % interval" in shown
    lines = [line for line in shown.splitlines() if "–" in line]
    assert lines[0].split()[:3] == ["anna", "–", "bert"]
    assert len(lines) == 3
    for line in lines:
        first, second = line.split()[0], line.split()[2]
        x, y = (ss.load(folder / f"{name}.signs") for name in (first, second))
        assert int(line.split()[3]) == signs.hamming_distance(x, y)
        assert float(line.split()[4]) == pytest.approx(math.degrees(signs.angle(x, y).value), abs=0.06)
        assert line.split()[-3:] == str(signs.cosine(x, y)).split()


def test_intervals_of_signs_that_hold_together_are_wider(folder: Path, forks: Forks) -> None:
    """Those of three pairs at 94 % together reach as far as those of each at 98 %, and are the library's."""
    call = ("compare", *plain(), "--json")
    alone, each, together = (
        json.loads(forks.succeeded(*call, *more, cwd=folder))
        for more in (("--confidence", "0.94"), ("--confidence", "0.98"), ("--confidence", "0.94", "--together"))
    )
    for own, wide, joint in zip(alone, each, together, strict=True):
        x, y = (ss.load(folder / f"{joint[name]}.signs") for name in ("first", "second"))
        low, high = (joint["angle_degrees"][end] for end in ("low", "high"))
        assert low <= wide["angle_degrees"]["low"] + 1e-9 < own["angle_degrees"]["low"]
        assert high >= wide["angle_degrees"]["high"] - 1e-9 > own["angle_degrees"]["high"]
        expected = signs.angle(x, y).scaled(180 / math.pi).selected_interval(3, 0.94)
        assert (low, high) == pytest.approx(tuple(expected), abs=1e-9)


@pytest.mark.parametrize("prefix", ["smooth-", "individual-"])
def test_flips_that_depend_on_the_cells_take_a_norm(prefix: str, folder: Path, forks: Forks) -> None:
    x, y, _ = (ss.load(folder / name) for name in plain(prefix))
    without = forks.run("compare", *plain(prefix), "--json", cwd=folder)
    rows = json.loads(without.stdout)
    assert "angles need the vectors' Euclidean norms: give --norm" in without.stderr
    assert [(row["angle_degrees"], row["cosine"]) for row in rows] == [(None, None)] * 3
    assert rows[0]["hamming_distance"] == signs.hamming_distance(x, y)
    shown = forks.run("compare", *plain(prefix), cwd=folder).stdout
    assert "angle" not in shown
    done = forks.run("compare", *plain(prefix), "--norm", NORM, "--norm", f"{prefix}bert=3000", "--json", cwd=folder)
    row = json.loads(done.stdout)[0]
    assert done.stderr == ""
    assert (row["first"], row["second"], row["sketch_dim"]) == (f"{prefix}anna", f"{prefix}bert", 256)
    angle = signs.angle(x, y, norm_x=NORM, norm_y=3000)
    assert row["angle_degrees"]["value"] == pytest.approx(math.degrees(angle.value))
    assert row["angle_degrees"]["standard_error"] == pytest.approx(math.degrees(angle.standard_error))
    assert (row["angle_degrees"]["low"], row["angle_degrees"]["high"]) == pytest.approx(
        [math.degrees(end) for end in angle.interval(0.95)]
    )
    assert row["cosine"]["value"] == pytest.approx(signs.cosine(x, y, norm_x=NORM, norm_y=3000).value)


def test_signs_below_the_noise_floor_have_no_cosine(folder: Path, forks: Forks) -> None:
    weak = signs.DPSignOPORPRR(epsilon=0.1, neighbours=PIXEL)
    for name in ("x", "y"):
        weak.release(OPORP.sketch()).save(folder / f"{name}.signs")
    assert "unknown" in forks.run("compare", "x.signs", "y.signs", cwd=folder).stdout
    (row,) = json.loads(forks.run("compare", "x.signs", "y.signs", "--json", cwd=folder).stdout)
    assert row["cosine"] is None
    assert row["angle_degrees"]["standard_error"] > 90


def test_signs_published_in_different_ways_are_ordered_with_a_warning(folder: Path, forks: Forks) -> None:
    names = ["anna.signs", "smooth-bert.signs"]
    assert "need not be that of the angles" in forks.run("compare", *names, cwd=folder).stderr
    assert "need not be that" not in forks.run("compare", *names, "--norm", NORM, cwd=folder).stderr, "by the angle"
    assert "need not be that of the angles" in forks.run("nearest", *names, "--norm", NORM, cwd=folder).stderr
    assert forks.run("nearest", *plain(), cwd=folder).stderr == ""


def test_a_table_of_signs_is_read_like_files(folder: Path, forks: Forks) -> None:
    ss.signs.SignTable({name: PLAIN.release(sketch_of(name)) for name in NAMES}).save(folder / "all.parquet")
    rows = json.loads(forks.run("nearest", "all.parquet", "--top", 1, "--json", cwd=folder).stdout)
    assert [(row["of"], row["neighbour"], row["rank"]) for row in rows][1:] == [
        ("anna", "bert", 1),
        ("bert", "anna", 1),
    ]
    mixed = forks.run("compare", "all.parquet", "anna.signs", cwd=folder).stdout
    assert "all:anna" in mixed
    (told,) = json.loads(forks.run("explain", "all.parquet", "--json", cwd=folder).stdout)["files"]
    assert [row["key"] for row in told["releases"]] == sorted(NAMES)
    assert "keys" in forks.run("explain", "all.parquet", cwd=folder).stdout
    shown = " ".join(forks.run("explain", "all.parquet", "smooth-anna.signs", cwd=folder).stdout.split())
    assert "all.parquet: 3 keys ([cleo], anna, bert)" in shown
    assert "Together, 2 releases: if one pixel may be in all of them, ε and δ add up to ε = 8, δ = 0" in shown


def test_what_signs_cannot_be_compared_with_is_refused(folder: Path, forks: Forks) -> None:
    near = ss.L1(1, unit="pixel")
    stream(500, OPORP).release(epsilon=1.0, neighbours=near).save(folder / "a.sketch")
    ss.PrivateTable({"a": stream(5, OPORP).release(epsilon=1.0, neighbours=near)}).save(folder / "all.parquet")
    PLAIN.release(sketch_of("anna", OPORP.replace(seed=4))).save(folder / "other.signs")
    (folder / "copy.signs").write_bytes((folder / "anna.signs").read_bytes())
    (folder / "disguised.sketch").write_bytes((folder / "bert.signs").read_bytes())
    (folder / "cut.signs").write_bytes((folder / "anna.signs").read_bytes()[:-1])
    (folder / "broken.parquet").write_text("no table")
    for command in ("compare", "nearest"):
        for arguments, message in [
            (["anna.signs"], f"{command} needs at least two sketches (each key of a table is one), got 1"),
            (["anna.signs", "anna.signs"], "named twice"),
            (["anna.signs", "copy.signs"], "anna and copy: two of these are the same release"),
            (["anna.signs", "other.signs"], "anna.signs and other.signs: the sketches were made with different"),
            (["anna.signs", "other.signs"], "seed (3 here, 4 there)"),
            (["anna.signs", "a.sketch"], "anna.signs holds published signs and a.sketch does not"),
            (["all.parquet", "anna.signs"], "sketches with sketches. Give files of one kind"),
            (["disguised.sketch", "a.sketch"], "disguised.sketch holds published signs and a.sketch does not"),
            (["anna.signs", "cut.signs"], "cut.signs is not a valid sign sketch: "),
            (["anna.signs", "broken.parquet"], "broken.parquet does not"),
            (["anna.signs", "nowhere.signs"], "nowhere.signs does not exist"),
            (["anna.signs", "bert.signs", "--confidence", "95"], "confidence must lie in (0, 1), got 95.0"),
            (["smooth-anna.signs", "smooth-bert.signs", "--norm", "-1"], "a norm must be a positive, finite number"),
            (["anna.signs", "bert.signs", "--norm", "long"], "--norm takes a number, or NAME=number, got long"),
            (["anna.signs", "bert.signs", "--norm", "eve=1"], "--norm names eve, and there are anna, bert"),
            (["anna.signs", "bert.signs", "--norm", "1", "--norm", "2"], "--norm was given twice for all"),
            (["all.parquet", "a.sketch", "--norm", "1"], "--norm is for published signs"),
        ]:
            assert message in forks.refused(command, *arguments, cwd=folder)
    assert "published signs" in forks.refused("compare", "anna.signs", "a.sketch", "--raw", cwd=folder)


def test_what_takes_sketches_alone_says_who_takes_signs(folder: Path, forks: Forks) -> None:
    said = "anna.signs holds a sign sketch, not a private sketch: explain, compare and nearest take signs"
    for command in (["merge", "-o", "sum.sketch"], ["merge", "--mean", "-o", "mean.sketch"]):
        arguments = [*command, "anna.signs", "bert.signs", "--populations", "disjoint"]
        assert said in forks.refused(*arguments, cwd=folder)
    assert said in forks.refused("report", "anna.signs", "bert.signs", "-o", "all.html", cwd=folder)


# --- nearest ----------------------------------------------------------------------------------------------------------


def test_nearest_is_the_librarys_order(folder: Path, forks: Forks) -> None:
    rows = json.loads(forks.run("nearest", *plain(), "--json", cwd=folder).stdout)
    released = {name: ss.load(folder / f"{name}.signs") for name in NAMES}
    for name in NAMES:
        others = [other for other in NAMES if other != name]
        found = signs.nearest([released[name]], [released[other] for other in others], 2)
        told = [row for row in rows if row["of"] == name]
        assert [row["neighbour"] for row in told] == [others[place] for place in found.places[0]]
        assert [row["hamming_distance"] for row in told] == found.distances[0].tolist()
        assert [row["rank"] for row in told] == [1, 2]
    shown = forks.run("nearest", *plain(), "--to", "anna", "--top", 1, cwd=folder).stdout
    assert "bert" in shown
    assert "cleo" not in shown
    assert "--to must be one of anna, bert, [cleo]; got eve" in forks.refused(
        "nearest", *plain(), "--to", "eve", cwd=folder
    )


def test_tables_of_signs_fit_eighty_columns(folder: Path, monkeypatch: pytest.MonkeyPatch, forks: Forks) -> None:
    for name, value in {"COLUMNS": "80", "FORCE_COLOR": "1", "TERM": "xterm", "NO_COLOR": "1"}.items():
        monkeypatch.setitem(ENVIRONMENT, name, value)  # as on a terminal
    for command in ("compare", "nearest"):
        shown = forks.run(command, *plain(), cwd=folder).stdout
        rows = [line for line in shown.splitlines() if "±" in line]
        assert len(rows) == {"compare": 3, "nearest": 6}[command], "none is folded"
        assert all(line.count("±") == 2 and "…" in line for line in rows), "none is cut"


# --- index ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def indexed(folder: Path, forks: Forks) -> Path:
    """Return a folder with an index of three of the four vectors of a table, and one of three files."""
    members = {name: PLAIN.release(sketch_of(name)) for name in NAMES}
    ss.signs.SignTable(members).save(folder / "all.parquet")
    forks.succeeded("nearest", "all.parquet", "--write-index", "all.index", cwd=folder)
    return folder


def test_an_index_is_searched_for_the_neighbours_of_files(indexed: Path, forks: Forks) -> None:
    rows = json.loads(forks.run("nearest", *plain(), "--index", "all.index", "--top", 2, "--json", cwd=indexed).stdout)
    queries, members = [ss.load(indexed / name) for name in plain()], ss.load(indexed / "all.parquet")
    index = signs.SignIndex(members)
    found = index.nearest(queries, 2)
    angles = index.angles(queries, found)
    assert [(row["of"], row["rank"]) for row in rows] == [(name, rank) for name in NAMES for rank in (1, 2)]
    assert [row["neighbour"] for row in rows] == [list(members)[place] for place in found.places.ravel()]
    assert [row["hamming_distance"] for row in rows] == found.distances.ravel().tolist()
    for field, part in (("value", angles.value), ("low", angles.low), ("high", angles.high)):
        assert [row["angle_degrees"][field] for row in rows] == pytest.approx(np.degrees(part).ravel().tolist())
    assert (rows[0]["angle_degrees"]["confidence"], rows[0]["sketch_dim"]) == (0.95, 256)
    asked = forks.succeeded("nearest", *plain(), "--index", "all.index", "--to", "bert", "--top", 9, cwd=indexed)
    assert "signs that differ, of 256, among 3 releases; angles in degrees" in asked
    lines = [line.split() for line in asked.splitlines() if "±" in line]
    assert lines[0][:2] == ["bert", rows[2]["neighbour"]]
    assert len(lines) == 3, "an index has no more"


def test_indexes_of_files_of_flips_by_size_and_without_keys(folder: Path, forks: Forks) -> None:
    told = json.loads(
        forks.succeeded("nearest", *plain("smooth-")[1:], "--write-index", "some.index", "--json", cwd=folder)
    )
    size = (folder / "some.index").stat().st_size
    assert told == {"index": "some.index", "releases": 2, "sketch_dim": 256, "bytes": size}
    done = forks.run("nearest", "smooth-anna.signs", "--index", "some.index", cwd=folder)
    assert "smooth-bert" in done.stdout
    assert "angle" not in done.stdout
    assert "give --norm" in done.stderr
    with_norm = ["nearest", "smooth-anna.signs", "--index", "some.index", "--norm", NORM]
    assert "angles in degrees" in forks.succeeded(*with_norm, cwd=folder)
    assert "takes one number" in forks.refused(*with_norm, "--norm", "smooth-anna=9", cwd=folder)
    signs.SignIndex([ss.load(folder / name) for name in plain()[1:]]).save(folder / "bare.index")
    rows = json.loads(forks.run("nearest", "anna.signs", "--index", "bare.index", "--json", cwd=folder).stdout)
    assert [row["neighbour"] for row in rows] == ["0", "1"], "members without keys are known by their places"


def test_what_no_index_is_made_of_or_searched_for_is_refused(indexed: Path, forks: Forks) -> None:
    stream(500, OPORP).release(epsilon=1.0, neighbours=ss.L1(1, unit="pixel")).save(indexed / "a.sketch")
    PLAIN.release(sketch_of("anna", OPORP.replace(seed=4))).save(indexed / "other.signs")
    (indexed / "cut.index").write_bytes((indexed / "all.index").read_bytes()[:-1])
    for arguments, message in [
        (["nearest", "a.sketch", "--write-index", "new.index"], "a.sketch holds no published signs"),
        (["nearest", "all.parquet", "--write-index", "all.index"], "all.index already exists"),
        (["nearest", "all.parquet", "--write-index", "new"], "a file named *.index"),
        (["nearest", "anna.signs", "anna.signs", "--write-index", "new.index"], "named twice"),
        (
            ["nearest", "anna.signs", "other.signs", "--write-index", "new.index"],
            "other.signs: the sketches were made with",
        ),
        (["nearest", "all.parquet", "anna.signs", "--write-index", "new.index"], "anna' is there twice"),
        (["nearest", "all.parquet", "--index", "all.index"], "[cleo] and all.index: a query is a member"),
        (["nearest", "other.signs", "--index", "all.index"], "other and all.index: the sketches were made with"),
        (["nearest", "anna.signs", "--index", "cut.index"], "cut.index is not a valid index of signs: codes: 3"),
        (["nearest", "anna.signs", "--index", "all.parquet"], "all.parquet is not a valid index of signs: head"),
        (["nearest", "a.sketch", "--index", "all.index"], "a.sketch holds none"),
        (["nearest", "all.index", "--index", "all.index"], "all.index is an index of signs"),
        (["compare", "all.index", "anna.signs"], "all.index is an index of signs"),
        (["explain", "all.index"], "are those of an index of signs, which is searched"),
        (["nearest", "anna.signs", "--index", "all.index", "--by", "cosine"], "--by cosine is for sketches"),
        (["nearest", "anna.signs", "--index", "all.index", "--to", "eve"], "--to must be one of anna; got eve"),
    ]:
        assert message in forks.refused(*arguments, cwd=indexed)
    assert not (indexed / "new.index").exists()


# --- explain ----------------------------------------------------------------------------------------------------------


def test_signs_are_explained_alone_and_together_with_sketches(folder: Path, forks: Forks) -> None:
    alone = forks.run("explain", "anna.signs", cwd=folder).stdout
    assert alone.startswith(f"anna.signs\n\n{ss.load(folder / 'anna.signs').explain()}\n")
    stream(500, OPORP).release(epsilon=1.0, neighbours=PIXEL).save(folder / "a.sketch")
    shown = " ".join(forks.run("explain", "anna.signs", "a.sketch", cwd=folder).stdout.split())
    assert "Together, 2 releases: if one pixel may be in all of them, ε and δ add up to ε = 5, δ = 0" in shown
    told = json.loads(
        forks.run("explain", "anna.signs", "a.sketch", "--populations", "disjoint", "--json", cwd=folder).stdout
    )
    assert told["together"]["guarantee"]["epsilon"] == 4.0
    assert told["releases"][0]["check"]["verdict"] == "enough"
    assert [at["degrees"] for at in told["releases"][0]["angles"]] == [30, 60, 90]
    assert "distances" in told["releases"][1]


def test_the_conditions_of_signs_are_told_in_full(folder: Path, forks: Forks) -> None:
    projection = ss.projections.GaussianProjection(dim=64, sketch_dim=256, seed=1, independence=64)
    how = signs.DPSignRPRR(epsilon=8, delta=1e-6, neighbours=PIXEL, norm_bound=30)
    for name in ("x", "y"):
        how.release(projection.sketch()).save(folder / f"{name}.signs")
    shown = " ".join(forks.run("explain", "x.signs", "y.signs", cwd=folder).stdout.split())
    conditions = how.guarantee(projection).conditions
    assert f"Only if: {'; '.join(conditions)}." in shown
    assert all(shown.count(f"{condition}.") >= 2 for condition in conditions)


def test_individual_privacy_is_explained_alone_and_never_added_up(folder: Path, forks: Forks) -> None:
    shown = " ".join(forks.run("explain", "individual-anna.signs", cwd=folder).stdout.split())
    assert "this is not differential privacy" in shown
    assert "It does not compose" in shown
    told = json.loads(forks.run("explain", "individual-anna.signs", "--json", cwd=folder).stdout)
    assert (told["releases"][0]["individual"], told["together"]) == (True, None)
    said = "individual-anna.signs: individual differential privacy is not differential privacy and does not compose"
    for arguments in (["anna.signs"], ["individual-bert.signs"], ["--delta", "0.1"]):
        assert said in forks.refused("explain", "individual-anna.signs", *arguments, cwd=folder)


def test_explaining_files_that_are_no_signs_is_refused(folder: Path, forks: Forks) -> None:
    (folder / "cut.signs").write_bytes((folder / "anna.signs").read_bytes()[:-1])
    for name, message in (
        ("cut.signs", "cut.signs is not a valid sign sketch: "),
        ("nowhere.signs", "nowhere.signs does not exist"),
    ):
        assert message in forks.refused("explain", name, cwd=folder)
