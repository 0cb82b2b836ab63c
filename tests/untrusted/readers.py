"""Every reader of bytes that may be damaged: sound samples, how to change them, and what to do with the result."""

import hashlib
import io
import json
import random
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import streamsketch as ss
from streamsketch import local, signs, storage
from streamsketch.beam.run.coders import SketchCoder
from streamsketch.data.readers.avro import Records
from streamsketch.errors import LedgerError
from streamsketch.local import MeanAggregator
from streamsketch.parties import Key, PublicKey, Round, envelope, sign, verify
from streamsketch.parties.contributions import CONTRIBUTION
from streamsketch.parties.signing import MEDIA_TYPE, bundle_of
from streamsketch.privacy import Budget, Mechanism
from streamsketch.privacy.mechanism import KeySelection, StatedInText
from streamsketch.release.published_table import PublishedTable
from streamsketch.signs.sketch import SignSketch
from streamsketch.storage import old_formats
from streamsketch.storage.raw_files import read_header
from streamsketch.storage.sketches import PastRelease, RawSketch
from streamsketch.wire import releases as wire
from tests.noise import drawn_once
from tests.tampering import raw_bytes, raw_from_bytes, resealed
from tests.untrusted.inputs import input_readers
from tests.untrusted.ledgers import ledger_bytes, read_ledger, resealed_entry
from tests.untrusted.mutations import changed_bytes, changed_footer, changed_json, changed_message
from tests.untrusted.reading import Change, Reader, from_file

_FRAME, _CHECKSUM = 17, 16


def _framed(data: bytes, chance: random.Random) -> bytes:
    return wire.frame(data[:8], changed_message(data[_FRAME:-_CHECKSUM], chance))


def _old_raw_framed(data: bytes, chance: random.Random) -> bytes:
    """Return a raw file of version 2, alone, that says something else, with checksums that fit."""
    start = len(old_formats.OLD_RAW) + 13
    size = int.from_bytes(data[start - 12 : start - 8], "little")
    text, rest = data[start : start + size], data[start + size + 16 : -16]
    text, rest = (text, changed_bytes(rest, chance)) if chance.random() < 0.3 else (changed_json(text, chance), rest)
    head = data[: start - 12] + len(text).to_bytes(4, "little") + len(rest).to_bytes(8, "little") + text
    body = head + _old_checksum(head, b"raw") + rest
    return body + _old_checksum(body, b"raw")


def _old_checksum(data: bytes, kind: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16, person=b"streamsketch." + kind).digest()


def _old(*names: str) -> list[bytes]:
    return [(Path(__file__).parents[1] / "storage" / "version2" / name).read_bytes() for name in names]


def _coded(data: bytes, chance: random.Random) -> bytes:
    length = int.from_bytes(data[:4], "little")
    agreement = changed_json(data[22 : 22 + length], chance)
    return len(agreement).to_bytes(4, "little") + data[4:22] + agreement + data[22 + length :]


def _use_release(release: ss.PrivateSketch) -> None:
    assert ss.PrivateSketch.from_bytes(release.to_bytes()) == release
    repr(release)
    str(release.explain())
    if release.history is None or not release.history.is_row:
        ss.squared_norm(release)


def _use_signs(release: Any) -> None:
    if isinstance(release, signs.SignIndex):
        repr(release)
        assert release.keys is None or len(release.keys.to_pylist()) == len(release)
        return
    assert type(release).from_bytes(release.to_bytes()) == release
    repr(release)
    str(release.explain())
    other = type(release)(
        release.projection,
        release.packed,
        *([release.law] if isinstance(release, SignSketch) else [release.method]),
        release.guarantee,
        release_id=bytes(8),
    )
    signs.angle(release, other, norm_x=10.0, norm_y=10.0)


def use(read: Any) -> None:
    """Do with what was read what parties do: errors of the library may come out of it, and no others."""
    if isinstance(read, ss.PrivateSketch):
        _use_release(read)
    elif isinstance(read, signs.SignSketch | signs.IndividualSignSketch | signs.SignIndex):
        _use_signs(read)
    elif isinstance(read, PublishedTable):
        assert type(read).from_bytes(read.to_bytes()) == read
        repr(read)
        str(read.explain())
        for release in read.values():
            use(release)
    elif isinstance(read, RawSketch):
        assert raw_from_bytes(raw_bytes(read)).state == read.state
    elif isinstance(read, ss.Sketch):
        assert SketchCoder().decode(SketchCoder().encode(read)) == read
    elif isinstance(read, ss.projections.Projection | local.Mechanism | Round):
        assert type(read).from_json(read.to_json()) == read
        repr(read)
    elif isinstance(read, PublicKey):
        assert PublicKey.from_text(read.to_text()) == read


