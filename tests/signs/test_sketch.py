"""Published signs as values, and in the exchange format: exact round trips, one kind of error for anything invalid."""

import copy
import hashlib
import inspect
import pickle
import struct
from fractions import Fraction
from pathlib import Path
from typing import get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamsketch as ss
from streamsketch import signs
from streamsketch.privacy import Mechanism
from streamsketch.privacy.individual import IndividualGuarantee
from streamsketch.privacy.mechanism import FlippedSigns
from streamsketch.signs.sign_changes import FlipLaw
from streamsketch.signs.sketch import Method, Signs, pack_signs
from streamsketch.wire import wire_pb2
from streamsketch.wire.releases import RELEASES

SIGNS_MAGIC, INDIVIDUAL_SIGNS_MAGIC = b"\x89SSG\r\n\x1a\n", b"\x89SSI\r\n\x1a\n"

PROJECTION = ss.projections.OPORP(dim=100, sketch_dim=13, seed=5)
LAW = FlipLaw("constant", Fraction(1))
GUARANTEE = ss.Guarantee(1.0, 0.0, ss.OneCoordinate(1), Mechanism([FlippedSigns("DP-SignOPORP-RR", LAW)]))


def release_of(packed: bytes = b"\xa5\x11") -> signs.SignSketch:
    return signs.SignSketch(PROJECTION, packed, LAW, GUARANTEE, release_id=b"01234567")


def individual_of(packed: bytes = b"\xa5\x11") -> signs.IndividualSignSketch:
    guarantee = IndividualGuarantee(1.0, 1e-6, ss.L1(1), "iDP-SignRP-G")
    return signs.IndividualSignSketch(PROJECTION, packed, "iDP-SignRP-G", guarantee, release_id=b"01234567")


BOTH = [release_of(), individual_of()]
each_kind = pytest.mark.parametrize("release", BOTH, ids=lambda release: type(release).__name__)


def framed(payload: bytes, magic: bytes = SIGNS_MAGIC) -> bytes:
    data = struct.pack("<8sBQ", magic, 1, len(payload)) + payload
    return data + hashlib.blake2b(data, digest_size=16).digest()


@each_kind
def test_signs_are_values(release: Signs) -> None:
    assert release.signs.tolist() == [1, -1, 1, -1, -1, 1, -1, 1, 1, -1, -1, -1, 1]
    assert release.signs.dtype == np.int8
    assert release.packed == b"\xa5\x11"
    assert release.words.tolist() == [0x11A5]
    assert not release.words.flags.writeable
    for twin in (copy.copy(release), copy.deepcopy(release), pickle.loads(pickle.dumps(release))):  # noqa: S301
        assert twin == release
        assert hash(twin) == hash(release)
    assert len(set(BOTH)) == 2
    assert release != "signs"
    assert repr(release).startswith(f"<{type(release).__name__} of OPORP(")


def test_packing_is_the_inverse_of_signs() -> None:
    positive = np.arange(13) % 3 == 0
    assert np.array_equal(release_of(pack_signs(positive)).signs > 0, positive)


def test_invalid_parts_are_refused() -> None:
    for packed in (b"", b"\0", b"\0" * 3):
        with pytest.raises(ss.InvalidInputError, match="13 signs are 2 bytes"):
            release_of(packed)
    with pytest.raises(ss.InvalidInputError, match="after the last sign"):
        release_of(b"\0\x20")
    with pytest.raises(ss.InvalidInputError, match="8 bytes, got 3"):
        signs.SignSketch(PROJECTION, b"\0\0", LAW, GUARANTEE, release_id=b"123")
    with pytest.raises(TypeError, match="is a Guarantee, got a IndividualGuarantee"):
        signs.SignSketch(PROJECTION, b"\0\0", LAW, individual_of().guarantee, release_id=b"01234567")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="is a IndividualGuarantee, got a Guarantee"):
        signs.IndividualSignSketch(PROJECTION, b"\0\0", "iDP-SignRP-G", GUARANTEE, release_id=b"01234567")  # type: ignore[arg-type]
    with pytest.raises(ss.InvalidInputError, match="a method is one of"):
        signs.IndividualSignSketch(PROJECTION, b"\0\0", "DP", individual_of().guarantee, release_id=b"01234567")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="law must be a FlipLaw"):
        signs.SignSketch(PROJECTION, b"\0\0", "constant", GUARANTEE, release_id=b"01234567")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="are bytes"):
        signs.SignSketch(PROJECTION, "\0\0", LAW, GUARANTEE, release_id=b"01234567")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be a streamsketch projection"):
        signs.SignSketch("p", b"\0\0", LAW, GUARANTEE, release_id=b"01234567")  # type: ignore[arg-type]
    with pytest.raises(ss.InvalidInputError, match="a flip law is one of"):
        FlipLaw("cubic", Fraction(1))  # type: ignore[arg-type]


