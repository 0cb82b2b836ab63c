"""merge, through the real executable."""

import json
import shutil
from pathlib import Path

import pytest

import streamsketch as ss
from streamsketch.storage import load_raw, save_raw
from streamsketch.storage.sketches import RawSketch
from tests.cli.running import Forks
from tests.cli.sales import PROJECTION, expected


def test_merging_raw_sketches_is_exact(raws: Path, forks: Forks) -> None:
    done = forks.run("merge", "a.raw-sketch", "b.raw-sketch", "-o", "c.raw-sketch", cwd=raws)
    assert done.stderr == "c.raw-sketch, secret: 8 events of 2 files.\n"
    twice = expected()
    twice.merge(expected())
    assert load_raw(raws / "c.raw-sketch").state == twice


@pytest.mark.parametrize("before", [(), ("x",), ("y",), ("z",), ("x", "z"), ("x", "y", "z")], ids="".join)
def test_a_sum_of_raw_sketches_remembers_the_releases_of_all_parts(
    before: tuple[str, ...], tmp_path: Path, forks: Forks
) -> None:
    names, how = ("x", "y", "z"), ["--epsilon", 1, "--l1", 5]
    for name in names:
        save_raw(RawSketch(PROJECTION.sketch(), 1), tmp_path / f"{name}.raw-sketch")
    for name in before:
        forks.succeeded("release", f"{name}.raw-sketch", "-o", f"{name}.sketch", *how, cwd=tmp_path)
    alone = tmp_path / "alone"  # where no file beside it tells of them
    alone.mkdir()
    forks.succeeded("merge", *(f"{name}.raw-sketch" for name in names), "-o", "alone/all.raw-sketch", cwd=tmp_path)
    known = {past.release_id for name in before for past in load_raw(tmp_path / f"{name}.raw-sketch").releases}
    assert {past.release_id for past in load_raw(alone / "all.raw-sketch").releases} == known
    again = ["release", "all.raw-sketch", "-o", "all.sketch", *how]
    if before:
        assert f"ε = {len(before) + 1}, δ = 0" in forks.refused(*again, cwd=alone)
    else:
        forks.succeeded(*again, cwd=alone)


def test_merging_releases_adds_up_what_was_guaranteed(raws: Path, forks: Forks) -> None:
    command = ["merge", "a.sketch", "b.sketch", "-o", "c.sketch", "--json"]  # by default of overlapping populations
    assert json.loads(forks.run(*command, cwd=raws).stdout)["guarantee"]["epsilon"] == 2.0
    assert len(ss.load(raws / "c.sketch").release_ids) == 2


def test_merge_refuses_what_does_not_add_up(raws: Path, forks: Forks) -> None:
    other = PROJECTION.replace(seed=4)
    save_raw(RawSketch(other.table()), raws / "other.raw-sketch")
    expected().release(epsilon=1.0, neighbours=ss.L1(1), keys_are_public=True).save(raws / "all.parquet")
    raw, out = ["-o", "c.raw-sketch"], ["-o", "c.sketch"]
    for arguments, message in [
        (["a.raw-sketch", *raw], "at least two files, got 1"),
        (["a.raw-sketch", "a.raw-sketch", *raw], "named twice"),
        (["a.raw-sketch", "b.sketch", *raw], "a.raw-sketch is raw and b.sketch is not"),
        (["a.raw-sketch", "b1.raw-sketch", *raw], "one holds one stream"),
        (["a.raw-sketch", "other.raw-sketch", *raw], "seed (3 here, 4 there)"),
        (["a.raw-sketch", "b.raw-sketch", *out], "named *.raw-sketch"),
        (["a.raw-sketch", "b.raw-sketch", "-o", "b1.raw-sketch"], "already exists"),
        (["a.raw-sketch", "nowhere", *raw], "nowhere does not exist"),
        (["all.parquet", "all.parquet", "-o", "c.parquet"], "named twice"),
        (["a.sketch", "all.parquet", "-o", "c.parquet"], "all.parquet holds a table, and merge takes files of one"),
        (["a.sketch", "all.parquet", *out], "all.parquet holds a table, and merge takes files of one"),
    ]:
        assert message in forks.refused("merge", *arguments, cwd=raws)


def test_one_file_by_two_names_and_copies_do_not_count_twice(raws: Path, forks: Forks) -> None:
    (raws / "sub").mkdir()
    (raws / "link.raw-sketch").symlink_to("a.raw-sketch")
    (raws / "hard.raw-sketch").hardlink_to(raws / "a.raw-sketch")
    shutil.copy(raws / "a.raw-sketch", raws / "copy.raw-sketch")
    forks.run("merge", "a.raw-sketch", "b.raw-sketch", "-o", "sum.raw-sketch", cwd=raws)
    for other, message in [
        ("sub/../a.raw-sketch", "are one file, named twice; its events would count twice"),
        ("link.raw-sketch", "are one file, named twice; its events would count twice"),
        ("hard.raw-sketch", "are one file, named twice; its events would count twice"),
        ("copy.raw-sketch", "and a file before it hold the same data"),
        ("sum.raw-sketch", "and a file before it hold the same data"),
    ]:
        assert message in forks.refused("merge", "a.raw-sketch", other, "-o", "twice.raw-sketch", cwd=raws)
    assert "are one file, named twice; its events would count twice" in forks.refused(
        "merge", "a.sketch", "sub/../a.sketch", "-o", "c.sketch", "--populations", "overlapping", cwd=raws
    )


def test_a_merge_counts_only_the_releases_of_each_part_for_it(raws: Path, forks: Forks) -> None:
    release = ["--epsilon", 1, "--l1", 5]
    for name in ("a1", "b1"):
        forks.succeeded("release", f"{name}.raw-sketch", "-o", f"{name}.sketch", *release, cwd=raws)
    forks.succeeded("merge", "a1.raw-sketch", "b1.raw-sketch", "-o", "both.raw-sketch", cwd=raws)
    told = forks.refused("release", "a1.raw-sketch", "-o", "again.sketch", *release, cwd=raws)
    assert "a1.raw-sketch was released once before: ε = 1, " in told
    assert "With this one, ε = 2, " in told
    told = forks.refused("release", "both.raw-sketch", "-o", "again.sketch", *release, cwd=raws)
    assert "both.raw-sketch was released 2 times before: ε = 1, " in told


def test_releases_of_copies_are_not_disjoint(raws: Path, forks: Forks) -> None:
    shutil.copy(raws / "a1.raw-sketch", raws / "copy.raw-sketch")
    release = ["--epsilon", 1, "--l1", 5]
    forks.succeeded("release", "a1.raw-sketch", "-o", "a1.sketch", *release, cwd=raws)
    told = forks.refused("release", "copy.raw-sketch", "-o", "copy.sketch", *release, cwd=raws)
    assert "data in copy.raw-sketch, which a1.raw-sketch holds too, were released once before: ε = 1, " in told
    assert "ε = 2, δ = 0 for one event of at most 5 (L1) together" in told
    told = forks.succeeded("release", "copy.raw-sketch", "-o", "copy.sketch", *release, "--again", cwd=raws)
    assert "together, with 1 before" in " ".join(told.split())
    for command in (["merge", "-o", "c.sketch"], ["explain"]):
        told = forks.refused(*command, "a1.sketch", "copy.sketch", "--populations", "disjoint", cwd=raws)
        assert "share data" in told