def _projections() -> list[ss.projections.Projection]:
    grid = Fraction(1, 4)
    return [
        ss.SJLT(dim=1000, sketch_dim=16, sparsity=4, seed=3, resolution=grid),
        ss.CountSketch(sketch_dim=16, seed=3),
        ss.projections.FJLT(dim=32, sketch_dim=16, seed=3),
        ss.projections.GaussianProjection(dim=32, sketch_dim=16, seed=3),
        ss.projections.OPORP(dim=64, sketch_dim=16, seed=3),
        ss.projections.Rotation(dim=16, sketch_dim=8, seed=3),
    ]


def _sketch(projection: ss.projections.Projection) -> ss.Sketch:
    sketch = projection.sketch()
    sketch.update([1, 2], [3, -4])
    return sketch


def _releases() -> list[ss.PrivateSketch]:
    made = [_sketch(projection).release(epsilon=1.0, neighbours=ss.L1(1)) for projection in _projections()]
    again = _sketch(_projections()[0]).release(epsilon=1.0, neighbours=ss.L1(1))
    steps = [*again.guarantee.mechanism.steps, KeySelection(Budget(0.5, 1e-9)), StatedInText("a mechanism")]
    conditional = ss.PrivateSketch(
        again.projection,
        again.values,
        again.noise,
        ss.Guarantee(1.0, 0.5, ss.L1("1/3", unit="flight", max_keys=2), Mechanism(steps), ["one", "two"]),
        multiplier=Fraction(2, 3),
        release_ids=again.release_ids,
    )
    return [*made, made[0].combine(again, populations="disjoint"), conditional, *_of_histories()]


def _of_histories() -> list[ss.PrivateSketch]:
    """Return a row, a range with counts of a factorisation, and a sum of ranges of trees."""
    projection = _projections()[0]
    root = ss.continual.Factorisation(horizon=12, blocks=2, bits=4, max_windows=2, gap=3)
    counting, unit = ss.privacy.Counting(3), ss.L1(1, unit="flight")
    agreement = ss.Agreement(projection, index="item", unit="who", neighbours=unit, counting=counting)
    windows = [ss.bound(pa.table({"who": ["a"], "item": [day]}), agreement) for day in range(4)]
    publish = ss.AdditiveNoise(epsilon=1.0, neighbours=unit, counting=counting, schedule=root)
    rows: Any = ss.continual.release(windows, publish)
    trees = []
    for _ in range(2):
        publish = ss.AdditiveNoise(epsilon=1.0, neighbours=unit, schedule=ss.continual.Tree(horizon=5))
        trees.append(ss.continual.History(ss.continual.release(windows, publish)).range(1, 3))
    both = trees[0].combine(trees[1], populations="overlapping")
    return [rows[3], ss.continual.History(rows).range(1, 4), both]


def _signs() -> list[Any]:
    projections = _projections()
    found: list[Any] = [
        signs.DPSignLogistic(epsilon=1, neighbours=ss.L1(1)).release(_sketch(projection))
        for projection in projections[:4]
    ]
    oporp = _sketch(projections[4])
    found.append(signs.DPSignOPORPRR(epsilon=2, neighbours=ss.OneCoordinate(1)).release(oporp))
    found.append(signs.IDPSignOPORP(epsilon=2, neighbours=ss.OneCoordinate(1)).release(oporp))
    return found


def _sign_indexes(published: list[Any]) -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        for place, release in enumerate(published):
            keyed: Any = {f"é {place}": release} if place % 2 else [release]
            signs.SignIndex(keyed).save(Path(folder) / str(place))
        return [(Path(folder) / str(place)).read_bytes() for place in range(len(published))]


def changed_row(data: bytes, chance: random.Random) -> bytes:
    """Return a table of signs in which the bytes of one release say something else, with a checksum that fits."""
    table = pq.read_table(io.BytesIO(data))
    images = table.column("signs").to_pylist()
    place = chance.randrange(len(images))
    images[place] = chance.choice((_framed, changed_bytes))(images[place], chance)
    return _table_bytes(table.set_column(1, "signs", pa.array(images, pa.binary())))


def _mechanisms() -> list[Any]:
    return [
        local.PrivUnitG(dim=4, epsilon=2.0),
        local.ProjUnit(dim=8, sketch_dim=4, epsilon=2.0, seed=7),
        local.SQKR(dim=4, epsilon=2.0, seed=1),
        local.PrivHS(dim=4, epsilon=2.0, seed=1),
    ]