# --- mechanisms as users meet them ----------------------------------------------------------------------------


def test_every_release_draws_anew_and_leaves_the_sketch_alone() -> None:
    projection = ss.projections.Rademacher(dim=1000, sketch_dim=512, seed=3)
    sketch = projection.sketch()
    sketch.update(range(100), 1)
    before = sketch.state()
    asked = signs.DPSignLogistic(epsilon=1.0, neighbours=ss.L1(1, unit="click"))
    one, other = asked.release(sketch), asked.release(sketch)
    assert one.packed != other.packed
    assert one.release_id != other.release_id
    assert np.array_equal(sketch.state(), before)
    assert one.guarantee == asked.guarantee(projection).on("asserted")
    assert one.law == asked.law(projection)


def test_strong_signals_keep_their_signs() -> None:
    """A flip at these levels has a chance below e^-40."""
    projection = ss.projections.Rademacher(dim=8, sketch_dim=64, seed=3)
    matrix = np.array([[10**9, 0, 0, 0, 0, 0, 0, 1], [0, -(10**9), 0, 0, 0, 3, 0, 0]])
    for mechanism in (signs.DPSignLogistic, signs.DPSignRPRRSmooth):
        rows = mechanism(epsilon=2.0, neighbours=ss.L1(1)).release_rows(projection, matrix)
        exact = np.sign(projection.transform(matrix, exact=True))
        assert [row.signs.tolist() for row in rows] == exact.tolist()


def test_inputs_out_of_range_are_refused() -> None:
    asked = signs.DPSignLogistic(epsilon=1.0, neighbours=ss.L1(1))
    with pytest.raises(TypeError, match="only a Sketch can be released"):
        asked.release(np.zeros(13))  # type: ignore[arg-type]
    with pytest.raises(ss.InvalidInputError, match="fractions are truncated together"):
        asked.release_rows(PROJECTION, np.zeros((2, 100)))
    with pytest.raises(ss.InvalidInputError, match="shape"):
        asked.release_rows(PROJECTION, np.zeros((2, 99), dtype=int))
    with pytest.raises(TypeError, match="neighbours must be"):
        signs.DPSignLogistic(epsilon=1.0, neighbours=1)  # type: ignore[arg-type]
    with pytest.raises(ss.InvalidInputError, match="epsilon"):
        signs.DPSignLogistic(epsilon=0.0, neighbours=ss.L1(1))
    for mechanism in (signs.DPSignLogistic, signs.IDPSignRPRR):
        with pytest.raises(ss.InvalidInputError, match="ratio of 63-bit integers"):
            mechanism(epsilon=1.0, neighbours=ss.L1(Fraction(1 << 64, 3)))
    with pytest.raises(ss.InvalidInputError, match="use OPORP"):
        signs.DPSignOPORPRR(epsilon=1.0, neighbours=ss.OneCoordinate(1)).law(
            ss.projections.Rademacher(dim=9, sketch_dim=4, seed=1)
        )
    with pytest.raises(ss.InvalidInputError, match=r"below 2\^-52"):
        signs.DPSignLogistic(epsilon=1e-6, neighbours=ss.L1(1 << 60)).law(PROJECTION)
    with pytest.raises(ss.InvalidInputError, match=r"2\*\*62 grid steps"):
        signs.DPSignRPRRSmooth(epsilon=1.0, neighbours=ss.L1(1 << 62)).release(PROJECTION.sketch())


def test_whatever_passes_the_check_is_released() -> None:
    """A bound below a grid step, and one beyond 2^62 steps, leave no levels; the check says so, not a worker."""
    flat = next(
        map_
        for map_ in (
            ss.projections.GaussianProjection(dim=1, sketch_dim=1, seed=seed, fraction_bits=2, resolution="1/4")
            for seed in range(99)
        )
        if not map_.block(np.zeros(1, dtype=np.uint64)).any()
    )
    smooth = signs.DPSignRPRRSmooth
    for neighbours, projection, message in (
        (ss.L1(Fraction(1, 2)), PROJECTION, "below one grid step"),
        (ss.L1(1 << 62), PROJECTION, r"2\*\*62 grid steps"),
        (ss.OneCoordinate(1 << 62), flat, r"2\*\*62 grid steps"),  # a row of zeros is stepped over all the same
    ):
        with pytest.raises(ss.InvalidInputError, match=message):
            smooth(epsilon=1.0, neighbours=neighbours).calibrated(projection)
    by_bin = signs.DPSignOPORPRRSmooth(epsilon=1.0, neighbours=ss.OneCoordinate(1 << 62))
    with pytest.raises(ss.InvalidInputError, match=r"2\*\*62 grid steps"):
        by_bin.calibrated(ss.projections.OPORP(dim=9, sketch_dim=4, seed=1))


