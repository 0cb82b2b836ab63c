"""release, through the real executable."""

import errno
import json
from pathlib import Path

import pytest

import streamsketch as ss
from streamsketch.cli.release import release
from streamsketch.privacy import Mechanism
from streamsketch.storage import load_raw, save_raw
from streamsketch.storage.sketches import PastRelease, RawSketch
from tests.cli.running import Forks
from tests.cli.sales import PROJECTION, expected
from tests.noise_alone import assert_noise_alone


def test_a_release_is_what_the_library_would_give(raws: Path, forks: Forks) -> None:
    bound = ["--l1", "5/2", "--unit", "sale"]
    shown = forks.succeeded("release", "a1.raw-sketch", "-o", "north.sketch", "--epsilon", "0.5", *bound, cwd=raws)
    released = ss.load(raws / "north.sketch", expect=PROJECTION)
    library = expected()["north"].release(epsilon=0.5, neighbours=ss.L1("5/2", unit="sale"))
    assert released.guarantee == library.guarantee
    assert str(library.guarantee) in shown
    assert (released.noise, released.cell_unit) == (library.noise, library.cell_unit)
    assert_noise_alone(released.values - expected()["north"].state(), released.noise.k2)
    assert load_raw(raws / "a1.raw-sketch").state == expected()["north"], "the raw sketch stays as it was"


def test_what_earlier_guarantees_rest_on_is_said_with_the_sum(raws: Path, forks: Forks) -> None:
    given = load_raw(raws / "a1.raw-sketch")
    guarantee = ss.Guarantee(0.5, 0.0, ss.L1(1), Mechanism.stated("a mechanism"), ["no vector is zero"])
    save_raw(RawSketch(given.state, given.events, (PastRelease(guarantee, "ab" * 8),)), raws / "a1.raw-sketch")
    refusal = forks.refused("release", "a1.raw-sketch", "--epsilon", "0.5", "--l1", "1", "-o", "one.sketch", cwd=raws)
    assert "of at most 1 (L1) together, only if: no vector is zero" in refusal


def test_a_second_release_costs_and_must_be_meant(raws: Path, forks: Forks) -> None:
    again = ["release", "a1.raw-sketch", "--epsilon", "0.5", "--l1", "1", "-o"]
    assert forks.run(*again, "one.sketch", cwd=raws).returncode == 0
    refusal = forks.refused(*again, "two.sketch", cwd=raws)
    assert "was released once before: ε = 0.5, δ = 0 for one event of at most 1 (L1)" in refusal
    assert "With this one, ε = 1, δ = 0 for one event of at most 1 (L1) together" in refusal
    assert forks.run("merge", "a1.raw-sketch", "b1.raw-sketch", "-o", "c.raw-sketch", cwd=raws).returncode == 0
    merged = forks.refused("release", "c.raw-sketch", "--epsilon", "1", "--l1", "1", "-o", "three.sketch", cwd=raws)
    assert "was released once before" in merged
    assert forks.run(*again, "two.sketch", "--again", cwd=raws).returncode == 0
    assert "was released 2 times before" in forks.refused(*again, "three.sketch", cwd=raws)
    inspected = json.loads(forks.run("explain", "a1.raw-sketch", "--json", cwd=raws).stdout)
    assert [past["epsilon"] for past in inspected["releases"]] == [0.5, 0.5]


def test_public_keys_are_released_whether_or_not_there_are_data(raws: Path, forks: Forks) -> None:
    options = [
        "--epsilon",
        "1",
        "--delta",
        "1e-9",
        "--one-coordinate",
        "3",
        "--max-keys",
        "2",
        "--mechanism",
        "gaussian",
    ]
    keys = ["--public-key", "north", "--public-key", "west"]
    done = forks.run("release", "a.raw-sketch", "-o", "all.parquet", *options, *keys, "--json", cwd=raws)
    assert json.loads(done.stdout)["sketches"] == 2, done.stderr
    table = ss.load(raws / "all.parquet")
    assert list(table) == ["north", "west"]
    guarantee = table["west"].guarantee
    assert (guarantee.delta, guarantee.neighbours) == (1e-9, ss.OneCoordinate(3, max_keys=2))
    assert str(guarantee.mechanism).startswith("discrete Gaussian")


