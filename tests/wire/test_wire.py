"""The exchange format: exact round trips, and one kind of error for anything invalid."""

import hashlib
import struct
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from google.protobuf import descriptor_pb2
from grpc_tools import protoc
from hypothesis import given, settings
from hypothesis import strategies as st

import streamsketch as ss
from streamsketch.privacy import Budget, Mechanism
from streamsketch.privacy.gaussian import DiscreteGaussian
from streamsketch.privacy.laplace import DiscreteLaplace
from streamsketch.privacy.mechanism import AddedNoise, FlippedSigns, KeySelection, StatedInText
from streamsketch.privacy.noise import NoiseMoments
from streamsketch.privacy.sign_flips import FlipLaw
from streamsketch.wire import wire_pb2
from streamsketch.wire.releases import RELEASES

PROJECTION = ss.SJLT(dim=1000, sketch_dim=8, sparsity=2, seed=5)
GUARANTEE = ss.Guarantee(1.0, 0.0, ss.L1(1), Mechanism.of_noise(DiscreteLaplace(Fraction(2))))


def release_of(values: list[int], projection: ss.projections.Projection = PROJECTION) -> ss.PrivateSketch:
    return ss.PrivateSketch(
        projection, np.array(values, dtype=np.int64), NoiseMoments(8.0, 200.0), GUARANTEE, release_ids=[b"01234567"]
    )


def framed(payload: bytes, *, magic: bytes = RELEASES.magic, version: int = 1, length: int | None = None) -> bytes:
    """Frame a payload as a hostile writer would: with a right checksum."""
    data = struct.pack("<8sBQ", magic, version, len(payload) if length is None else length) + payload
    return data + hashlib.blake2b(data, digest_size=16).digest()


def message() -> wire_pb2.PrivateSketch:
    whole = wire_pb2.PrivateSketch()
    whole.ParseFromString(release_of(range(8)).to_bytes()[17:-16])
    return whole


projections = st.one_of(
    st.builds(
        lambda dim, power, s, seed, t, n, d: ss.SJLT(
            dim=dim, sketch_dim=s << power, sparsity=s, seed=seed, independence=t, resolution=Fraction(n, d)
        ),
        st.integers(1, 1 << 60),
        st.integers(0, 5),
        st.integers(1, 6),
        st.integers(0, (1 << 64) - 1),
        st.integers(4, 256),
        st.integers(1, (1 << 63) - 1),
        st.integers(1, (1 << 63) - 1),
    ),
    st.builds(
        lambda power, seed: ss.CountSketch(dim=77, sketch_dim=1 << power, seed=seed),
        st.integers(0, 6),
        st.integers(0, (1 << 64) - 1),
    ),
)


amounts = st.fractions(min_value=1, max_value=1 << 20, max_denominator=1 << 20)
noises = st.one_of(amounts.map(DiscreteLaplace), st.integers(1, 1 << 48).map(lambda n: DiscreteGaussian(Fraction(n))))
steps = st.one_of(
    st.builds(AddedNoise, noises, st.integers(1, 2), st.sampled_from(["output", "input", "hadamard"])),
    st.builds(
        FlippedSigns,
        st.sampled_from(["DP-Sign-logistic", "DP-SignRP-RR"]),
        st.builds(FlipLaw, st.sampled_from(["constant", "levels", "linear"]), st.integers(1, 9).map(Fraction)),
        st.none() | amounts,
    ),
    st.builds(KeySelection, st.builds(Budget, st.floats(1e-6, 100), st.floats(0, 0.99))),
    st.sampled_from(["m", "zwei; drei"]).map(StatedInText),
)
mechanisms = st.lists(steps.map(lambda step: Mechanism([step])), min_size=1, max_size=6).map(Mechanism.together)


@st.composite
def releases(draw: st.DrawFn) -> ss.PrivateSketch:
    projection = draw(projections)
    bits = draw(st.sampled_from([7, 8, 15, 16, 31, 32, 62, 63]))
    cell = st.integers(-(1 << bits), (1 << bits) - 1)
    k = projection.sketch_dim
    values = np.array(draw(st.lists(cell, min_size=k, max_size=k)), dtype=np.int64)
    relation = draw(st.sampled_from([ss.L1, ss.OneCoordinate]))
    bound = Fraction(draw(st.integers(1, 1 << 40)), draw(st.integers(1, 1 << 40)))
    guarantee = ss.Guarantee(
        draw(st.floats(1e-6, 100)),
        draw(st.floats(0, 0.99)),
        relation(bound, draw(st.sampled_from(["user", "Gerät"]))),
        draw(mechanisms),
        draw(st.lists(st.sampled_from(["no vector is zero", "Norm über 3", "z"]))),
    )
    k2 = draw(st.floats(0, 1e30))
    noise = NoiseMoments(k2, draw(st.floats(-2 * k2**2, 1e70)))
    ids = draw(st.sets(st.binary(min_size=8, max_size=8), min_size=1, max_size=4))
    multiplier = draw(st.fractions(-100, 100, max_denominator=1000).filter(bool))
    return ss.PrivateSketch(projection, values, noise, guarantee, multiplier=multiplier, release_ids=ids)