def test_real_vectors_are_published_on_their_grid() -> None:
    projection = ss.projections.OPORP(dim=4, sketch_dim=4, seed=1, resolution="1/256")
    asked = signs.DPSignOPORPRRSmooth(epsilon=50.0, neighbours=ss.OneCoordinate(1))
    (row,) = asked.release_rows(projection, np.array([[0.5, -0.25, 1.0, -1.0]]))
    assert row.signs.tolist() == np.sign(projection.columns([0, 1, 2, 3]) @ [1, -1, 1, -1]).tolist()


# --- bytes ----------------------------------------------------------------------------------------------------


@st.composite
def releases(draw: st.DrawFn) -> Signs:
    k = draw(st.integers(1, 200))
    projection = ss.projections.Rademacher(
        dim=draw(st.integers(1, 1 << 60)), sketch_dim=k, seed=draw(st.integers(0, 1 << 63))
    )
    packed = pack_signs(np.array(draw(st.lists(st.booleans(), min_size=k, max_size=k))))
    relation = draw(st.sampled_from([ss.L1, ss.OneCoordinate]))
    bound = draw(st.fractions(Fraction(1, 1000), 1000, max_denominator=1000))
    budget = draw(st.floats(1e-6, 100)), draw(st.floats(0, 0.99))
    release_id = draw(st.binary(min_size=8, max_size=8))
    if draw(st.booleans()):
        method = draw(st.sampled_from(get_args(Method)))
        if "OPORP" in method:
            projection, relation = ss.projections.OPORP(dim=k, sketch_dim=k, seed=1), ss.OneCoordinate
        delta = max(budget[1], 1e-300) if method.endswith("-G") else 0.0
        individual = IndividualGuarantee(budget[0], delta, relation(bound), method)
        return signs.IndividualSignSketch(projection, packed, method, individual, release_id=release_id)
    rate = Fraction(draw(st.integers(1, 1 << 32)), 1 << draw(st.integers(0, 52)))
    law = FlipLaw(draw(st.sampled_from(["constant", "levels", "linear"])), rate)
    conditions = draw(st.lists(st.sampled_from(["no vector is zero", "m", "the seed is random"])))
    guarantee = ss.Guarantee(*budget, relation(bound), Mechanism.stated("m"), conditions)
    return signs.SignSketch(projection, packed, law, guarantee, release_id=release_id)


@given(releases())
def test_bytes_round_trip_exactly_and_are_canonical(release: Signs) -> None:
    data = release.to_bytes()
    again = type(release).from_bytes(data, expect=release.projection)
    assert again == release
    assert again.to_bytes() == data


@each_kind
def test_every_truncation_and_every_flipped_bit_is_refused(release: Signs) -> None:
    data = release.to_bytes()
    for length in range(len(data)):
        with pytest.raises(ss.errors.WireFormatError):
            type(release).from_bytes(data[:length])
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ss.errors.WireFormatError):
            type(release).from_bytes(bytes(changed))


@given(st.binary(max_size=300), st.sampled_from(BOTH))
@settings(max_examples=2 * settings.default.max_examples)
def test_rubbish_raises_the_one_error(data: bytes, release: Signs) -> None:
    for attempt in (data, framed(data), framed(data, INDIVIDUAL_SIGNS_MAGIC)):
        with pytest.raises(ss.errors.WireFormatError):
            type(release).from_bytes(attempt)


