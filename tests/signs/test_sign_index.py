"""An index of published signs: the answers of `nearest` and `angle`, from one matrix in memory or on disk."""

import datetime as dt
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamsketch as ss
from streamsketch import errors, signs
from streamsketch.parties import Key, sign
from streamsketch.privacy import Mechanism
from streamsketch.signs import SignIndex, hamming
from streamsketch.signs.index_file import write_index
from streamsketch.signs.index_members import Members
from streamsketch.signs.sign_changes import FlipLaw
from streamsketch.signs.sign_index import joined_keys
from streamsketch.signs.sketch import pack_signs
from streamsketch.wire.releases import frame
from tests.noise import salted_rng

pytestmark = pytest.mark.rejects(0)


def releases(
    bits: Sequence[Sequence[bool]], first_id: int = 0, *, seed: int = 1, rate: int = 1, epsilon: float = 1.0
) -> list[signs.SignSketch]:
    projection = ss.projections.Rademacher(dim=99, sketch_dim=len(bits[0]), seed=seed)
    guarantee = ss.Guarantee(epsilon, 0.0, ss.OneCoordinate(1), Mechanism.stated("m"))
    law = FlipLaw("constant", Fraction(rate))
    return [
        signs.SignSketch(
            projection, pack_signs(np.array(row)), law, guarantee, release_id=(first_id + i).to_bytes(8, "big")
        )
        for i, row in enumerate(bits)
    ]


def random_releases(count: int, k: int, seed: int, first_id: int = 0, *, rate: int = 1) -> list[signs.SignSketch]:
    bits = salted_rng(seed).integers(0, 2, (count, k)).astype(bool)
    return releases(bits, first_id, rate=rate)  # type: ignore[arg-type]


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
    once = pairs(SignIndex(iter(members)).nearest(queries, 40))
    assert once == twin(queries, members, 40)
    rows, blocks = hamming.words_of(queries), hamming.in_blocks(hamming.words_of(members))
    for cores in (1, 3, 64):
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        assert pairs(hamming.nearest_in(rows, blocks, 500, 40, many=1, block_rows=4)) == once


def test_members_are_put_in_blocks_part_by_part() -> None:
    members, queries = random_releases(53, 70, 1), random_releases(3, 70, 2, 10_000)
    waiting = Members(rows=16)
    for member in members:
        waiting.add(member)
    blocks = waiting.content(None).blocks
    assert pairs(hamming.nearest_in(hamming.words_of(queries), blocks, 53, 53)) == twin(queries, members, 53)


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
    assert mapped.keys is None


@pytest.mark.parametrize(
    "keys",
    [
        ["é", "b", "a"],
        [b"\xff", b"", b"a"],
        [1 << 62, -1, 3],
        [dt.date(2024, 2, day) for day in (27, 28, 29)],
        [dt.datetime(2024, 2, day, tzinfo=dt.UTC) for day in (27, 28, 29)],
    ],
    ids=lambda keys: type(keys[0]).__name__,
)
def test_keys_stay_with_their_members(tmp_path: Path, keys: list[object]) -> None:
    members, queries = random_releases(3, 64, 1), random_releases(1, 64, 2, 10_000)
    index = SignIndex(dict(zip(keys, members, strict=True)))
    index.save(tmp_path / "index")
    mapped = SignIndex.load(tmp_path / "index")
    for one in (index, mapped):
        assert one.keys is not None
        assert one.keys.to_pylist() == keys
        (place,) = one.nearest(queries, 1).places[0]
        assert one.keys[place].as_py() == keys[twin(queries, members, 1)[0][0][1]]
    mapped.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "index").read_bytes()
    with pytest.raises(ss.InvalidInputError, match="key"):
        SignIndex({"a": members[0], 1: members[1]})


def test_files_of_the_first_version_are_read(tmp_path: Path) -> None:
    """They have no length of keys, which may move where the codes begin."""
    members, queries = random_releases(20, 70, 1), random_releases(2, 70, 2, 10_000)
    index, path = SignIndex(members), tmp_path / "index"
    index.save(path)
    first, codes = members[0].to_bytes(), path.read_bytes()[4096:]
    numbers = (20).to_bytes(8, "little") + len(first).to_bytes(8, "little")
    path.write_bytes((b"SSsigns\x01" + numbers + first).ljust(4096, b"\0") + codes)
    mapped = SignIndex.load(path)
    assert pairs(mapped.nearest(queries, 20)) == pairs(index.nearest(queries, 20))
    assert mapped.keys is None