@given(releases())
def test_bytes_round_trip_exactly_and_are_canonical(release: ss.PrivateSketch) -> None:
    data = release.to_bytes()
    again = ss.PrivateSketch.from_bytes(data, expect=release.projection)
    assert again == release
    assert again.to_bytes() == data


@pytest.mark.parametrize(
    ("largest", "width"), [(127, 1), (-128, 1), (128, 2), (-129, 2), (1 << 15, 4), (1 << 31, 8), (-(1 << 63), 8)]
)
def test_cells_take_their_narrowest_width(largest: int, width: int) -> None:
    narrow = len(release_of([0] * 8).to_bytes())
    release = release_of([0] * 7 + [largest])
    # protobuf leaves out no cells, and the length prefix of up to 64 bytes is one byte
    assert len(release.to_bytes()) == narrow + 8 * (width - 1)
    assert ss.PrivateSketch.from_bytes(release.to_bytes()) == release


def test_every_truncation_is_refused() -> None:
    data = release_of(range(8)).to_bytes()
    for length in range(len(data)):
        with pytest.raises(ss.errors.WireFormatError):
            ss.PrivateSketch.from_bytes(data[:length])


def test_every_flipped_bit_is_refused() -> None:
    data = release_of(range(8)).to_bytes()
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ss.errors.WireFormatError):
            ss.PrivateSketch.from_bytes(bytes(changed))


def test_bytes_behind_the_end_are_refused() -> None:
    with pytest.raises(ss.errors.WireFormatError, match="joined with another"):
        ss.PrivateSketch.from_bytes(release_of(range(8)).to_bytes() + b"\0")


@given(st.binary(max_size=300))
@settings(max_examples=2 * settings.default.max_examples)
def test_rubbish_raises_the_one_error(data: bytes) -> None:
    for attempt in (data, framed(data), RELEASES.magic + data):
        with pytest.raises(ss.errors.WireFormatError):
            ss.PrivateSketch.from_bytes(attempt)