@given(st.data())
@settings(max_examples=2 * settings.default.max_examples)
def test_a_changed_payload_with_a_right_checksum_is_sound_or_refused(data: st.DataObject) -> None:
    release = data.draw(st.sampled_from(BOTH))
    image = release.to_bytes()
    payload = bytearray(image[17:-16])
    for _ in range(data.draw(st.integers(1, 4))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    attempt = framed(bytes(payload), image[:8])
    try:
        again = type(release).from_bytes(attempt)
    except ss.errors.WireFormatError:
        return
    assert again.to_bytes() == attempt


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ("m.signs = b'12'", "signs"),
        ("m.signs = b''", "signs"),
        ("m.release_id = b'1'", "signs"),
        ("m.law.shape = 'cubic'", "law"),
        ("m.law.shape = ''", "law"),
        ("m.law.rate.denominator = 0", "law.rate"),
        ("m.law.rate.denominator = 3", "law"),
        ("m.law.rate.numerator = -1", "law"),
        ("m.law.rate.numerator = 1 << 40", "law"),
        ("m.law.rate.numerator = 2; m.law.rate.denominator = 2", "payload"),
        ("m.ClearField('law')", "law.rate"),
        ("m.guarantee.epsilon = float('nan')", "guarantee"),
        ("m.guarantee.neighbours.kind = 'l3'", "guarantee.neighbours.kind"),
        ("m.guarantee.conditions.append('')", "guarantee"),
        ("m.guarantee.conditions.append('x' * 201)", "guarantee"),
        ("m.guarantee.conditions.extend(map(str, range(65)))", "guarantee"),
        ("m.guarantee.conditions.extend(['b', 'a'])", "payload"),
        ("m.guarantee.conditions.extend(['a', 'a'])", "payload"),
        (
            (
                "b = m.guarantee.steps[0].flips.norm_bound; b.numerator, b.denominator = 5, 1; "
                "m.guarantee.mechanism = 'DP-SignOPORP-RR for norms of at least 5, flips with 1/(exp(1) + 1)'"
            ),
            "guarantee.conditions",
        ),
        ("m.guarantee.steps[0].flips.norm_bound.denominator = 1", "guarantee"),
        ("m.guarantee.steps[0].flips.law.shape = 'cubic'", "guarantee"),
        ("m.guarantee.steps[0].flips.law.rate.numerator = 2", "guarantee.mechanism"),
        ("m.guarantee.steps[0].flips.method = ''", "guarantee"),
        ("m.projection.sketch_dim = 1 << 20", "projection"),
        ("m.projection.kind = 'nonesuch'", "projection"),
    ],
)
def test_hostile_fields_name_their_place(change: str, where: str) -> None:
    message = wire_pb2.SignSketch()
    message.ParseFromString(release_of().to_bytes()[17:-16])
    exec(change, {"m": message})  # noqa: S102 - statements from the table above
    with pytest.raises(ss.errors.WireFormatError) as caught:
        signs.SignSketch.from_bytes(framed(message.SerializeToString(deterministic=True)))
    assert caught.value.where == where


@pytest.mark.parametrize(
    ("change", "where", "problem"),
    [
        ("m.guarantee.neighbours.max_keys = 2", "guarantee", "one key only, got max_keys=2"),
        ("m.guarantee.conditions.append('a')", "guarantee.conditions", "have none"),
        (
            (
                "f = m.guarantee.steps.add().flips; f.method, f.law.shape = 'iDP-SignRP-G', 'linear'; "
                "f.law.rate.numerator = f.law.rate.denominator = 1; "
                "m.guarantee.mechanism = 'iDP-SignRP-G, flips with 1/(exp(1·|cell|) + 1)'"
            ),
            "signs",
            "one must be wrong",
        ),
        ("m.guarantee.mechanism = 'DP-Sign-logistic'", "signs", "one must be wrong"),
        ("m.method = 'iDP-SignRP-RR'", "signs", "one must be wrong"),
        (
            "m.method = m.guarantee.mechanism = 'iDP-SignRP-RR'",
            "signs",
            "only iDP-SignRP-G and iDP-SignOPORP-G have a delta",
        ),
        ("m.guarantee.delta = 0", "signs", "only iDP-SignRP-G and iDP-SignOPORP-G have a delta"),
        (
            "m.method = m.guarantee.mechanism = 'iDP-SignOPORP'; m.guarantee.delta = 0",
            "signs",
            "is for an OPORP and OneCoordinate neighbours, got OPORP and L1",
        ),
        (
            "m.method = m.guarantee.mechanism = 'iDP-SignOPORP'; m.guarantee.delta = 0; m.projection.kind = 'srht'",
            "signs",
            "is for an OPORP and OneCoordinate neighbours, got SRHT and L1",
        ),
    ],
)
def test_individual_signs_that_no_mechanism_makes_are_refused(change: str, where: str, problem: str) -> None:
    message = wire_pb2.IndividualSignSketch()
    message.ParseFromString(individual_of().to_bytes()[17:-16])
    exec(change, {"m": message})  # noqa: S102 - statements from the table above
    with pytest.raises(ss.errors.WireFormatError, match=problem) as caught:
        signs.IndividualSignSketch.from_bytes(
            framed(message.SerializeToString(deterministic=True), INDIVIDUAL_SIGNS_MAGIC)
        )
    assert caught.value.where == where


