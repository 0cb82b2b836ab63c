"""The job of local means on scikit-learn's digits and on a user's own vectors, through its command line."""

import io
import types
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streamsketch as ss
from pipelines import local_mean
from streamsketch.beam.run import runs

VECTORS = np.random.default_rng(8).normal(size=(40, 6)) + 2
ALBUMS = ["summer", "winter"] * 20


@pytest.fixture
def faces(tmp_path: Path) -> Path:
    table = pa.table({"album": ALBUMS, "embedding": VECTORS.tolist()})
    pq.write_table(table, tmp_path / "faces.parquet")
    return tmp_path


def arguments(folder: Path, *more: str) -> list[str]:
    columns = ["--vector", "embedding", "--key", "album"]
    return ["--input", str(folder / "faces.parquet"), *columns, "--output", str(folder / "out"), *more]


def test_means_of_the_users_vectors_come_out(
    faces: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # other bits may err ten times as much as expected: six coordinates of twenty reports have heavy tails
    monkeypatch.setattr(runs, "secrets", types.SimpleNamespace(token_bytes=bytes))
    assert local_mean.main(arguments(faces, "--mechanism", "priv-unit-g,proj-unit", "--epsilon", "200,4")) == 0
    rows = local_mean.read_means(str(faces / "out")).to_pylist()
    assert [(row["mechanism"], row["epsilon"], row["key"]) for row in rows] == [
        (kind, epsilon, album)
        for kind in ("priv-unit-g", "proj-unit")
        for epsilon in (4.0, 200.0)
        for album in ("summer", "winter")
    ]
    units = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)
    for row in rows:
        exact = units[[album == row["key"] for album in ALBUMS]].mean(axis=0)
        error = ((np.array(row["mean"]) - exact) ** 2).sum()
        assert row["reports"] == 20
        assert error < 8 * row["expected_squared_error"]
    assert (faces / "out" / "errors.png").read_bytes()[:4] == b"\x89PNG"
    assert "proj-unit" in capsys.readouterr().out


def test_digits_are_averaged_by_every_mechanism(tmp_path: Path) -> None:
    assert local_mean.main(["--input", "digits", "--epsilon", "8", "--output", str(tmp_path)]) == 0
    rows = local_mean.read_means(str(tmp_path)).to_pylist()
    assert len(rows) == 10 * len(local_mean.MECHANISMS)
    assert sum(row["reports"] for row in rows) == 1797 * len(local_mean.MECHANISMS)
    errors = local_mean.errors_of(local_mean.read_means(str(tmp_path)), list(local_mean.digits())).to_pylist()
    assert all(0.5 < row["squared_error"] / row["expected"] < 2 for row in errors)


def test_a_repeated_bundle_reports_the_same_and_another_vector_does_not() -> None:
    mechanism = ss.local.PrivHS(dim=6, epsilon=2.0)
    units = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)

    def bits(*part: object, secret: bytes = bytes(32)) -> bytes:
        key, reports = local_mean.reported(part, mechanism, runs.RunSecret(secret, b"", None))
        assert key == part[0]
        return bytes(reports.seeds.tobytes() + reports.values.tobytes())

    assert bits("a", 1, units) == bits("a", 1, units)
    others = [
        bits("b", 1, units),
        bits("a", 2, units),
        bits("a", 1, -units),
        bits("a", 1, units, secret=bytes([1] * 32)),
    ]
    assert len({bits("a", 1, units), *others}) == 5


@pytest.mark.parametrize(
    ("column", "problem"),
    [
        ([[1.0, 2.0], [3.0]], "of one length"),
        ([[1.0, 2.0], None], "of one length"),
        ([[1.0, 2.0], [0.0, 0.0]], "no direction"),
        ([[1.0, 2.0], [float("nan"), 0.0]], "no direction"),
        ([[1.0, 2.0], [float("inf"), 0.0]], "no direction"),
        ([[1.0, 2.0], [1.0, None]], "of one length"),
        ([1.0, 2.0], "lists of numbers, not double"),
        (["one", "two"], "lists of numbers, not string"),
        ([["one"], ["two"]], "lists of numbers, not list"),
        ([[[1.0]], [[2.0]]], "lists of numbers, not list"),
        ([], "no vectors"),
        ([[1.0]] * 2, "dim must be"),
    ],
)
def test_vectors_without_direction_end_in_a_sentence(
    column: list[object], problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pq.write_table(pa.table({"embedding": column}), tmp_path / "faces.parquet")
    given = ["--input", str(tmp_path / "faces.parquet"), "--vector", "embedding", "--output", str(tmp_path)]
    assert local_mean.main(given) == 2
    assert problem in capsys.readouterr().err


def test_mistakes_on_the_command_line_end_in_a_sentence(faces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert local_mean.main(["--input", str(faces / "faces.parquet"), "--output", str(faces)]) == 2
    assert "--vector COLUMN" in capsys.readouterr().err
    assert local_mean.main(arguments(faces, "--epsilon", "1000")) == 2
    assert "epsilon must be a number" in capsys.readouterr().err
    assert local_mean.main(arguments(faces, "--mechanism", "proj-unit", "--sketch-dim", "0")) == 2
    assert "sketch_dim must be" in capsys.readouterr().err
    keys = pa.table({"album": ["None", None], "embedding": VECTORS[:2].tolist()})
    (faces / "nulls").mkdir()
    pq.write_table(keys, faces / "nulls" / "faces.parquet")
    assert local_mean.main(arguments(faces / "nulls")) == 2
    assert "--key album must not hold nulls" in capsys.readouterr().err
    for wrong in (["--mechanism", "nonesuch"], ["--epsilon", "a"]):
        with pytest.raises(SystemExit):
            local_mean.main(arguments(faces, *wrong))


def test_mechanisms_named_twice_and_epsilons_next_to_each_other_run(faces: Path) -> None:
    assert local_mean.main(arguments(faces, "--mechanism", "priv-hs,priv-hs", "--epsilon", "4,4.0000001")) == 0
    assert len(local_mean.read_means(str(faces / "out"))) == 4


def test_the_picture_is_an_image_whatever_the_number_of_mechanisms() -> None:
    rows = [{"mechanism": f"m{i}", "epsilon": 1.0, "squared_error": 1.0, "expected": 2.0} for i in range(9)]
    image = local_mean.error_curve(pa.Table.from_pylist(rows), "title $with$ signs")
    assert io.BytesIO(image).read(4) == b"\x89PNG"
