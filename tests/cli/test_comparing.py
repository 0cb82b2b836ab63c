"""explain, compare, nearest and means, through the real executable."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.kernels.carryless import instructions_of, target
from streamsketch.storage import save_raw
from streamsketch.storage.sketches import RawSketch
from tests.cli.running import Forks
from tests.counted import shops

PROJECTION = ss.SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=3)
STREAMS = {"north": 500, "south": 520, "[east]": 9000}


def stream(count: int, projection: ss.projections.Projection = PROJECTION) -> ss.Sketch:
    sketch = projection.sketch()
    sketch.update([1, 2], [count, 700])
    return sketch


def release(count: int, projection: ss.projections.Projection = PROJECTION) -> ss.PrivateSketch:
    return stream(count, projection).release(epsilon=1.0, neighbours=ss.L1(1, unit="sale"))


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    for name, count in STREAMS.items():
        release(count).save(tmp_path / f"{name}.sketch")
    return [tmp_path / f"{name}.sketch" for name in STREAMS]


def save_wrong(folder: Path) -> None:
    """Write files that commands must refuse."""
    (folder / "cut.sketch").write_bytes((folder / "north.sketch").read_bytes()[:-1])
    (folder / "copy.sketch").write_bytes((folder / "north.sketch").read_bytes())
    (folder / "link.sketch").symlink_to(folder / "north.sketch")
    release(1, PROJECTION.replace(seed=4)).save(folder / "other.sketch")
    save_raw(RawSketch(stream(500)), folder / "mine.raw-sketch")
    (folder / "disguised.sketch").write_bytes((folder / "mine.raw-sketch").read_bytes())
    (folder / "notes.txt").write_text("no sketch")
    (folder / "notes.parquet").write_text("no table")


# --- explain ----------------------------------------------------------------------------------------------------------


def test_explain_names_the_code_that_hashes_here(forks: Forks, tmp_path: Path) -> None:
    expected = instructions_of(*target())
    assert json.loads(forks.run("explain", "--system", "--json", cwd=tmp_path).stdout)["hashing"] == expected
    assert expected in " ".join(forks.run("explain", "--system", cwd=tmp_path).stdout.split())


@pytest.mark.parametrize("arguments", [(), ("a.sketch", "--system")])
def test_explain_takes_a_file_or_the_system(arguments: tuple[str, ...], forks: Forks, tmp_path: Path) -> None:
    done = forks.run("explain", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert "--system" in done.stderr


def test_explain_shows_the_guarantee_and_the_size(files: list[Path], forks: Forks) -> None:
    shown = " ".join(forks.succeeded("explain", files[0]).split())
    assert "ε = 1, δ = 0 for one sale of at most 1 (L1), asserted, by discrete Laplace, scale 4" in shown
    assert PROJECTION.fingerprint in shown
    assert "95 % interval" in shown


def test_what_a_pipe_takes_is_not_folded(tmp_path: Path, forks: Forks) -> None:
    projection = ss.SJLT(sketch_dim=1024, sparsity=16, seed=(1 << 63) - 1, resolution="1/1000000")
    projection.sketch().release(epsilon=1.0, neighbours=ss.L1(1)).save(tmp_path / "a.sketch")
    lines = forks.run("explain", "a.sketch", cwd=tmp_path).stdout.splitlines()
    (told,) = [line.split(None, 1)[1].strip() for line in lines if line.strip().startswith("projection")]
    assert told == repr(projection)


def test_explain_says_where_the_noise_was_added(tmp_path: Path, forks: Forks) -> None:
    released = ss.release.release_vector(PROJECTION, [1] * 1000, epsilon=1.0, neighbours=ss.L1(1), noise_place="input")
    released.save(tmp_path / "a.sketch")
    shown = " ".join(forks.run("explain", "a.sketch", cwd=tmp_path).stdout.split())
    assert "noise a coordinate: ± 1.357, in data units. In grid steps: ± 1.357." in shown
    assert "scale 1, on the input" in shown


def test_explain_shows_every_row_of_a_table(tmp_path: Path, forks: Forks) -> None:
    ss.PrivateTable({name: release(count) for name, count in STREAMS.items()}).save(tmp_path / "all.parquet")
    shown = forks.run("explain", "all.parquet", cwd=tmp_path).stdout
    assert all(name in shown for name in STREAMS)
    rows = json.loads(forks.run("explain", "all.parquet", "--json", cwd=tmp_path).stdout)["files"][0]["releases"]
    assert [row["key"] for row in rows] == sorted(STREAMS)


def test_explain_calls_a_raw_sketch_secret_and_shows_nothing_of_it(tmp_path: Path, forks: Forks) -> None:
    save_raw(RawSketch(stream(76543), events=2), tmp_path / "a.raw-sketch")
    shown = forks.run("explain", "a.raw-sketch", cwd=tmp_path).stdout
    assert "SECRET" in shown
    assert "never" in shown
    assert "76543" not in shown
    assert "norm" not in shown
    assert json.loads(forks.run("explain", "a.raw-sketch", "--json", cwd=tmp_path).stdout)["secret"] is True


def test_explain_says_which_privacy_published_signs_have(tmp_path: Path, forks: Forks) -> None:
    projection = ss.projections.OPORP(dim=256, sketch_dim=64, seed=3)
    sketch = projection.sketch()
    sketch.update([1, 2], [500, 700])
    pixel = {"epsilon": 2.0, "neighbours": ss.OneCoordinate(1, unit="pixel")}
    ss.signs.DPSignOPORPRR(**pixel).release(sketch).save(tmp_path / "a.signs")  # type: ignore[arg-type]
    ss.signs.IDPSignOPORP(**pixel).release(sketch).save(tmp_path / "b.signs")  # type: ignore[arg-type]
    shown = " ".join(forks.run("explain", "a.signs", cwd=tmp_path).stdout.split())
    assert "kind differential privacy" in shown
    assert "for one pixel of at most 1" in shown
    assert "noise flips with 1/(exp(" in shown
    shown = " ".join(forks.run("explain", "b.signs", cwd=tmp_path).stdout.split())
    assert "kind individual differential privacy" in shown
    (told,) = json.loads(forks.run("explain", "b.signs", "--json", cwd=tmp_path).stdout)["files"]
    assert (told["kind"], told["fingerprint"]) == ("individual differential privacy", projection.fingerprint)
    (tmp_path / "cut.signs").write_bytes((tmp_path / "a.signs").read_bytes()[:-1])
    assert "cut.signs is not a valid sign sketch: " in forks.refused("explain", "cut.signs", cwd=tmp_path)


@pytest.mark.usefixtures("files")
def test_explain_refuses_what_is_no_sketch(tmp_path: Path, forks: Forks) -> None:
    save_wrong(tmp_path)
    (tmp_path / "cut.raw-sketch").write_bytes((tmp_path / "mine.raw-sketch").read_bytes()[:-1])
    assert "cut off" in forks.refused("explain", "cut.sketch", cwd=tmp_path)
    assert "fetch the file from a backup" in forks.refused("explain", "cut.raw-sketch", cwd=tmp_path)
    assert "notes.txt is not a release" in forks.refused("explain", "notes.txt", cwd=tmp_path)
    assert "not a valid table" in forks.refused("explain", "notes.parquet", cwd=tmp_path)
    assert "Is a directory" in forks.refused("explain", ".", cwd=tmp_path)
    assert "nowhere.sketch does not exist" in forks.refused("explain", "nowhere.sketch", cwd=tmp_path)


# --- compare ----------------------------------------------------------------------------------------------------------


def test_compare_lists_the_nearest_pair_first(files: list[Path], forks: Forks) -> None:
    shown = forks.succeeded("compare", *files, "--confidence", "0.9")
    assert "90 % interval" in shown
    lines = [line for line in shown.splitlines() if "–" in line]
    assert "north – south" in lines[0]
    assert sum("[east]" in line for line in lines) == 2


def test_compare_as_json_holds_what_the_library_says(files: list[Path], tmp_path: Path, forks: Forks) -> None:
    first, second, _ = (ss.load(path) for path in files)
    rows = json.loads(forks.run("compare", *files, "--by", "distance", "--json", cwd=tmp_path).stdout)
    estimate = ss.squared_distance(first, second)
    assert (rows[0]["first"], rows[0]["second"]) == ("north", "south")
    assert rows[0]["squared_distance"] == pytest.approx(estimate.value)
    assert (rows[0]["low"], rows[0]["high"]) == pytest.approx(estimate.interval(0.95))
    assert rows[0]["cosine"]["value"] == pytest.approx(ss.cosine(first, second).value)


@pytest.fixture
def shapes(tmp_path: Path) -> Path:
    """Return a table of two small and two large streams of two shapes, and an empty one."""
    found = {"empty": PROJECTION.sketch()}
    for name, counts in {"small a": (900, 100), "small b": (90, 880), "large a": (90_000, 10_500)}.items():
        found[name] = PROJECTION.sketch()
        found[name].update([1, 2], counts)
    releases = {name: one.release(epsilon=1.0, neighbours=ss.L1(1, unit="sale")) for name, one in found.items()}
    ss.PrivateTable(releases).save(tmp_path / "shapes.parquet")
    return tmp_path / "shapes.parquet"


@pytest.mark.parametrize(("by", "one"), [("cosine", ss.cosine), ("profile", ss.profile_distance)])
def test_streams_are_compared_by_what_they_consist_of(by: str, one: Any, shapes: Path, forks: Forks) -> None:
    found, field = ss.load(shapes), {"cosine": "cosine", "profile": "profile_distance"}[by]
    rows = json.loads(forks.run("compare", shapes, "--by", by, "--json", cwd=shapes.parent).stdout)
    assert (rows[0]["first"], rows[0]["second"]) == ("large a", "small a")
    estimate = one(found["large a"], found["small a"])
    assert rows[0][field] == pytest.approx(estimate.value)
    assert (rows[0]["low"], rows[0]["high"]) == pytest.approx(estimate.interval())
    assert set(rows[0]["squared_distance"]) == {"value", "standard_error"}
    assert [row[field] is None for row in rows] == [False] * 3 + [True] * 3, "undefined ones come last"
    done = forks.run("compare", shapes, "--by", by, cwd=shapes.parent)
    assert done.stdout.count("undefined") == 3
    assert "small for their noise: empty." in done.stderr
    near = json.loads(forks.run("nearest", shapes, "--by", by, "--top", "1", "--json", cwd=shapes.parent).stdout)
    assert {(row["of"], row["neighbour"]) for row in near} >= {("small a", "large a"), ("large a", "small a")}
    assert not any("empty" in (row["of"], row["neighbour"]) for row in near)
    assert (near[0]["low"], near[0]["high"]) == pytest.approx(estimate.selected_interval(3), abs=1e-9)
    by_size = json.loads(
        forks.run("nearest", shapes, "--to", "small a", "--by", "distance", "--json", cwd=shapes.parent).stdout
    )
    assert by_size[0]["neighbour"] != "large a"


def test_unasked_streams_are_compared_by_what_the_report_chooses(shapes: Path, tmp_path: Path, forks: Forks) -> None:
    done = forks.run("compare", shapes, "--json", cwd=tmp_path)
    near = json.loads(forks.run("nearest", shapes, "--json", cwd=tmp_path).stdout)
    assert all("cosine" in row and isinstance(row["cosine"], float | None) for row in json.loads(done.stdout))
    assert all("cosine" in row for row in near)
    assert "Compared by cosine" in json.loads(done.stderr.splitlines()[0])["note"]["message"]
    forks.succeeded("report", shapes, "-o", "page.html", cwd=tmp_path)
    assert "cosine" in (tmp_path / "page.html").read_text().lower()
    small = tmp_path / "small.parquet"
    ss.PrivateTable({name: release(1) for name in ("a", "b", "c")}).save(small)
    unclear = json.loads(forks.run("compare", small, "--json", cwd=tmp_path).stdout)
    assert all(isinstance(row["squared_distance"], float) for row in unclear), "where noise leaves no cosines"


def test_some_pairs_and_some_keys(shapes: Path, forks: Forks) -> None:
    def pairs(*arguments: str) -> list[tuple[str, str]]:
        rows = json.loads(forks.run("compare", shapes, *arguments, "--json", cwd=shapes.parent).stdout)
        return [(row["first"], row["second"]) for row in rows]

    assert pairs("--top", "2") == pairs()[:2]
    assert {name for pair in pairs("--only", "small*") for name in pair} == {"small a", "small b"}
    assert len(pairs("--only", "small*", "--only", "large a")) == 3
    assert "--top must be at least 1, got 0" in forks.refused("compare", shapes, "--top", "0", cwd=shapes.parent)
    refused = forks.refused("compare", shapes, "--only", "large*", cwd=shapes.parent)
    assert "--only large* leaves large a, and compare needs at least 2. There are empty, large a," in refused
    assert "--to must be one of small a, small b; got large a" in forks.refused(
        "nearest", shapes, "--only", "small*", "--to", "large a", cwd=shapes.parent
    )


def test_files_of_one_name_are_told_apart_by_their_folders(files: list[Path], tmp_path: Path, forks: Forks) -> None:
    twin = tmp_path / "other" / files[0].name
    twin.parent.mkdir()
    twin.write_bytes(files[1].read_bytes())
    shown = forks.run("compare", files[0], twin, cwd=tmp_path).stdout.replace("\n", "")
    assert "other" in shown.replace(" ", "")


@pytest.mark.usefixtures("files")
def test_raw_sketches_are_compared_only_when_told(tmp_path: Path, forks: Forks) -> None:
    save_wrong(tmp_path)
    for name in ("mine.raw-sketch", "disguised.sketch"):
        refused = forks.refused("compare", "south.sketch", name, cwd=tmp_path)
        assert "is a raw sketch, which is secret" in refused
        assert "give --raw to read it all the same" in refused
    done = forks.run("compare", "south.sketch", "mine.raw-sketch", "--raw", cwd=tmp_path)
    assert "mine – " in done.stdout or " – mine" in done.stdout
    assert "as secret as they are" in done.stderr
    told = forks.run("compare", "south.sketch", "mine.raw-sketch", "--raw", "--json", cwd=tmp_path)
    assert "as secret as they are" in told.stderr
    (pair,) = json.loads(told.stdout)
    assert pair["secret"] is True


def test_compare_refuses_what_cannot_be_compared(files: list[Path], tmp_path: Path, forks: Forks) -> None:
    save_wrong(tmp_path)
    north, south = files[:2]
    for arguments, message in [
        ([north], "at least two sketches (each key of a table is one), got 1"),
        ([north, north], f"{north} is named twice; compare takes each release once"),
        ([north, "link.sketch"], "link.sketch are one file, named twice"),
        ([north, "copy.sketch"], "share the noise"),
        ([north, "other.sketch"], "seed (3 here, 4 there)"),
        ([north, "other.sketch"], "on the command line one file, --agreement FILE"),
        ([north, south, "--confidence", "95"], "confidence must lie in (0, 1), got 95.0"),
        ([north, "nowhere.sketch"], "does not exist"),
        ([], "Missing argument 'FILE"),
    ]:
        assert message in forks.refused("compare", *arguments, cwd=tmp_path)


def test_averages_are_compared_where_units_were_counted(tmp_path: Path, files: list[Path], forks: Forks) -> None:
    found = shops()
    ss.PrivateTable(found).save(tmp_path / "shops.parquet")
    rows = json.loads(forks.run("compare", "shops.parquet", "--by", "mean", "--json", cwd=tmp_path).stdout)
    assert (rows[0]["first"], rows[0]["second"]) == ("north", "south"), "the nearest pair comes first"
    expected = ss.estimation.mean_distance(found["north"], found["south"])
    assert rows[0]["mean_distance"] == pytest.approx(expected.value)
    assert rows[0]["squared_distance"]["value"] == pytest.approx(
        ss.squared_distance(found["north"], found["south"]).value
    )
    assert [row["mean_distance"] is None for row in rows] == [False] * 3 + [True] * 3
    done = forks.run("compare", "shops.parquet", "--by", "mean", cwd=tmp_path)
    assert "mean distance" in done.stdout
    said = " ".join(done.stderr.split())
    assert "Without distances of averages, as the numbers of units are within two standard errors of 0" in said
    assert said.endswith("kiosk.")
    near = forks.run("nearest", "shops.parquet", "--by", "mean", "--top", "1", "--json", cwd=tmp_path).stdout
    neighbours = {row["of"]: row["neighbour"] for row in json.loads(near)}
    assert sorted(neighbours) == ["east", "north", "south"]
    assert (neighbours["north"], neighbours["south"]) == ("south", "north")
    refused = forks.refused("compare", *files, "--by", "mean", cwd=tmp_path)
    assert "number of units" in refused


# --- nearest ----------------------------------------------------------------------------------------------------------


def test_nearest_finds_each_ones_nearest(tmp_path: Path, files: list[Path], forks: Forks) -> None:
    table = tmp_path / "all.parquet"
    ss.PrivateTable({path.stem: ss.load(path) for path in files}).save(table)
    rows = json.loads(forks.succeeded("nearest", table, "--top", "1", "--json"))
    assert [(row["of"], row["neighbour"], row["rank"]) for row in rows] == [
        ("[east]", "south", 1),
        ("north", "south", 1),
        ("south", "north", 1),
    ]


def test_nearest_to_one(tmp_path: Path, files: list[Path], forks: Forks) -> None:
    shown = forks.run("nearest", *files, "--to", "[east]", cwd=tmp_path).stdout
    assert shown.index("south") < shown.index("north")


def test_nearest_refuses_what_has_no_neighbours(tmp_path: Path, files: list[Path], forks: Forks) -> None:
    save_wrong(tmp_path)
    for arguments, message in [
        ([files[0]], "at least two sketches (each key of a table is one), got 1"),
        ([*files, "--top", "0"], "--top must be at least 1, got 0"),
        ([*files, "--to", "west"], "--to must be one of north, south, [east]; got west"),
        ([*files, "--to", "nort"], "got nort. Did you mean north?"),
        ([files[0], "mine.raw-sketch"], "is a raw sketch, which is secret"),
        ([files[0], "other.sketch"], "seed (3 here, 4 there)"),
        ([files[0], "notes.parquet"], "not a valid table"),
    ]:
        refused = forks.refused("nearest", *arguments, cwd=tmp_path)
        assert message in refused
        assert "--raw" not in refused, "an option of compare alone"


# --- mean -------------------------------------------------------------------------------------------------------------


def test_the_mean_is_a_release_of_the_mean_stream(tmp_path: Path, files: list[Path], forks: Forks) -> None:
    shown = forks.succeeded("merge", "--mean", *files, "-o", tmp_path / "mean.sketch", "--populations", "disjoint")
    assert "3 streams" in shown
    mean, parts = ss.load(tmp_path / "mean.sketch"), [ss.load(path) for path in files]
    cells = sum(part.cell_unit * part.values for part in parts) / 3
    assert np.allclose(mean.cell_unit * mean.values, cells)
    assert mean.cell_unit**2 * mean.noise.k2 == pytest.approx(parts[0].cell_unit ** 2 * parts[0].noise.k2 / 3)
    assert mean.guarantee.epsilon == 1.0


def test_overlapping_streams_add_up_what_they_spend(tmp_path: Path, files: list[Path], forks: Forks) -> None:
    done = forks.run(
        "merge", "--mean", *files, "-o", "mean.sketch", "--populations", "overlapping", "--json", cwd=tmp_path
    )
    assert json.loads(done.stdout)["guarantee"]["epsilon"] == 3.0


def test_mean_refuses_what_it_cannot_average(tmp_path: Path, files: list[Path], forks: Forks) -> None:
    save_wrong(tmp_path)
    ss.PrivateTable({"north": release(1)}).save(tmp_path / "table.parquet")
    disjoint = ["--populations", "disjoint"]
    for arguments, message in [
        ([files[0], "-o", "mean.sketch", *disjoint], "at least two files, got 1"),
        (
            [files[0], "table.parquet", "-o", "m.parquet", *disjoint],
            "table.parquet holds a table, and merge takes files",
        ),
        ([*files, "-o", "north.sketch", *disjoint], "already exists and is not replaced"),
        ([*files, "-o", "mean.txt", *disjoint], "named *.sketch"),
        (
            [files[0], "notes.txt", "-o", "mean.sketch", *disjoint],
            "notes.txt is not a release (.sketch, .signs or .parquet). To release a table: streamsketch",
        ),
        ([files[0], "disguised.sketch", "-o", "mean.sketch", *disjoint], "is a raw sketch, which is secret"),
        ([files[0], files[0], "-o", "mean.sketch", *disjoint], "named twice; its events would count twice"),
        ([files[0], "other.sketch", "-o", "mean.sketch", *disjoint], "seed (3 here, 4 there)"),
    ]:
        assert message in forks.refused("merge", "--mean", *arguments, cwd=tmp_path)


# --- the whole --------------------------------------------------------------------------------------------------------


def test_a_name_that_would_move_the_terminal_is_shown_as_text(tmp_path: Path, forks: Forks) -> None:
    ss.PrivateTable({"a\x1b[2J": release(1), "b\u202e": release(2)}).save(tmp_path / "all.parquet")
    shown = forks.run("compare", "all.parquet", cwd=tmp_path).stdout
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert r"a\x1b[2J" in shown


def test_one_file_alone_is_refused_in_a_sentence(files: list[Path], forks: Forks) -> None:
    done = forks.run("compare", files[0])
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: compare needs at least two sketches (each key of a table is one), got 1\n"


def test_equal_keys_of_several_tables_are_named_by_their_files_stem(tmp_path: Path, forks: Forks) -> None:
    sketch = ss.CountSketch(sketch_dim=64, seed=7).sketch()
    for name in ("north", "south"):
        releases = {"tea": sketch.release(epsilon=1.0, neighbours=ss.L1(1))}
        ss.PrivateTable(releases).save(tmp_path / f"{name}.parquet")
    (row,) = json.loads(forks.run("compare", "north.parquet", "south.parquet", "--json", cwd=tmp_path).stdout)
    assert (row["first"], row["second"]) == ("north:tea", "south:tea")
    (tmp_path / "other").mkdir()
    (tmp_path / "south.parquet").rename(tmp_path / "other" / "north.parquet")
    (row,) = json.loads(forks.run("compare", "north.parquet", "other/north.parquet", "--json", cwd=tmp_path).stdout)
    assert (row["first"], row["second"]) == ("north.parquet:tea", "other/north.parquet:tea")


MONTHS = [f"shop 2024-{month:02}" for month in range(1, 7)]


@pytest.fixture
def months(tmp_path: Path) -> list[Path]:
    for place, name in enumerate(MONTHS):
        release(400 + 100 * place).save(tmp_path / f"{name}.sketch")
    return [tmp_path / f"{name}.sketch" for name in MONTHS]


def test_joint_estimates_are_those_of_pairwise_and_marked(forks: Forks, months: list[Path]) -> None:
    """In the order of time, as all are windows of one stream, in whatever order the files are named."""
    releases = [ss.load(path) for path in months]
    expected = ss.pairwise(releases, by="cosine", together=True, order="time")
    for options, level in (((), "each"), (("--together",), "all")):
        arguments = ("compare", *months[::-1], "--by", "cosine", "--joint", *options)
        rows = json.loads(forks.run(*arguments, "--json", cwd=months[0].parent).stdout)
        assert len(rows) == 15
        ends = expected.interval(level=level)  # type: ignore[arg-type]
        for row in rows:
            place = MONTHS.index(row["first"]), MONTHS.index(row["second"])
            assert row["cosine"] == pytest.approx(expected.value[place])
            assert row["low"] == pytest.approx(ends.low[place])
            assert row["joint"] == expected.model.to_dict()  # type: ignore[attr-defined]
        shown = forks.run(*arguments, cwd=months[0].parent)
        assert "joint cosine" in shown.stdout
        assert f"Joint estimate: {expected.model.target}" in " ".join(shown.stderr.split())  # type: ignore[attr-defined]
    plain = forks.run("compare", *months, "--by", "cosine", "--json", cwd=months[0].parent).stdout
    assert "joint" not in plain


def test_a_report_of_joint_estimates_says_so(forks: Forks, months: list[Path]) -> None:
    folder, some = months[0].parent, months[:3]  # whose three pairs may all be joint
    expected = ss.pairwise([ss.load(path) for path in some], by="cosine", together=True, order="time")
    made = expected.model.to_dict()  # type: ignore[attr-defined]
    for name, options in (("joint", ["--joint"]), ("alone", [])):
        page = folder / f"{name}.html"
        answer = forks.run("report", *some, "--by", "cosine", *options, "-o", page, "--json", cwd=folder)
        facts = json.loads(answer.stdout)
        assert (facts["by"], len(facts["compared"])) == ("cosine", len(some))
        assert facts["joint"] == (made if options else None)
    joint, alone = ((folder / f"{name}.html").read_text("utf-8") for name in ("joint", "alone"))
    for mark in (
        "All joint cosines",
        "joint estimate: ",
        "typical error of a joint cosine",
        '"quantity":"joint cosine"',
    ):
        assert mark in joint
        assert mark not in alone


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("compare", "--by", "mean"), "--joint is not for --by mean"),
        (("report", "--by", "mean", "-o", "x.html"), "--joint is not for --by mean"),
        (("compare", "--why", "items.txt"), "--joint is for distances and cosines of sketches"),
    ],
)
def test_joint_estimates_are_refused_where_there_are_none(
    arguments: tuple[str, ...], words: str, forks: Forks, months: list[Path]
) -> None:
    (months[0].parent / "items.txt").write_text("tea\n")
    refused = forks.run(arguments[0], *months, *arguments[1:], "--joint", cwd=months[0].parent)
    assert refused.returncode
    assert words in " ".join(refused.stderr.split())


@pytest.mark.parametrize("by", ["distance", "cosine", "profile"])
def test_pairs_of_noise_come_last_by_every_measure(by: str, tmp_path: Path, forks: Forks) -> None:
    """Two streams of noise alone are near each other, which says nothing: no pair with one of them is before others."""
    counts = {"loud a": (90_000, 10_000), "loud b": (10_000, 90_000), "faint a": (0, 0), "faint b": (1, 0)}
    found = {}
    for name, each in counts.items():
        sketch = PROJECTION.sketch()
        sketch.update([1, 2], each)
        found[name] = sketch.release(epsilon=1.0, neighbours=ss.L1(1, unit="sale"))
    ss.PrivateTable(found).save(tmp_path / "streams.parquet")
    rows = json.loads(forks.run("compare", "streams.parquet", "--by", by, "--json", cwd=tmp_path).stdout)
    of_noise = ["faint" in row["first"] or "faint" in row["second"] for row in rows]
    assert of_noise == [False] + [True] * 5
    near = json.loads(forks.run("nearest", "streams.parquet", "--by", by, "--json", cwd=tmp_path).stdout)
    first = {row["of"]: row["neighbour"] for row in reversed(near)}
    assert first["loud a"] == "loud b"
