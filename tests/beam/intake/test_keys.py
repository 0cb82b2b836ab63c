"""Public keys from files and collections are those of the data, or refused."""

from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.transforms.window import FixedWindows, GlobalWindows

import streamsketch as ss
from streamsketch.beam import ReleasePerKey
from streamsketch.beam.intake.keys import PublicKeys
from streamsketch.release import AdditiveNoise
from tests.beam.running import run

PROJECTION = ss.SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=11)


def keys_in(text: bytes, tmp_path: Path) -> list[Any]:
    path = tmp_path / "keys.txt"
    path.write_bytes(text)
    return run(lambda pipeline: PublicKeys(path).collection(pipeline), tmp_path)[0]


@pytest.mark.parametrize(
    "text",
    [
        "\ufeffAA\r\nBß\r\n\r\nAA\r\n",
        "AA\nBß",
        "AA\n  \nBß\n\t\n",
        "AA\n\ufeffBß\n\ufeffAA",  # files put together
    ],
)
def test_a_file_has_one_key_a_line(text: str, tmp_path: Path) -> None:
    assert sorted(keys_in(text.encode(), tmp_path)) == ["AA", "Bß"]


@pytest.mark.parametrize("line", ["AA ", " AA", "\tAA", "AA\u00a0", "\ufeff AA"])
def test_keys_in_a_file_have_no_white_space_around_them(line: str, tmp_path: Path) -> None:
    with pytest.raises(ss.InvalidInputError, match=r"the public key '.*AA.*' in .* begins or ends with white space"):
        keys_in(f"BB\n{line}\n".encode(), tmp_path)


def test_a_file_of_keys_is_utf_8(tmp_path: Path) -> None:
    with pytest.raises(ss.InvalidInputError, match="has a line that is not UTF-8"):
        keys_in(b"AA\nB\xdf\n", tmp_path)


def test_keys_in_a_list_are_taken_as_they_are() -> None:
    assert PublicKeys(["AA ", "AA", b"AA", 1]).listed == {"AA ", "AA", b"AA", 1}


def release(keys: beam.PCollection, sketches: beam.PCollection) -> beam.PCollection:
    return sketches | ReleasePerKey(
        AdditiveNoise(epsilon=1.0, neighbours=ss.L1(1)), public_keys=keys, projection=PROJECTION
    )


def test_a_collection_of_keys_is_in_the_global_window(tmp_path: Path) -> None:
    def build(pipeline: beam.Pipeline, windowing: Any) -> beam.PCollection:
        keys = pipeline | "Keys" >> beam.Create(["a", "b"]) | "Elsewhere" >> beam.WindowInto(FixedWindows(60))
        sketches = pipeline | beam.Create([("a", PROJECTION.sketch())])
        return release(keys | "Windowing" >> windowing, sketches)

    with pytest.raises(
        ss.InvalidInputError, match=r"must be in the global window, because .*, got a collection in FixedWindows"
    ):
        build(beam.Pipeline(runner="FnApiRunner"), beam.Map(str))
    back = beam.WindowInto(GlobalWindows())
    found, _ = run(lambda pipeline: build(pipeline, back), tmp_path)
    assert sorted(key for key, _ in found) == ["a", "b"]
