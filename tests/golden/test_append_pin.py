"""New projections are pinned by a script, with the columns of the twin, below those that are pinned."""

import json

import pytest

import streamsketch as ss
from tests.golden import append_pin

PINS = append_pin.PINS.read_text(encoding="utf-8")


def test_a_pin_is_what_the_library_and_the_file_have() -> None:
    for pin in json.loads(PINS)[::7]:
        assert append_pin.pin_of(pin["json"], [int(index) for index in pin["columns"]]) == pin


def test_a_pin_is_appended_and_what_was_there_stays() -> None:
    projection = ss.SJLT(dim=12, sketch_dim=8, sparsity=2, seed=123456789)
    text = append_pin.appended(PINS, append_pin.pin_of(projection.to_json(), []))
    *before, last = json.loads(text)
    assert before == json.loads(PINS)
    assert text.startswith(PINS.rstrip().removesuffix("]").rstrip())
    assert last["fingerprint"] == projection.fingerprint
    assert list(last["columns"]) == ["0", "1", "6", "11"]
    dense = projection.columns([11])[:, 0]
    assert last["columns"]["11"] == [[int(row), int(dense[row])] for row in dense.nonzero()[0]]


def test_what_is_pinned_is_not_pinned_again() -> None:
    text = json.loads(PINS)[0]["json"]
    spaced = json.dumps(json.loads(text), indent=1)
    with pytest.raises(ValueError, match="pins never change"):
        append_pin.appended(PINS, append_pin.pin_of(spaced, [0]))


def test_a_column_beyond_the_matrix_is_refused() -> None:
    with pytest.raises(ValueError, match="0 to 11, not 12"):
        append_pin.pin_of(ss.SJLT(dim=12, sketch_dim=8, sparsity=2, seed=1).to_json(), [12])
