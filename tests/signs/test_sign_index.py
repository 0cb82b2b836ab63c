"""An index of published signs: the answers of `nearest` and `angle`, from one matrix in memory or on disk."""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamsketch as ss
from streamsketch import errors, signs
from streamsketch.privacy import Mechanism
from streamsketch.signs import SignIndex, hamming
from streamsketch.signs.sketch import pack_signs


def releases(
    bits: Sequence[Sequence[bool]], first_id: int = 0, *, seed: int = 1, rate: int = 1, epsilon: float = 1.0
) -> list[signs.SignSketch]:
    projection = ss.projections.Rademacher(dim=99, sketch_dim=len(bits[0]), seed=seed)
    guarantee = ss.Guarantee(epsilon, 0.0, ss.OneCoordinate(1), Mechanism.stated("m"))
    law = signs.FlipLaw("constant", Fraction(rate))
    return [
        signs.SignSketch(
            projection, pack_signs(np.array(row)), law, guarantee, release_id=(first_id + i).to_bytes(8, "big")
        )
        for i, row in enumerate(bits)
    ]


def random_releases(count: int, k: int, seed: int, first_id: int = 0) -> list[signs.SignSketch]:
    return releases(np.random.default_rng(seed).integers(0, 2, (count, k)).astype(bool), first_id)  # type: ignore[arg-type]


def twin(queries: list[signs.SignSketch], members: list[signs.SignSketch], top: int) -> list[list[tuple[int, int]]]:
    """Return (distance, place) of the nearest, by sorting all."""
    gaps = [[int((query.signs != member.signs).sum()) for member in members] for query in queries]
    return [sorted((gap, place) for place, gap in enumerate(row))[:top] for row in gaps]


def pairs(found: hamming.Nearest) -> list[list[tuple[int, int]]]:
    rows = zip(found.distances.tolist(), found.places.tolist(), strict=True)
    return [[(int(gap), place) for gap, place in zip(*row, strict=True)] for row in rows]


@given(st.data(), st.integers(1, 9), st.integers(1, 70), st.sampled_from([1, 3, 64, 65, 130]))
def test_the_nearest_are_those_of_the_twin_and_ties_go_to_the_first(
    data: st.DataObject, n: int, m: int, k: int
) -> None:
    """Few cells, so that most distances are ties."""
    seed, top = data.draw(st.integers(0, 1000)), data.draw(st.integers(1, m))
    members, queries = random_releases(m, k, seed), random_releases(n, k, seed + 1, 10_000)
    wanted = twin(queries, members, top)
    assert pairs(SignIndex(members).nearest(queries, top)) == wanted
    assert pairs(signs.nearest(queries, members, top)) == wanted


def test_threads_and_parts_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    members, queries = random_releases(500, 10, 1), random_releases(9, 10, 2, 10_000)
    index = SignIndex(iter(members))
    once = pairs(index.nearest(queries, 40))
    assert once == twin(queries, members, 40)
    monkeypatch.setattr(hamming, "_MANY", 1)
    monkeypatch.setattr(hamming, "_BLOCK_ROWS", 4)
    for cores in (1, 3, 64):
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        assert pairs(index.nearest(queries, 40)) == once


def test_members_are_put_in_blocks_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamsketch.signs.sign_index._ROWS", 16)
    members, queries = random_releases(53, 70, 1), random_releases(3, 70, 2, 10_000)
    assert pairs(SignIndex(members).nearest(queries, 53)) == twin(queries, members, 53)


def test_a_table_is_indexed_in_the_order_of_its_keys() -> None:
    members, queries = random_releases(5, 70, 1), random_releases(2, 70, 2, 10_000)
    table = signs.SignTable(dict(zip("edcba", members, strict=True)))
    assert pairs(SignIndex(table).nearest(queries, 5)) == twin(queries, members[::-1], 5)