@given(st.data())
@settings(max_examples=4 * settings.default.max_examples)
def test_a_changed_payload_with_a_right_checksum_is_sound_or_refused(data: st.DataObject) -> None:
    payload = bytearray(release_of(range(8)).to_bytes()[17:-16])
    for _ in range(data.draw(st.integers(1, 4))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    try:
        release = ss.PrivateSketch.from_bytes(framed(bytes(payload)))
    except ss.errors.WireFormatError:
        return
    assert release.to_bytes() == framed(bytes(payload))


def wrong(change: str) -> wire_pb2.PrivateSketch:
    whole = message()
    exec(change, {"m": whole})  # noqa: S102 - statements from the table below
    return whole


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ("m.projection.kind = 'fourier'", "projection"),
        ("m.projection.dim = 0", "projection"),
        ("m.projection.dim = 1 << 63", "projection"),
        ("m.projection.sketch_dim = 1 << 63", "projection"),
        ("m.projection.sketch_dim = 1 << 24", "values.cells"),
        ("m.projection.sparsity = 3", "projection"),
        ("m.projection.ClearField('sparsity')", "projection"),
        ("m.projection.independence = 1 << 31", "projection"),
        ("m.projection.resolution.denominator = 0", "projection.resolution"),
        ("m.projection.resolution.numerator = -1", "projection"),
        ("m.ClearField('projection')", "projection.resolution"),
        ("m.values.width = 3", "values.width"),
        ("m.values.width = 8", "values.cells"),
        ("m.values.cells = b''", "values.cells"),
        ("m.ClearField('values')", "values.width"),
        ("m.noise.k2 = -1", "noise"),
        ("m.noise.k2 = float('nan')", "noise"),
        ("m.noise.k4 = float('inf')", "noise"),
        ("m.noise.k4 = -1e300", "noise"),
        ("m.noise.k2 = 1e200", "noise"),
        ("m.guarantee.epsilon = 0", "guarantee"),
        ("m.guarantee.epsilon = float('nan')", "guarantee"),
        ("m.guarantee.delta = 1", "guarantee"),
        ("m.guarantee.neighbours.kind = 'friends'", "guarantee.neighbours.kind"),
        ("m.guarantee.neighbours.bound.numerator = 0", "guarantee"),
        ("m.guarantee.neighbours.bound.denominator = 0", "guarantee.neighbours.bound"),
        ("m.guarantee.neighbours.unit = ''", "guarantee"),
        ("m.guarantee.neighbours.max_keys = 1", "payload"),  # 1 is written by leaving it out
        ("m.guarantee.mechanism = '\\x1b[31mred'; m.guarantee.ClearField('steps')", "guarantee"),
        ("m.guarantee.mechanism = 'x' * 1000; m.guarantee.ClearField('steps')", "guarantee"),
        ("m.guarantee.mechanism = 'discrete Laplace, scale 3'", "guarantee.mechanism"),
        ("m.guarantee.mechanism = ''", "guarantee.mechanism"),
        ("m.guarantee.steps.add()", "guarantee.steps"),
        ("m.guarantee.steps.extend([m.guarantee.steps[0]] * 16)", "guarantee"),
        ("m.guarantee.steps[0].noise.kind = 'uniform'", "guarantee.steps.noise.kind"),
        ("m.guarantee.steps[0].noise.amount.denominator = 0", "guarantee.steps.noise.amount"),
        ("m.guarantee.steps[0].noise.amount.numerator = 0", "guarantee"),
        ("m.guarantee.steps[0].noise.amount.numerator = 1 << 60", "guarantee"),
        (
            "m.guarantee.steps[0].noise.amount.numerator = 4; m.guarantee.steps[0].noise.amount.denominator = 2",
            "payload",
        ),
        ("m.guarantee.steps[0].noise.layers = 1", "payload"),  # 1 is written by leaving it out
        ("m.guarantee.steps[0].noise.layers = 3", "guarantee"),
        ("m.guarantee.steps[0].noise.place = 'output'", "guarantee.steps.noise.place"),
        ("m.guarantee.steps[0].text = 'discrete Laplace, scale 2'", "payload"),  # it is known by its text alone
        ("m.guarantee.steps[0].text = ''", "guarantee"),
        ("m.guarantee.steps[0].keys.epsilon = 0", "guarantee"),
        ("m.guarantee.steps[0].flips.method = 'x'", "guarantee.steps.flips.law.rate"),
        ("m.multiplier.numerator = 0", "release"),
        ("m.multiplier.denominator = 0", "multiplier"),
        ("m.release_ids.append(b'short')", "release"),
        ("m.release_ids.append(m.release_ids[0])", "release"),
        ("m.ClearField('release_ids')", "release"),
    ],
)
def test_the_error_says_where(change: str, where: str) -> None:
    with pytest.raises(ss.errors.WireFormatError) as caught:
        ss.PrivateSketch.from_bytes(framed(wrong(change).SerializeToString(deterministic=True)))
    assert caught.value.where == where


@pytest.mark.parametrize(
    ("data", "where"),
    [
        (b"", "length"),
        (b"PK\3\4 and so on", "bytes 0-7"),
        (framed(b"", magic=b"\x89SSK\n\x1a\n\n"), "bytes 0-7"),
        (framed(b"", version=2), "byte 8"),
        (framed(b"", length=1 << 60), "bytes 9-16"),
        (framed(b"\xff\xff\xff"), "payload"),
    ],
)
def test_a_broken_frame_says_where(data: bytes, where: str) -> None:
    with pytest.raises(ss.errors.WireFormatError) as caught:
        ss.PrivateSketch.from_bytes(data)
    assert caught.value.where == where


def test_other_spellings_of_a_sound_message_are_refused() -> None:
    whole = message()
    whole.multiplier.numerator, whole.multiplier.denominator = 2, 2
    with pytest.raises(ss.errors.WireFormatError, match="canonical"):
        ss.PrivateSketch.from_bytes(framed(whole.SerializeToString(deterministic=True)))
    unknown = message().SerializeToString(deterministic=True) + bytes([15 << 3, 1])
    with pytest.raises(ss.errors.WireFormatError, match="canonical"):
        ss.PrivateSketch.from_bytes(framed(unknown))


def test_equal_releases_have_equal_bytes_even_with_negative_zeros() -> None:
    zeros = ss.PrivateSketch(
        PROJECTION,
        np.arange(8),
        NoiseMoments(8.0, -0.0),
        ss.Guarantee(1.0, -0.0, ss.L1(1), Mechanism.stated("m")),
        release_ids=[b"01234567"],
    )
    plain = ss.PrivateSketch(
        PROJECTION,
        np.arange(8),
        NoiseMoments(8.0, 0.0),
        ss.Guarantee(1.0, 0.0, ss.L1(1), Mechanism.stated("m")),
        release_ids=[b"01234567"],
    )
    assert zeros.to_bytes() == plain.to_bytes()