def _mean(mechanism: Any) -> bytes:
    server = MeanAggregator(mechanism)
    server.add(mechanism.randomize_many(np.eye(mechanism.dim)))
    data: bytes = server.to_bytes()
    return data


def _table_bytes(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def _tables(releases: PublishedTable[Any]) -> list[bytes]:
    table, column = releases.to_arrow(), releases.column
    plain = _table_bytes(table)
    return [
        plain,
        _table_bytes(table, compression="zstd", use_dictionary=False, data_page_version="2.0"),
        _table_bytes(table.select(["key", column]), column_encoding={"key": "DELTA_BYTE_ARRAY"}, use_dictionary=False),
        _table_bytes(table.set_column(0, "key", pa.array([1, 2], pa.timestamp("ns", "Europe/Paris")))),
    ]


def _resealed(kind: str, key: Key, change: Change) -> Change:
    """Return a change of an envelope's payload that its signer made: the signature fits."""

    def changed(data: bytes, chance: random.Random) -> bytes:
        return envelope.seal(change(envelope.parse(data).payload, chance), kind, key)

    return changed


def _changed_inside(data: bytes, chance: random.Random) -> bytes:
    """Return a round's JSON with something else in one of its objects, or as a bound that takes long to write out."""
    fields = json.loads(data)
    name = chance.choice(("neighbours", "projection", "noise"))
    if chance.random() < 0.1:
        fields["neighbours"]["bound"] = chance.choice(("1e999999999", "1/0", "9" * 5000, 10**400))
    else:
        fields[name] = json.loads(_object_of(changed_json(json.dumps(fields[name]).encode(), chance)))
    return json.dumps(fields).encode()


def _object_of(data: bytes) -> bytes:
    try:
        json.loads(data)
    except ValueError:
        return b"{}"
    return data


def _party_readers() -> dict[str, Reader]:
    keys = [Key.generate(name) for name in ("North", "South", "West")]
    north, public = keys[0], [key.public for key in keys]
    agreed = Round(_projections()[0], epsilon=1.0, neighbours=ss.L1(1), parties=public)
    gaussian = Round(
        _projections()[0], epsilon=1.0, delta=1e-9, neighbours=ss.L1(1), mechanism="gaussian", parties=public, honest=2
    )
    sent = [agreed.contribute(_sketch(_projections()[0]), key) for key in keys]
    sealed = envelope.seal(b"payload", "text/plain", north)
    with tempfile.TemporaryDirectory() as folder:
        north.save(Path(folder) / "north.pem")
        private = (Path(folder) / "north.pem").read_bytes()
        release = _releases()[0]
        release.save(Path(folder) / "file")
        bundle = sign(Path(folder) / "file", north).read_bytes()
        ss.PrivateTable({"a": release}).save(Path(folder) / "table")
        table = sign(Path(folder) / "table", north, inside=True).read_bytes()

    def verified(data: bytes) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "file"
            bundle_of(path).write_bytes(data)
            return verify(path, public, content=release.to_bytes())

    refused = ss.errors.SignatureError
    return {
        "round": Reader(
            [agreed.to_json().encode(), gaussian.signed(keys[0]).signed(keys[2]).to_json().encode()],
            [changed_json, _changed_inside],
            Round.from_json,
            (ss.InvalidInputError, refused),
        ),
        "contribution": Reader(
            sent[:1],
            [changed_json, _resealed(CONTRIBUTION, north, changed_bytes)],
            lambda data: agreed.combine([data, *sent[1:]]),
            (ss.InvalidInputError, ss.errors.WireFormatError, refused),
        ),
        "envelope": Reader([sealed], [changed_json], lambda data: envelope.unseal(data, "text/plain", public), refused),
        "signatures": Reader(
            [bundle, b"\n" + bundle * 2],
            [
                changed_json,
                changed_bytes,
                lambda _, chance: _resealed(MEDIA_TYPE, north, changed_json)(bundle, chance),
            ],
            verified,
            refused,
        ),
        "signed table": Reader(
            [table],
            [changed_bytes, changed_footer],
            from_file(lambda path: ss.load(path, signer=public)),
            (refused, ss.errors.WireFormatError),
        ),
        "public key": Reader(
            [one.to_text().encode() for one in public],
            [changed_bytes],
            lambda data: PublicKey.from_text(data.decode(errors="replace")),
            ss.InvalidInputError,
        ),
        "private key": Reader(
            [private], [changed_bytes], from_file(Key.load), (ss.InvalidInputError, ss.errors.WireFormatError)
        ),
    }


AVRO: dict[str, Any] = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "item", "type": ["null", "string"]},
        {"name": "sold", "type": "long"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "more", "type": {"type": "map", "values": "double"}},
    ],
}


