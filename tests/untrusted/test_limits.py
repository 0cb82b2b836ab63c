"""One set of limits for everything that other parties send, which a user can raise."""

import contextlib
import json
import os
import threading
import tracemalloc
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import streamsketch as ss
from streamsketch import local, signs, storage
from streamsketch.beam.run.coders import SketchCoder
from streamsketch.core.limits import Limits, current_limits, read_bounded
from streamsketch.core.text import is_printable
from streamsketch.privacy import Mechanism
from streamsketch.privacy.mechanism import FlippedSigns
from streamsketch.privacy.noise import NoiseMoments
from streamsketch.privacy.sign_flips import FlipLaw
from streamsketch.storage.database import Database, Row
from streamsketch.storage.sketches import PastRelease, RawSketch
from streamsketch.wire import releases as wire
from streamsketch.wire import wire_pb2
from tests.tampering import raw_bytes, raw_from_bytes, rewritten, with_fields
from tests.untrusted.mutations import varint

MEGABYTE = 1 << 20


def peak_of(run: Callable[[], Any]) -> int:
    """Return the most memory that a call took beside what was there."""
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# --- the limits themselves ------------------------------------------------------------------------------------


def test_limits_are_raised_for_a_block_and_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = current_limits()
    with ss.limits.reading_limits(max_keys=5) as inner:
        assert inner == current_limits() == Limits(max_keys=5)
        with ss.limits.reading_limits(max_bytes=7):
            assert current_limits() == Limits(max_keys=5, max_bytes=7)
    assert current_limits() == plain == Limits()
    monkeypatch.setenv("STREAMSKETCH_LIMITS", "max_keys=9, max_bytes=8")
    assert current_limits() == Limits(max_keys=9, max_bytes=8)


def test_a_name_that_is_no_limit_is_answered_with_those_that_are() -> None:
    with pytest.raises(TypeError, match=r"unknown limit most; the limits are max_bytes, max_table_bytes"):
        ss.limits.reading_limits(most=3).__enter__()