def test_a_long_hostile_name_is_not_repeated_whole() -> None:
    for change in ("m.projection.kind = 'x' * 10**6", "m.guarantee.neighbours.kind = 'x' * 10**6"):
        with pytest.raises(ss.errors.WireFormatError) as caught:
            ss.PrivateSketch.from_bytes(framed(wrong(change).SerializeToString(deterministic=True)))
        assert len(str(caught.value)) < 1000


def test_longer_input_than_allowed_is_refused_unread() -> None:
    data = release_of(range(8)).to_bytes()
    with pytest.raises(ss.errors.WireFormatError, match="over the limit of 10"):
        ss.PrivateSketch.from_bytes(data, max_bytes=10)


def test_an_unexpected_projection_names_the_field() -> None:
    data = release_of(range(8)).to_bytes()
    with pytest.raises(ss.errors.WireFormatError, match=r"seed \(6 here, 5 there\)"):
        ss.PrivateSketch.from_bytes(data, expect=PROJECTION.replace(seed=6))


def test_a_raw_sketch_has_no_public_bytes() -> None:
    assert not hasattr(PROJECTION.sketch(), "to_bytes")
    assert not hasattr(PROJECTION.sketch(), "save")


def test_files_round_trip_and_leave_nothing_else_behind(tmp_path: Path) -> None:
    release = release_of(range(8))
    release.save(tmp_path / "one.sketch")
    assert ss.load(tmp_path / "one.sketch") == release
    assert [path.name for path in tmp_path.iterdir()] == ["one.sketch"]
    with pytest.raises(ss.errors.WireFormatError):
        ss.load(tmp_path / "one.sketch", max_bytes=20)
    with pytest.raises(FileNotFoundError):
        ss.load(tmp_path / "two.sketch")


def test_the_compiled_schema_is_the_schema(tmp_path: Path) -> None:
    source = Path(ss.__file__).parent / "wire" / "wire.proto"
    compiled = tmp_path / "wire.fds"
    arguments = ["protoc", f"--proto_path={source.parents[2]}", f"--descriptor_set_out={compiled}", str(source)]
    assert protoc.main(arguments) == 0
    fresh = descriptor_pb2.FileDescriptorSet.FromString(compiled.read_bytes()).file[0]
    committed = descriptor_pb2.FileDescriptorProto()
    wire_pb2.DESCRIPTOR.CopyToProto(committed)
    for message_type in fresh.message_type:
        for field in message_type.field:
            field.ClearField("json_name")
    assert committed == fresh


OTHER_MAPS = {
    "fjlt": ss.projections.FJLT(dim=50, sketch_dim=8, seed=1),
    "gaussian": ss.projections.GaussianProjection(dim=50, sketch_dim=8, seed=1),
    "oporp": ss.projections.OPORP(dim=50, sketch_dim=8, seed=1),
    "rotation": ss.projections.Rotation(dim=50, sketch_dim=8, seed=1),
    "identity": ss.projections.Identity(dim=8),
}


@pytest.mark.parametrize(
    ("kind", "edit", "where"),
    [
        ("fjlt", "m.projection.density.numerator = 0", "projection"),
        ("fjlt", "m.projection.density.numerator = -1", "projection"),
        ("fjlt", "m.projection.density.denominator = 1", "projection"),
        ("fjlt", "m.projection.density.denominator = 0", "projection.density"),
        ("fjlt", "m.projection.density.numerator, m.projection.density.denominator = 1, 3", "payload"),  # off its grid
        ("fjlt", "m.projection.ClearField('density')", "projection"),
        ("fjlt", "m.projection.fraction_bits = 99", "projection"),
        ("fjlt", "m.projection.dim = 1 << 60", "projection"),
        ("fjlt", "m.projection.sparsity = 3", "projection"),
        ("fjlt", "m.noise.place = 'middle'", "noise.place"),
        ("fjlt", "m.noise.place = 'output'", "noise.place"),  # written as an empty text
        ("gaussian", "m.noise.place = 'hadamard'", "release"),
        ("gaussian", "m.projection.fraction_bits = 0", "projection"),
        ("gaussian", "m.projection.sketch_dim = 1 << 24", "projection"),
        ("oporp", "m.projection.dim = 3", "projection"),
        ("rotation", "m.projection.dim = 1 << 40", "projection"),
        ("identity", "m.projection.seed = 1", "projection"),
        ("identity", "m.projection.dim = 5", "projection"),
    ],
)
def test_fields_of_every_kind_are_checked(kind: str, edit: str, where: str) -> None:
    m = wire_pb2.PrivateSketch()
    m.ParseFromString(release_of(list(range(8)), OTHER_MAPS[kind]).to_bytes()[17:-16])
    exec(edit)  # noqa: S102 - the edits above
    with pytest.raises(ss.errors.WireFormatError) as caught:
        ss.PrivateSketch.from_bytes(framed(m.SerializeToString(deterministic=True)))
    assert caught.value.where == where
