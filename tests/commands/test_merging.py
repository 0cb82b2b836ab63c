"""merge, through the real executable."""

import json
import shutil
from pathlib import Path

import streamsketch as ss
from streamsketch.release.raw_file import RawSketch, load_raw, save_raw
from tests.commands.running import Forks
from tests.commands.sales import PROJECTION, expected


def test_merging_raw_sketches_is_exact(raws: Path, forks: Forks) -> None:
    done = forks.run("merge", "a.raw-sketch", "b.raw-sketch", "-o", "c.raw-sketch", cwd=raws)
    assert done.stderr == "c.raw-sketch, secret: 8 events of 2 files.\n"
    twice = expected()
    twice.merge(expected())
    assert load_raw(raws / "c.raw-sketch").state == twice


def test_merging_releases_adds_up_what_was_guaranteed(raws: Path, forks: Forks) -> None:
    command = ["merge", "a.sketch", "b.sketch", "-o", "c.sketch", "--populations", "overlapping", "--json"]
    assert json.loads(forks.run(*command, cwd=raws).stdout)["guarantee"]["epsilon"] == 2.0
    assert len(ss.load(raws / "c.sketch").release_ids) == 2


def test_merge_refuses_what_does_not_add_up(raws: Path, forks: Forks) -> None:
    other = PROJECTION.replace(seed=4)
    save_raw(RawSketch(other.table()), raws / "other.raw-sketch")
    raw, out = ["-o", "c.raw-sketch"], ["-o", "c.sketch"]
    for arguments, message in [
        (["a.raw-sketch", *raw], "at least two files, got 1"),
        (["a.raw-sketch", "a.raw-sketch", *raw], "named twice"),
        (["a.raw-sketch", "b.sketch", *raw], "a.raw-sketch is raw and b.sketch is not"),
        (["a.raw-sketch", "b1.raw-sketch", *raw], "one holds one stream"),
        (["a.raw-sketch", "other.raw-sketch", *raw], "seed (3 here, 4 there)"),
        (["a.raw-sketch", "b.raw-sketch", *out], "named *.raw-sketch"),
        (["a.sketch", "b.sketch", *out], "--populations disjoint"),
        (["a.raw-sketch", "b.raw-sketch", "-o", "b1.raw-sketch"], "already exists"),
        (["a.raw-sketch", "nowhere", *raw], "No such file"),
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
        ("copy.raw-sketch", "holds data that a file before it holds too"),
        ("sum.raw-sketch", "holds data that a file before it holds too"),
    ]:
        assert message in forks.refused("merge", "a.raw-sketch", other, "-o", "twice.raw-sketch", cwd=raws)
    assert "are one file, named twice; its events would count twice" in forks.refused(
        "merge", "a.sketch", "sub/../a.sketch", "-o", "c.sketch", "--populations", "overlapping", cwd=raws
    )


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