def ipc(table: pa.Table, compression: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def with_keys(image: bytes, keys: bytes) -> bytes:
    """Return a file of an index with these keys."""
    return image[:24] + len(keys).to_bytes(8, "little") + image[32:] + keys


# --- from files -------------------------------------------------------------------------------------------------------


def same(first: SignIndex, second: SignIndex) -> bool:
    ours, theirs = first._content, second._content
    return (
        (ours.blocks == theirs.blocks).all()
        and (ours.ids == theirs.ids).all()
        and (ours.first, ours.members, ours.keys) == (theirs.first, theirs.members, theirs.keys)
    )


def keyed_table(keys: Sequence[object], k: int) -> signs.SignTable:
    """Return signs of the keys of a table, which publish ids of their data."""
    table = ss.projections.Rademacher(dim=99, sketch_dim=k, seed=1).table()
    table.update(list(keys), np.arange(len(keys)) % 99, np.arange(len(keys)) + 100)
    return signs.DPSignLogistic(epsilon=4.0, neighbours=ss.L1(1)).release_table(table, keys_are_public=True)


@pytest.mark.parametrize("k", [64, 70, 130])
@pytest.mark.parametrize(("members", "files"), [(9, 1), (9, 2), (9, 99), (1030, 99)])
def test_a_table_that_is_read_in_parts_is_the_one_that_is_loaded(
    tmp_path: Path, k: int, members: int, files: int
) -> None:
    """Of 1,024 rows, or of the few that fit in the memory of so many files."""
    with_ids, path = keyed_table([f"key {i}" for i in range(members)], k), tmp_path / "table"
    others = [one for first in (0, 9999) for one in random_releases(members, k, first, first)]
    plain = signs.SignTable(dict(enumerate(others)))
    for table in (with_ids, plain):
        table.save(path, overwrite=True)
        with ss.limits.reading_limits(max_table_bytes=files * path.stat().st_size):
            assert same(SignIndex.from_files(path), SignIndex(table))


def test_rows_that_differ_otherwise_are_read_one_by_one(tmp_path: Path) -> None:
    some = keyed_table("abc", 70)
    bare = signs.SignSketch(some.projection, some["b"].packed, some["b"].law, some.guarantee, release_id=bytes(8))
    mixed = signs.SignTable({**some, "b": bare})
    mixed.save(tmp_path / "table")
    assert same(SignIndex.from_files(tmp_path / "table"), SignIndex(mixed))


def test_much_text_gets_larger_offsets(tmp_path: Path) -> None:
    parts, members = [pa.array(["a", "b"]), pa.array(["c", "d"])], Members()
    assert joined_keys(parts, most_small=sum(part.nbytes for part in parts)).type == pa.string()
    keys = joined_keys(parts, most_small=1)
    assert keys.type == pa.large_string()
    assert keys.to_pylist() == list("abcd")
    for release in random_releases(4, 64, 1):
        members.add(release)
    write_index(tmp_path / "index", members.content(keys))
    assert SignIndex.load(tmp_path / "index").keys == keys


def test_several_files_are_one_collection(tmp_path: Path) -> None:
    members = random_releases(6, 70, 1)
    signs.SignTable(dict(zip("abcd", members, strict=False))).save(tmp_path / "table")
    for name, release in zip("ef", members[4:], strict=True):
        release.save(tmp_path / f"{name}.signs")
    paths = [tmp_path / "table", tmp_path / "e.signs", tmp_path / "f.signs"]
    assert same(SignIndex.from_files(paths), SignIndex(dict(zip("abcdef", members, strict=True))))
    members[5].save(tmp_path / "a.signs")
    signs.SignTable({1: members[5]}).save(tmp_path / "numbers")
    releases([[True] * 70], 100, seed=2)[0].save(tmp_path / "other.signs")
    ss.PrivateTable(
        {1: ss.SJLT(sketch_dim=64, sparsity=4, seed=1).sketch().release(epsilon=1.0, neighbours=ss.L1(1))}
    ).save(tmp_path / "sketches")
    for others, error, problem in (
        ([], ss.InvalidInputError, "at least one"),
        (["table", "a.signs"], ss.InvalidInputError, "'a' is there twice"),
        (["table", "numbers"], ss.InvalidInputError, "numbers: keys have one type"),
        (["f.signs", "a.signs"], errors.DependentNoiseError, "the same release"),
        (["table", "other.signs"], errors.IncompatibleProjectionsError, r"other\.signs: .*seed"),
        (["sketches"], TypeError, "has a PrivateTable"),
    ):
        with pytest.raises(error, match=problem):
            SignIndex.from_files([tmp_path / name for name in others])


def test_files_may_have_to_be_signed(tmp_path: Path) -> None:
    north, south = Key.generate("North"), Key.generate("South")
    table, path = signs.SignTable(dict(zip("ab", random_releases(2, 64, 1), strict=True))), tmp_path / "table"
    table.save(path)
    sign(path, north)
    assert same(SignIndex.from_files(path, signer=north.public), SignIndex(table))
    with pytest.raises(errors.SignatureError):
        SignIndex.from_files(path, signer=south.public)


def damages(image: bytes, k: int) -> dict[str, bytes]:
    """Return bytes of a release that are wrong in one place, with a checksum that fits unless that is what is wrong."""
    signs_at = image.index(b"\x12" + bytes([-(-k // 8)])) + 2
    ids_at = [at for at in range(len(image) - 9) if image[at : at + 2] == b"\x32\x08"][-2:]
    last_bits = bytearray(image)
    last_bits[signs_at + -(-k // 8) - 1] |= 0x80
    swapped = bytearray(image)
    first, second = (slice(at + 2, at + 10) for at in ids_at)
    swapped[first], swapped[second] = image[second], image[first]
    other = bytearray(image)
    other[signs_at - 3] ^= 1  # of the projection's resolution
    sealed = {"unused bits": last_bits, "order of ids": swapped, "projection": other}
    found = {name: frame(bytes(one[:8]), bytes(one[17:-16])) for name, one in sealed.items()}
    return found | {"checksum": image[:-1] + bytes([image[-1] ^ 1]), "length": image[:-1], "nothing": b""}


def test_a_table_is_refused_as_it_is_where_it_is_loaded(tmp_path: Path) -> None:
    path, table = tmp_path / "table", keyed_table([f"key {i}" for i in range(9)], 70).to_arrow()
    images = table.column("signs").to_pylist()

    def refusals(images: list[bytes | None], keys: object = None) -> list[str]:
        columns = {"key": table.column("key") if keys is None else keys, "signs": pa.array(images, pa.binary())}
        pq.write_table(pa.table(columns), path)
        found = []
        for read in (ss.load, SignIndex.from_files):
            with pytest.raises(ss.StreamsketchError) as caught:
                read(path)
            found.append(str(caught.value).removeprefix(f"{path}: "))
        return found

    for name, image in damages(images[6], 70).items():
        first, second = refusals([*images[:6], image, *images[7:]])
        assert first == second, name
        assert first.startswith("row 6"), name
    assert refusals([*images[:3], None, *images[4:]]) == ["row 3 has no signs"] * 2
    assert all("key" in each for each in refusals(images, ["a", "a", *"bcdefgh"]))
    assert all("at least one" in each or "without a row" in each for each in refusals([], pa.array([], pa.string())))
    one = signs.SignSketch.from_bytes(images[0])
    twice = signs.SignSketch(
        one.projection, one.packed, one.law, one.guarantee, release_id=bytes(8), data_ids=one.data_ids
    )
    bare = signs.SignSketch(one.projection, one.packed, one.law, one.guarantee, release_id=bytes([1] * 8))
    for beside in (images[7], bare.to_bytes()):  # read as rows alike, and one by one
        first, second = refusals([*images[:6], twice.to_bytes(), beside, images[8]])
        assert first == second
        assert "some of the same data" in first


@pytest.mark.parametrize("alike", [True, False])
def test_data_in_two_parts_of_a_table_are_found(tmp_path: Path, *, alike: bool) -> None:
    table = keyed_table([f"key {i:04}" for i in range(1030)], 70)
    first, last = (list(table.values())[place] for place in (0, -1))
    ids = {"release_id": bytes(8), "data_ids": first.data_ids if alike else [*first.data_ids, bytes([255] * 8)]}
    changed = signs.SignSketch(last.projection, last.packed, last.law, last.guarantee, **ids)
    images = [*table.to_arrow().column("signs").to_pylist()[:-1], changed.to_bytes()]
    pq.write_table(pa.table({"key": list(table), "signs": pa.array(images, pa.binary())}), tmp_path / "table")
    with pytest.raises(ss.StreamsketchError, match="some of the same data"):
        SignIndex.from_files(tmp_path / "table")


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
    members, queries = random_releases(100, 64, 1, rate=4), random_releases(200, 64, 2, 10_000, rate=4)
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
    with pytest.raises(errors.DependentNoiseError, match="the same release"):
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
    count, text = 20, [f"key {i}" for i in range(20)]
    bad_keys = [
        b"nothing",
        ipc(pa.table({"key": text[1:]})),
        ipc(pa.table({"key": [None, *text[1:]]})),
        ipc(pa.table({"name": text})),
        ipc(pa.table({"key": pa.chunked_array([text[:9], text[9:]])})),
        ipc(pa.table({"key": text, "more": text})),
        ipc(pa.table({"key": [0.5] * count})),
        ipc(pa.table({"key": pa.array(text).dictionary_encode()})),
        ipc(pa.table({"key": text})).replace(b"key 7", b"key \xff"),
        ipc(pa.table({"key": ["a" * (1 << 20)] * count}), compression="zstd"),
    ]
    release = (
        ss.projections.Rademacher(dim=99, sketch_dim=70, seed=1).sketch().release(epsilon=1.0, neighbours=ss.L1(1))
    )
    for content, problem in (
        (b"", "not an index"),
        (b"SQLite f" + good[8:], "not an index"),
        (good[:8] + bytes(8) + good[16:], "not an index"),  # of no members
        (good[:16] + b"\xff" * 8 + good[24:], "not an index"),  # with a first member of 2^64 bytes
        (good[:16] + len(release.to_bytes()).to_bytes(8, "little") + bytes(8) + release.to_bytes(), "PrivateSketch"),
        (good[:-1], "bytes, and the file has"),
        (good + bytes(8), "bytes, and the file has"),
        (good[: words - 1] + b"\x80" + good[words:], "after the last sign"),
        (good[:-16] + good[-8:] + good[-16:-8], "not in order"),
        *((with_keys(good, keys), "keys: ") for keys in bad_keys),
    ):
        damaged.write_bytes(content)
        with pytest.raises(ss.errors.WireFormatError, match=problem):
            SignIndex.load(damaged)