def test_no_kind_is_taken_for_another() -> None:
    sketch = ss.CountSketch(dim=9, sketch_dim=2, seed=1).sketch().release(epsilon=1, neighbours=ss.L1(1))
    images = {ss.PrivateSketch: sketch.to_bytes()} | {type(release): release.to_bytes() for release in BOTH}
    for reader in images:
        for writer, image in images.items():
            if reader is not writer:
                with pytest.raises(ss.errors.WireFormatError, match="bytes 0-7"):
                    reader.from_bytes(image)
    # not even with the other kind's frame
    with pytest.raises(ss.errors.WireFormatError):
        signs.SignSketch.from_bytes(framed(individual_of().to_bytes()[17:-16]))
    with pytest.raises(ss.errors.WireFormatError):
        ss.PrivateSketch.from_bytes(framed(release_of().to_bytes()[17:-16], RELEASES.magic))


def test_limits_and_expectations_are_kept(tmp_path: Path) -> None:
    data = release_of().to_bytes()
    with pytest.raises(ss.errors.WireFormatError, match="over the limit"):
        signs.SignSketch.from_bytes(data, max_bytes=10)
    with pytest.raises(ss.errors.WireFormatError, match="not the expected one"):
        signs.SignSketch.from_bytes(data, expect=PROJECTION.replace(seed=6))
    for release in BOTH:
        release.save(tmp_path / "some.signs", overwrite=True)
        assert ss.load(tmp_path / "some.signs", expect=PROJECTION) == release
    with pytest.raises(ss.errors.WireFormatError, match="over the limit"):
        ss.load(tmp_path / "some.signs", max_bytes=10)


# --- tables -----------------------------------------------------------------------------------------------------


def test_tables_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "signs.parquet"
    sketches = {"a": release_of(), "b": release_of(b"\0\0")}
    ss.signs.SignTable(sketches).save(path)
    assert ss.load(path, expect=PROJECTION) == sketches
    table = pq.read_table(path)
    assert table.column_names == ["key", "signs", "epsilon", "delta", "unit", "mechanism", "conditions"]
    assert table["conditions"].to_pylist() == [[], []]
    assert table.schema.metadata[b"streamsketch.projection"].decode() == PROJECTION.to_json()
    with pytest.raises(ss.errors.WireFormatError, match="must include key and sketch"):
        ss.PrivateTable.from_bytes(path.read_bytes())


def test_a_condition_goes_where_the_guarantee_goes(tmp_path: Path) -> None:
    projection = ss.projections.GaussianProjection(dim=16, sketch_dim=64, seed=1, independence=16)
    asked = [
        signs.DPSignRPRR(epsilon=8, delta=1e-6, neighbours=ss.OneCoordinate(1), norm_bound=30.125 + i) for i in range(3)
    ]
    both = ss.compose([one.guarantee(projection) for one in asked], populations="overlapping")
    assert str(both.mechanism) == "several mechanisms"
    law = asked[0].law(projection)
    release = signs.SignSketch(projection, bytes(8), law, both, release_id=b"01234567")
    again = signs.SignSketch.from_bytes(release.to_bytes())
    assert again.guarantee == both
    for bound in ("241/8", "249/8", "257/8"):
        assert sum(one.endswith(f"norm of at least {bound}") for one in again.guarantee.conditions) == 1
        assert f"norm of at least {bound}" in str(again.guarantee)
    assert "the seed of DP-SignRP-RR was drawn at random, without a look at the data" in again.guarantee.conditions
    path = tmp_path / "signs.parquet"
    ss.signs.SignTable({"a": release}).save(path)
    assert pq.read_table(path)["conditions"].to_pylist() == [list(both.conditions)]


def test_tables_hold_differentially_private_signs_only(tmp_path: Path) -> None:
    path = tmp_path / "signs.parquet"
    for wrong in (individual_of(), PROJECTION.sketch()):
        with pytest.raises(TypeError, match="a table holds SignSketch objects, got a"):
            ss.signs.SignTable({"a": wrong}).save(path)  # type: ignore[dict-item]
    assert not path.exists()
    pq.write_table(pa.table({"key": ["a"], "signs": [release_of().to_bytes()[:-1]]}), path)
    with pytest.raises(ss.errors.WireFormatError) as caught:
        ss.load(path)
    assert caught.value.where == "row 0, bytes 9-16"


def test_the_room_is_reached_by_its_name() -> None:
    assert ss.signs is signs
    things = [getattr(signs, name) for name in signs.__all__]
    assert all(thing.__doc__ for thing in things if inspect.isclass(thing) or inspect.isfunction(thing))