@pytest.mark.parametrize("text", ["max_keys", "max_keys=x", "max_keys=0", "most=3", "max_keys=1=2"])
def test_a_wrong_environment_says_what_is_wanted(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMSKETCH_LIMITS", text)
    with pytest.raises(ss.InvalidInputError, match="must list limits such as max_bytes=1073741824"):
        current_limits()


@pytest.mark.parametrize("value", [0, -1, 1.5, True, None])
def test_a_limit_is_a_positive_integer(value: Any) -> None:
    with pytest.raises(ss.InvalidInputError, match="max_bytes must be an integer of at least 1"):
        Limits(max_bytes=value)


# --- files ----------------------------------------------------------------------------------------------------


def test_small_files_are_read_in_little_memory(tmp_path: Path) -> None:
    sketch = ss.CountSketch(dim=9, sketch_dim=8, seed=1).sketch()
    released = sketch.release(epsilon=1, neighbours=ss.L1(1))
    published = signs.DPSignLogistic(epsilon=1, neighbours=ss.L1(1)).release(sketch)
    released.save(tmp_path / "a.sketch")
    published.save(tmp_path / "a.signs")
    storage.save_raw(RawSketch(sketch), tmp_path / "a.raw-sketch")
    for load, name in ((ss.load, "a.sketch"), (ss.load, "a.signs"), (storage.load_raw, "a.raw-sketch")):
        load(tmp_path / name)
        assert peak_of(lambda load=load, name=name: load(tmp_path / name)) < MEGABYTE  # type: ignore[misc]


def test_pipes_are_read_to_the_limit(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def sent(data: bytes, most: int) -> bytes:
        writer = threading.Thread(target=lambda: _write(pipe, data))
        writer.start()
        try:
            return read_bounded(pipe, most)
        finally:
            writer.join()

    data = bytes(range(256)) * 10000
    assert sent(data, len(data)) == data
    with pytest.raises(ss.errors.WireFormatError, match=f"over the limit of {len(data) - 1}; raise max_bytes"):
        sent(data, len(data) - 1)


def _write(pipe: Path, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError):  # the reader has seen enough
        pipe.write_bytes(data)


# --- messages -------------------------------------------------------------------------------------------------


def _message() -> wire_pb2.PrivateSketch:
    sketch = ss.CountSketch(dim=9, sketch_dim=8, seed=1).sketch()
    data = sketch.release(epsilon=1, neighbours=ss.L1(1)).to_bytes()
    return wire_pb2.PrivateSketch.FromString(data[17:-16])


def test_repeated_fields_are_counted_before_objects_are_made_of_them() -> None:
    message = _message()
    message.ClearField("release_ids")
    message.ClearField("data_ids")  # which come behind them
    rest = message.SerializeToString(deterministic=True)
    ids = wire.frame(wire.RELEASES.magic, rest + b"\x32\x00" * 200_000)

    def refused(data: bytes, what: str) -> None:
        with ss.limits.reading_limits(max_items=1000), pytest.raises(ss.errors.WireFormatError, match=what):
            ss.PrivateSketch.from_bytes(data)

    assert peak_of(lambda: refused(ids, "release_ids has more than 1000 entries")) < 3 * len(ids)

    for name in ("steps", "basis"):  # what comes behind the conditions
        message.guarantee.ClearField(name)
    guarantee = message.guarantee.SerializeToString(deterministic=True)
    before, behind = wire_pb2.PrivateSketch(), wire_pb2.PrivateSketch(multiplier=message.multiplier)
    before.CopyFrom(message)
    for name in ("guarantee", "multiplier"):
        before.ClearField(name)
    for more, what in (
        (b"\x2a\x01x" * 100_000, "conditions has more than 64 entries"),
        (b"\x32\x00" * 100_000, "steps has more than 16 entries"),
    ):
        nested = b"\x22" + varint(len(guarantee + more)) + guarantee + more
        data = wire.frame(wire.RELEASES.magic, before.SerializeToString() + nested + behind.SerializeToString())
        assert peak_of(lambda data=data, what=what: refused(data, what)) < 3 * len(data)  # type: ignore[misc]


def test_long_payloads_that_are_sound_are_read() -> None:
    sketch = ss.CountSketch(dim=9, sketch_dim=1 << 15, seed=1).sketch()
    sketch.update(range(9), 10**10)
    released = sketch.release(epsilon=1, neighbours=ss.L1(1))
    parts = ss.PrivateSketch(
        released.projection,
        released.values,
        released.noise,
        released.guarantee,
        release_ids=[number.to_bytes(8, "big") for number in range(7000)],
    )
    data = parts.to_bytes()
    assert len(data) > 1 << 16
    assert ss.PrivateSketch.from_bytes(data) == parts
    with (
        ss.limits.reading_limits(max_items=6999),
        pytest.raises(ss.errors.WireFormatError, match="release_ids has more than 6999"),
    ):
        ss.PrivateSketch.from_bytes(data)


def test_a_bound_that_no_release_could_carry_on_is_refused() -> None:
    message = _message()
    message.guarantee.neighbours.bound.denominator = (1 << 64) - 1
    with pytest.raises(ss.errors.WireFormatError, match="ratio of 63-bit integers"):
        ss.PrivateSketch.from_bytes(wire.frame(wire.RELEASES.magic, message.SerializeToString(deterministic=True)))


# --- JSON -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("read", [ss.projections.Projection.from_json, local.Mechanism.from_json])
@pytest.mark.parametrize("place", ["kind", "dim", "resolution"])
def test_lists_in_lists_are_refused_in_a_sentence(read: Callable[[str], Any], place: str) -> None:
    fields = json.loads(ss.CountSketch(dim=9, sketch_dim=8, seed=1).to_json())
    for depth in (1, 500, 990, 100_000 if place == "kind" else 10_000):
        nested = json.dumps(fields | {place: "?"}).replace('"?"', "[" * depth + "]" * depth)
        with pytest.raises(ss.InvalidInputError):
            read(nested)
    with pytest.raises(ss.InvalidInputError, match="must be"):
        ss.CountSketch(dim=9, sketch_dim=8, seed=_nested(5000))  # type: ignore[arg-type]


def _nested(depth: int) -> Any:
    found: Any = []
    for _ in range(depth):
        found = [found]
    return found


@pytest.mark.parametrize("read", [ss.projections.Projection.from_json, local.Mechanism.from_json])
def test_long_json_is_refused_before_it_is_parsed(read: Callable[[str], Any]) -> None:
    text = "[" + "[]," * 10**6 + "[]]"

    def refused() -> None:
        with pytest.raises(ss.InvalidInputError, match="raise max_json_bytes"):
            read(text)

    assert peak_of(refused) < MEGABYTE


# --- matrices -------------------------------------------------------------------------------------------------


def _huge(kind: type[ss.projections.Projection]) -> ss.projections.Projection:
    if kind is ss.projections.FJLT:
        return ss.projections.FJLT(dim=1 << 20, sketch_dim=16, seed=1, density=1)
    if kind is ss.projections.Rotation:
        return ss.projections.Rotation(dim=1 << 16, sketch_dim=1 << 12, seed=1)
    return kind(dim=1 << 27, sketch_dim=256, seed=1)  # type: ignore[call-arg]


def _published(projection: ss.projections.Projection, name: bytes) -> signs.SignSketch:
    law = FlipLaw("levels", Fraction(1, 2))
    guarantee = ss.Guarantee(1.0, 0.0, ss.L1(1), Mechanism([FlippedSigns("DP-Sign-logistic", law)]))
    sent = signs.SignSketch(projection, bytes(projection.sketch_dim // 8), law, guarantee, release_id=name * 8)
    return signs.SignSketch.from_bytes(sent.to_bytes())  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "kind",
    [ss.projections.GaussianProjection, ss.projections.UniformProjection, ss.projections.FJLT, ss.projections.Rotation],
)
def test_no_angle_and_no_explanation_enumerates_a_huge_matrix(kind: type[ss.projections.Projection]) -> None:
    x, y = _published(_huge(kind), b"x"), _published(_huge(kind), b"y")

    def refused() -> None:
        for estimate in (signs.angle, signs.cosine):
            with pytest.raises(ss.InvalidInputError, match=r"over the limit of .* by reading_limits"):
                estimate(x, y, norm_x=9, norm_y=9)
        str(x.explain())

    refused()
    assert peak_of(refused) < MEGABYTE


@pytest.mark.filterwarnings("ignore::streamsketch.errors.NoiseMismatchWarning")  # nobody drew these signs
def test_angles_of_maps_in_closed_form_have_no_limit_and_others_a_raised_one() -> None:
    for projection in (
        ss.projections.Rademacher(dim=1 << 50, sketch_dim=64, seed=1),
        ss.projections.VerySparse(dim=1 << 50, sketch_dim=64, sparsity=4, seed=1),
    ):
        x, y = _published(projection, b"x"), _published(projection, b"y")
        assert signs.angle(x, y, norm_x=9, norm_y=9).value == 0
    gaussian = ss.projections.GaussianProjection(dim=64, sketch_dim=64, seed=1)
    x, y = _published(gaussian, b"x"), _published(gaussian, b"y")
    assert signs.angle(x, y, norm_x=9, norm_y=9).value == 0
    with ss.limits.reading_limits(max_entries=4095):
        with pytest.raises(
            ss.InvalidInputError, match="enumeration of 4,096 entries, over the limit of 4,095; raise max_entries"
        ):
            signs.angle(x, y, norm_x=9, norm_y=9)
        released = gaussian.sketch().release(epsilon=1, neighbours=ss.L1(1))
        assert "4,096 entries" in released.explain().check.reason
    with ss.limits.reading_limits(max_entries=4096):
        assert signs.angle(x, y, norm_x=9, norm_y=9).value == 0


def _raw_bytes(projection: ss.projections.Projection, **changes: Any) -> bytes:
    """Return a raw file that names any projection of as many cells, in a header with some fields changed."""
    small = ss.CountSketch(dim=9, sketch_dim=projection.sketch_dim, seed=1).sketch()
    return with_fields(raw_bytes(RawSketch(small)), projection=projection.to_json(), **changes)


def test_no_raw_sketch_builds_a_huge_matrix_while_it_is_read() -> None:
    huge = _huge(ss.projections.FJLT)
    agreement = huge.to_json().encode()
    coded = SketchCoder().encode(ss.CountSketch(dim=9, sketch_dim=huge.sketch_dim, seed=1).sketch())
    (length,) = (int.from_bytes(coded[:4], "little"),)
    forged = len(agreement).to_bytes(4, "little") + coded[4:23] + agreement + coded[23 + length :]
    for read, data in ((raw_from_bytes, _raw_bytes(huge)), (SketchCoder().decode, forged)):

        def refused(read: Callable[[bytes], Any] = read, data: bytes = data) -> None:
            with pytest.raises(
                ss.errors.WireFormatError, match=r"bytes of memory, over the limit of .*; raise max_matrix_bytes"
            ):
                read(data)

        assert peak_of(refused) < MEGABYTE


def test_raw_sketches_of_usual_transforms_are_read() -> None:
    sketch = ss.projections.FJLT(dim=1 << 12, sketch_dim=64, seed=1).sketch()
    sketch.update([1, 2], [3, 4])
    assert raw_from_bytes(raw_bytes(RawSketch(sketch))).state == sketch
    assert SketchCoder().decode(SketchCoder().encode(sketch)) == sketch


# --- raw records ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"), [("bound", "9" * 70), ("bound", "1/" + "9" * 70), ("release_id", "x"), ("release_id", "A" * 16)]
)
def test_a_record_that_could_not_be_written_again_is_refused(field: str, value: str) -> None:
    projection = ss.CountSketch(dim=9, sketch_dim=8, seed=1)
    release = projection.sketch().release(epsilon=1, neighbours=ss.L1(1))
    past = PastRelease(release.guarantee, release.release_ids[0].hex())
    fields = past.guarantee.to_dict() | {"release_id": past.release_id}
    assert raw_from_bytes(_raw_bytes(projection, releases=[fields])).releases == (past,)
    with pytest.raises(ss.errors.WireFormatError, match="header"):
        raw_from_bytes(_raw_bytes(projection, releases=[fields | {field: value}]))


def test_counts_beyond_63_bits_are_refused() -> None:
    projection = ss.CountSketch(dim=9, sketch_dim=8, seed=1)
    with pytest.raises(ss.errors.WireFormatError, match=r"header\.events must be an integer from 0 to"):
        raw_from_bytes(_raw_bytes(projection, events=10**4000))


@pytest.mark.parametrize("keys", [-1, 500, 1 << 62, (1 << 63) - 1])
@pytest.mark.parametrize("sketch_dim", [8, 1 << 24])
def test_a_header_with_more_sketches_than_the_file_has_cells_is_refused(keys: int, sketch_dim: int) -> None:
    projection = ss.CountSketch(dim=9, sketch_dim=sketch_dim, seed=1)
    table = ss.CountSketch(dim=9, sketch_dim=8, seed=1).table()
    data = with_fields(raw_bytes(RawSketch(table)), projection=projection.to_json())
    data = rewritten(data, lambda database, _: database._put("sketch", _with_rows(database, keys)))

    def refused() -> None:
        with pytest.raises(ss.errors.WireFormatError, match=r"header (states .* sketches of|is not one that)"):
            raw_from_bytes(data)

    assert peak_of(refused) < MEGABYTE


def _with_rows(database: Database, rows: int) -> Row:
    fields, _, total = database.header("sketch")
    return Row(b"", rows, json.dumps([fields, f"{total:x}"]).encode())


def test_no_more_rows_are_read_than_the_header_says() -> None:
    """A tree of pages in which all children are one page would say more rows than could ever be read."""
    table = ss.CountSketch(dim=9, sketch_dim=8, seed=1).table()
    found: list[Row] = []
    table.update(list(range(400)), [1] * 400)

    def read(database: Database, _: Any) -> None:
        database._put("sketch", _with_rows(database, 5))
        with pytest.raises(ss.errors.WireFormatError, match="not all as they were written"):
            found.extend(database.rows("sketch"))

    rewritten(raw_bytes(RawSketch(table)), read)
    assert len(found) <= 6


# --- Beam -----------------------------------------------------------------------------------------------------


def test_coded_sketches_that_are_not_sound_are_refused() -> None:
    sketch = ss.CountSketch(dim=99, sketch_dim=64, seed=1).sketch()
    sketch.update([1, 2], [3, 400])
    coder = SketchCoder()
    sound = coder.encode(sketch)
    assert coder.decode(sound) == sketch
    for end in range(22 + len(sketch.projection.to_json())):
        with pytest.raises(ss.errors.WireFormatError):
            coder.decode(sound[:end])
    places = sound[:-2] + sound[-1:] + sound[-2:-1]
    for data in (places, sound[:-1] + b"\xff", sound[:4] + b"\x03" + sound[5:], sound + b"\0", b""):
        with pytest.raises(ss.errors.WireFormatError):
            coder.decode(data)
    assert np.array_equal(coder.decode(memoryview(sound)).state(), sketch.state())  # type: ignore[arg-type]


# --- text and noise -------------------------------------------------------------------------------------------


def test_what_is_printable_does_not_depend_on_a_version_of_unicode() -> None:
    refused = ["\x00", "\n", "\x7f", "\x9f", "\xa0", "\xad", "\u061c", "\u200b", "\u2028", "\u202e", "\u2069", "\u3000"]
    refused += ["\ud800", "\ue000", "\ufdd0", "\ufeff", "\ufffe", "\U0001ffff", "\U000e0041", "\U0010ffff"]
    for text in refused:
        assert not is_printable(text), ascii(text)
        with pytest.raises(ss.InvalidInputError, match="printable"):
            ss.L1(1, unit=f"a{text}")
    for text in ["a b", "é", "予約", "👍", "\U000e0100", "\U00040000", "\u0378"]:  # the last two are not assigned
        assert is_printable(text), ascii(text)
        assert ss.L1(1, unit=text).unit == text


def test_the_fourth_cumulant_has_the_limit_of_the_format() -> None:
    assert NoiseMoments(3.0, -18.0).k4 == -18
    with pytest.raises(ss.InvalidInputError, match="k4 >= -2 k2"):
        NoiseMoments(3.0, np.nextafter(-18.0, -19.0))
