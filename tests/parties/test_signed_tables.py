"""Signatures inside tables: one file, of which no byte changes unnoticed."""

import hashlib
import io
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import streamsketch as ss
from streamsketch.errors import InvalidInputError, SignatureError, WireFormatError
from streamsketch.parties import sign, verify
from streamsketch.parties.signing import ENTRY, signature_inside
from tests.parties.test_signing import NORTH, ONE, PROJECTION, SOUTH, a_release


def a_table(folder: Path, keys: tuple[str, ...] = ("a", "b")) -> Path:
    table = PROJECTION.table()
    table.update(list(keys), ["x"] * len(keys))
    path = folder / "t.parquet"
    table.release(epsilon=1.0, neighbours=ONE, keys_are_public=True).save(path, overwrite=True)
    return path


def test_a_table_carries_its_signature_in_one_file(tmp_path: Path) -> None:
    path = a_table(tmp_path)
    before = ss.load(path)
    assert sign(path, NORTH, inside=True) == path
    assert sorted(one.name for one in tmp_path.iterdir()) == ["t.parquet"]
    assert ss.load(path, signer=NORTH.public) == ss.load(path) == before
    said = verify(path, [SOUTH.public, NORTH.public])
    assert (said.kind, said.guarantee, said.content) == ("PrivateTable", str(before.guarantee), path.read_bytes())
    with pytest.raises(SignatureError, match="not by South"):
        ss.load(path, signer=SOUTH.public)
    table = pq.read_table(path)
    assert table.column("epsilon").to_pylist() == [1.0, 1.0], "others read it as before"
    sign(path, SOUTH)  # beside, of the file with the signature inside
    assert ss.load(path, signer=NORTH.public) == ss.load(path, signer=SOUTH.public) == before
    sign(path, SOUTH, inside=True)
    with pytest.raises(SignatureError):
        ss.load(path, signer=NORTH.public)
    assert path.read_bytes().count(ENTRY) == 1
    signs = ss.signs.SignTable({"a": ss.signs.DPSignLogistic(epsilon=1, neighbours=ONE).release(PROJECTION.sketch())})
    signs.save(path, overwrite=True)
    sign(path, NORTH, inside=True)
    assert ss.load(path, signer=NORTH.public) == signs


def test_the_hash_is_of_the_file_with_spaces_in_the_signatures_place(tmp_path: Path) -> None:
    path = a_table(tmp_path)
    sign(path, NORTH, inside=True)
    data = path.read_bytes()
    value = pq.ParquetFile(io.BytesIO(data)).metadata.metadata[ENTRY]
    assert data.count(value) == 1
    digest = hashlib.sha256(data.replace(value, b" " * len(value))).hexdigest()
    assert signature_inside(data) == (value, digest)
    assert verify(path, NORTH.public).sha256 == digest


def test_no_byte_is_changed_unnoticed(tmp_path: Path) -> None:
    path = a_table(tmp_path)
    sign(path, NORTH, inside=True)
    data = path.read_bytes()
    start = data.find(ENTRY) - 100  # every byte around the signature, and every 97th of the others
    for place in [*range(0, start, 97), *range(start, len(data))]:
        changed = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        with pytest.raises(SignatureError):
            verify(path, NORTH.public, content=changed)
    for changed in (data[:-9], data + b" ", data[:4] + b" " + data[4:], b"PAR1", b"PAR1" * 3, data[:60]):
        with pytest.raises(SignatureError):
            verify(path, NORTH.public, content=changed)


def test_the_envelope_cannot_move_to_other_spaces(tmp_path: Path) -> None:
    path = a_table(tmp_path, keys=("a", " " * 2000))  # room for another envelope, in the data
    sign(path, NORTH, inside=True)
    data = path.read_bytes()
    found = signature_inside(data)
    assert found is not None
    value, blank = found[0], b" " * len(found[0])
    emptied = data.replace(value, blank)
    for place in (emptied.find(blank), emptied.rfind(blank)):
        moved = emptied[:place] + value + emptied[place + len(value) :]
        path.write_bytes(moved)
        if moved == data:
            verify(path, NORTH.public)
        else:
            with pytest.raises((SignatureError, WireFormatError)):
                ss.load(path, signer=NORTH.public)


def test_only_tables_have_a_place_inside(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="is not a table"):
        sign(a_release(tmp_path), NORTH, inside=True)
    detached = a_table(tmp_path)
    bundle = sign(detached, NORTH)
    sign(detached, SOUTH, inside=True)  # writes the table anew, so the one beside is of other bytes
    assert bundle.exists()
    with pytest.raises(SignatureError, match="was changed after North"):
        verify(detached, NORTH.public)