@pytest.mark.parametrize("k", [64, 70, 130])
def test_a_file_holds_the_same_index_in_the_bytes_that_were_said(tmp_path: Path, k: int) -> None:
    members, queries = random_releases(1000, k, 1), random_releases(3, k, 2, 10_000)
    index, path = SignIndex(members), tmp_path / "index"
    index.save(path)
    mapped = SignIndex.load(path)
    assert (len(mapped), repr(mapped)) == (1000, repr(index))
    assert pairs(mapped.nearest(queries, 7)) == pairs(index.nearest(queries, 7))
    assert path.stat().st_size == 4096 + 8 * (1008 * -(-k // 64) + 1000)
    mapped.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_angles_are_those_of_pairs_with_intervals_for_the_pair_or_for_all_members() -> None:
    members, queries = random_releases(30, 256, 1), random_releases(2, 256, 2, 10_000)
    index = SignIndex(members)
    found = index.nearest(queries, 3)
    one, every = (index.angles(queries, found, confidence=0.9, selected=selected) for selected in (False, True))
    for i in range(2):
        for j in range(3):
            estimate = signs.angle(queries[i], members[int(found.places[i, j])])
            assert one.value[i, j] == every.value[i, j] == estimate.value
            assert (one.low[i, j], one.high[i, j]) == estimate.interval(0.9)
            assert (every.low[i, j], every.high[i, j]) == estimate.selected_interval(30, 0.9)


def test_intervals_of_the_nearest_allow_for_the_choice() -> None:
    """Signs at random are those of right angles; the seed is fixed, and 190 of 200 are expected to be covered."""
    members, queries = random_releases(100, 64, 1), random_releases(200, 64, 2, 10_000)
    index = SignIndex(members)
    found = index.nearest(queries, 1)
    shares = []
    for selected in (True, False):
        ends = index.angles(queries, found, selected=selected)
        shares.append(np.mean((ends.low <= np.pi / 2) & (np.pi / 2 <= ends.high)))
    assert shares[0] >= 0.93
    assert shares[1] < 0.5


def test_angles_of_flips_by_size_need_norms() -> None:
    publish = signs.DPSignLogistic(epsilon=64.0, neighbours=ss.L1(1))
    rows = publish.release_rows(ss.projections.Rademacher(dim=8, sketch_dim=64, seed=1), np.full((5, 8), 30))
    index = SignIndex(rows[1:])
    found = index.nearest(rows[:1], 2)
    with pytest.raises(ss.InvalidInputError, match="norm_x and norm_y"):
        index.angles(rows[:1], found)
    norm = 30 * 8**0.5
    value = index.angles(rows[:1], found, norm_queries=norm, norm_members=norm).value[0, 0]
    assert value == signs.angle(rows[0], rows[1 + int(found.places[0, 0])], norm_x=norm, norm_y=norm).value


def test_an_index_takes_releases_that_were_published_alike() -> None:
    some = random_releases(3, 64, 1)
    bits = [[True] * 64]
    with pytest.raises(ss.InvalidInputError, match="at least one release"):
        SignIndex([])
    with pytest.raises(TypeError, match="published signs"):
        SignIndex([some[0], "signs"])  # type: ignore[list-item]
    with pytest.raises(errors.DependentNoiseError, match="one place"):
        SignIndex([*some, some[0]])
    with pytest.raises(errors.IncompatibleProjectionsError):
        SignIndex([*some, *releases(bits, 100, seed=2)])
    with pytest.raises(ss.InvalidInputError, match="one law"):
        SignIndex([*some, *releases(bits, 100, rate=2)])
    with pytest.raises(ss.InvalidInputError, match="one guarantee"):
        SignIndex([*some, *releases(bits, 100, epsilon=2.0)])


def test_queries_are_no_members_and_of_the_same_projection() -> None:
    members, queries = random_releases(3, 64, 1), random_releases(2, 64, 2, 10_000)
    index = SignIndex(members)
    for place in range(3):
        with pytest.raises(errors.DependentNoiseError, match="member of the index"):
            index.nearest([queries[0], members[place]], 1)
    with pytest.raises(errors.IncompatibleProjectionsError):
        index.nearest(releases([[True] * 64], 100, seed=2), 1)
    with pytest.raises(ss.InvalidInputError, match="at least one"):
        index.nearest([], 1)
    found = index.nearest(queries, 3)
    for top in (0, 4):
        with pytest.raises(ss.InvalidInputError, match="top"):
            index.nearest(queries, top)
    with pytest.raises(ss.InvalidInputError, match="confidence"):
        index.angles(queries, found, confidence=1.0)
    with pytest.raises(ss.InvalidInputError, match="2 queries"):
        index.angles(queries[:1], found)


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    path, damaged = tmp_path / "index", tmp_path / "damaged"
    SignIndex(random_releases(20, 70, 1)).save(path)
    good = path.read_bytes()
    words = 4096 + 8 * 2 * 16  # where the second block begins
    release = (
        ss.projections.Rademacher(dim=99, sketch_dim=70, seed=1).sketch().release(epsilon=1.0, neighbours=ss.L1(1))
    )
    for content, problem in (
        (b"", "no index"),
        (b"SQLite f" + good[8:], "no index"),
        (good[:8] + bytes(8) + good[16:], "no index"),  # of no members
        (good[:16] + b"\xff" * 8 + good[24:], "no index"),  # with a first member of 2^64 bytes
        (good[:16] + len(release.to_bytes()).to_bytes(8, "little") + release.to_bytes() + bytes(9000), "PrivateSketch"),
        (good[:-1], "bytes, and the file has"),
        (good + bytes(8), "bytes, and the file has"),
        (good[: words - 1] + b"\x80" + good[words:], "behind the last sign"),
        (good[:-16] + good[-8:] + good[-16:-8], "not in order"),
    ):
        damaged.write_bytes(content)
        with pytest.raises(ss.WireFormatError, match=problem):
            SignIndex.load(damaged)