def test_a_euclidean_bound_is_released_for_embeddings(tmp_path: Path, forks: Forks) -> None:
    sketch = ss.projections.OPORP(dim=100, sketch_dim=16, seed=3).sketch()
    sketch.update([7, 9], [3, -4])
    save_raw(RawSketch(sketch, 1), tmp_path / "a.raw-sketch")
    options = ["--epsilon", "1", "--delta", "1e-6", "--l2", "5", "--unit", "embedding"]
    done = forks.run("release", "a.raw-sketch", "-o", "a.sketch", *options, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    released = ss.load(tmp_path / "a.sketch")
    library = sketch.release(epsilon=1.0, delta=1e-6, neighbours=ss.L2(5, unit="embedding"))
    assert released.guarantee == library.guarantee
    assert released.noise == library.noise


def test_release_refuses_what_it_cannot_guarantee(raws: Path, forks: Forks) -> None:
    one, many = ["a1.raw-sketch", "-o", "x.sketch"], ["a.raw-sketch", "-o", "x.parquet"]
    spend = ["--epsilon", "1", "--l1", "1"]
    for arguments, message in [
        ([*one, "--epsilon", "1"], "--l1 BOUND"),
        ([*one, *spend, "--one-coordinate", "1"], "--l1 and --one-coordinate each state"),
        ([*one, *spend, "--l2", "1"], "--l1 and --l2 each state"),
        ([*one, "--epsilon", "1", "--l2", "1"], "L2 neighbours need a map whose spectral norm"),
        ([*one, "--epsilon", "0", "--l1", "1"], "epsilon must be a finite number > 0"),
        ([*one, "--epsilon", "1", "--l1", "some"], "bound"),
        ([*one, *spend, "--mechanism", "gaussian"], "delta"),
        ([*one, *spend, "--keys-are-public"], "no key column"),
        ([*many, *spend], "--public-key KEY"),
        (["a1.raw-sketch", "-o", "a.sketch", *spend], "already exists and is not replaced"),
        (["a1.raw-sketch", "-o", "x.raw-sketch", *spend], "named *.sketch, got x.raw-sketch"),
        (["a.sketch", "-o", "x.sketch"], "a.sketch is a release, not a raw sketch"),
        (["sales.csv", "-o", "x.sketch"], "`streamsketch agree sales.csv --index COLUMN"),
        (["nowhere.raw-sketch", "-o", "x.sketch"], "does not exist"),
        (
            one,
            "follows no agreement that says what a release spends. To add it: `streamsketch agree a1.raw-sketch",
        ),
        ([*one, *spend, "--mechanism", "magic"], "names the mechanism 'magic', which is unknown here"),
    ]:
        assert message in forks.refused("release", *arguments, cwd=raws)
    assert load_raw(raws / "a1.raw-sketch").releases == (), "a refused release spends nothing"


def test_a_release_that_could_not_be_written_says_that_it_is_remembered(
    raws: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    terms = {"neighbours": ss.L1(1, unit="event"), "terms": ss.Terms(epsilon=1)}
    ss.Agreement.of(PROJECTION, index="item").replace(**terms).save(raws / "terms.json")
    monkeypatch.setattr(ss.PrivateSketch, "save", full)
    with pytest.raises(
        ss.InvalidInputError, match=r"x\.sketch cannot be written: No space .* has recorded the release"
    ):
        release([str(raws / "a1.raw-sketch")], agreement=raws / "terms.json", output=str(raws / "x.sketch"))
    assert len(load_raw(raws / "a1.raw-sketch").releases) == 1