def _avro_records() -> list[bytes]:
    found = []
    for item, tags in ((None, []), ("tea", ["a", "b"]), ("Ä" * 70, ["x"] * 70)):
        row = {"item": item, "sold": 3, "tags": tags, "more": {"y": 1.5}}
        fastavro.schemaless_writer(out := io.BytesIO(), AVRO, row)
        found.append(out.getvalue())
    return found


@drawn_once
def readers() -> dict[str, Reader]:
    """Return every reader by name."""
    refused = ss.InvalidInputError
    releases, published, mechanisms = _releases(), _signs(), _mechanisms()
    two = {"a": releases[0], "b": _releases()[0]}
    two_signs = {"a": published[0], "b": _signs()[0]}
    table = ss.SketchTable.from_state(
        _projections()[0], ["a", "b"], np.array([_sketch(_projections()[0]).state()] * 2), np.array([28, 28])
    )
    past = PastRelease(releases[0].guarantee, releases[0].release_ids[0].hex())
    states = [(_sketch(_projections()[0]), 2, (past,)), (table, 4), (_sketch(_projections()[2]),)]
    raws = [raw_bytes(RawSketch(*fields)) for fields in states]  # type: ignore[arg-type]
    invalid = ss.errors.WireFormatError
    found = {
        "release": Reader(
            [one.to_bytes() for one in releases], [changed_bytes, _framed], ss.PrivateSketch.from_bytes, invalid
        ),
        "load": Reader([releases[0].to_bytes()], [changed_bytes, _framed], from_file(ss.load), invalid),
        "sign index": Reader(_sign_indexes(published), [changed_bytes], from_file(signs.SignIndex.load), invalid),
        "signs": Reader([one.to_bytes() for one in published], [changed_bytes, _framed], from_file(ss.load), invalid),
        "table": Reader(_tables(ss.PrivateTable(two)), [changed_bytes, changed_footer], from_file(ss.load), invalid),
        "sign table": Reader(
            _tables(signs.SignTable(two_signs)), [changed_bytes, changed_footer], from_file(ss.load), invalid
        ),
        "signs of tables": Reader(
            _tables(signs.SignTable(two_signs)),
            [changed_bytes, changed_footer, changed_row],
            from_file(signs.SignIndex.from_files),
            (invalid, ss.InvalidInputError, ss.errors.DependentNoiseError),
        ),
        "raw": Reader(raws, [changed_bytes, resealed], from_file(storage.load_raw), invalid),
        "raw header": Reader(raws, [changed_bytes, resealed], from_file(read_header), invalid),
        "raw of version 2": Reader(
            _old("first.raw-sketch", "one.raw-sketch", "many.raw-sketch"),
            [changed_bytes, _old_raw_framed],
            from_file(storage.load_raw),
            invalid,
        ),
        "avro message": Reader(_avro_records(), [changed_bytes], Records(AVRO, "the message", ["item"]).read, refused),
        "coder": Reader(
            [SketchCoder().encode(_sketch(projection)) for projection in _projections()],
            [changed_bytes, _coded],
            SketchCoder().decode,
            invalid,
        ),
        "mean": Reader(
            [_mean(one) for one in mechanisms], [changed_bytes, _framed], local.MeanAggregator.from_bytes, invalid
        ),
        "projection": Reader(
            [one.to_json().encode() for one in _projections()],
            [changed_json],
            ss.projections.Projection.from_json,
            ss.InvalidInputError,
        ),
        "mechanism": Reader(
            [one.to_json().encode() for one in mechanisms],
            [changed_json],
            local.Mechanism.from_json,
            ss.InvalidInputError,
        ),
        "ledger": Reader(
            [ledger_bytes()],
            [changed_bytes, resealed_entry],
            from_file(read_ledger),
            (ss.InvalidInputError, LedgerError),
        ),
    }
    for mechanism in mechanisms:
        report = mechanism.randomize([1.0] + [0.0] * (mechanism.dim - 1)).to_bytes()
        found[f"report of {mechanism.kind}"] = Reader(
            [report],
            [changed_bytes, _framed],
            lambda data, mechanism=mechanism: local.Report.from_bytes(data, mechanism),  # type: ignore[misc]
            invalid,
        )
    return found | _party_readers() | input_readers()
