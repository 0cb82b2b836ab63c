"""What all mechanisms share: what they take and refuse, reports, identity; and PrivUnitG by its definition."""

import copy
import dataclasses
import json
import pickle
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamsketch as ss
from streamsketch.errors import InvalidInputError
from streamsketch.local import GaussianMechanism, MeanAggregator, Mechanism, PrivUnitG, ProjUnit, Report, Reports
from streamsketch.local.mechanism import mechanism_from_fields
from tests.local.directions import bits, directions, repeated
from tests.local.zoo import DIM, zoo
from tests.noise import salted_rng
from tests.oracles import naive_local

pytestmark = pytest.mark.rejects(0)


each = pytest.mark.parametrize("name", zoo())
UNIT = directions(DIM)["gaussian"]


@settings(max_examples=25)
@given(st.data(), st.integers(1, 9), st.floats(0.01, 12))
def test_priv_unit_g_is_algorithm_8(data: st.DataObject, dim: int, epsilon: float) -> None:
    mechanism = PrivUnitG(dim=dim, epsilon=epsilon, ball=True)
    words = data.draw(st.lists(st.integers(0, 2**64 - 1), min_size=dim + 3, max_size=dim + 3))
    vector = np.arange(1, dim + 1) / (2 * np.linalg.norm(np.arange(1, dim + 1)))
    completed = np.append(vector, np.sqrt(0.75))
    expected = naive_local.priv_unit_g(completed, mechanism.cap.inside, 1 - mechanism.cap.mass, words)
    found = mechanism.randomize(vector, bits=naive_local.Words(words)).values
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-5 * mechanism.cap.scale)


def test_the_local_room_is_found_from_the_root() -> None:
    assert ss.local.PrivUnitG is PrivUnitG
    assert "local" in dir(ss)


@each
def test_reports_of_one_and_of_many_read_the_same_bits_the_same_way(name: str) -> None:
    mechanism = zoo()[name]
    alone = mechanism.randomize(UNIT, bits=bits("same"))
    assert mechanism.randomize_many([UNIT], bits=bits("same"))[0] == alone
    assert alone != mechanism.randomize(UNIT, bits=bits("other")) or mechanism.layout.bits < 80
    assert len({mechanism.randomize(UNIT) for _ in range(8)}) > 1  # the system's bits are no constant


@each
def test_a_batch_is_a_sequence_of_reports(name: str) -> None:
    reports = zoo()[name].randomize_many(repeated(UNIT, 5), bits=bits(name))
    assert len(reports) == 5
    assert [report.values.tolist() for report in reports] == reports.values.tolist()
    assert all(report.bits == reports.mechanism.layout.bits for report in reports)
    assert repr(reports).startswith("Reports(")
    assert not reports[0].values.flags.writeable


def test_threads_randomize_each_vector_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamsketch.local.mechanism.CHUNK_CELLS", 3 * 64)
    monkeypatch.setattr("streamsketch.local.mechanism.os.cpu_count", lambda: 4)
    vectors = np.linalg.qr(salted_rng(1).normal(size=(64, 64)))[0]
    values = PrivUnitG(dim=64, epsilon=200.0).randomize_many(vectors).values
    # a report is nearer to another vector in 7 of 10,000 cases: more than two of 64 are, by chance, in 1 of 80,000 runs
    assert np.count_nonzero(np.argmax(values @ vectors.T, axis=1) != np.arange(64)) <= 2  # a chunk has three
    vectors[[40, 50]] *= 2
    with pytest.raises(InvalidInputError, match="vector 40 must be finite"):
        PrivUnitG(dim=64, epsilon=200.0).randomize_many(vectors)


@each
def test_a_mean_comes_back_in_dim_coordinates(name: str) -> None:
    for ball in (False, True):
        mechanism = zoo(ball=ball)[name]
        server = MeanAggregator(mechanism)
        server.add(mechanism.randomize_many(repeated(UNIT, 3), bits=bits(name)))
        assert server.mean().shape == (DIM,)
        assert server.standard_error() > 0


@each
def test_no_vector_at_all_is_a_batch_too(name: str) -> None:
    mechanism = zoo()[name]
    server = MeanAggregator(mechanism)
    server.add(mechanism.randomize_many(np.empty((0, DIM))))
    assert server.count == 0


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (lambda v: v * 1.01, "length 1"),
        (lambda v: v * 0.99, "length 1"),
        (lambda v: v * np.nan, "finite"),
        (lambda v: np.where(v == v.max(), np.inf, v), "finite"),
        (lambda v: v * np.longdouble("1e4000"), "finite"),  # an infinity in float64
        (lambda v: v[:-1], "dim=12"),
        (lambda v: v[np.newaxis], r"shape \(dim,\)"),
        (lambda v: v.astype(str), "numbers"),
        (lambda v: v.astype(complex), "numbers"),
        (lambda v: np.ma.masked_less(v, 0), "masked"),
    ],
)
def test_vectors_that_are_no_unit_vectors_are_refused(wrong: Callable[[np.ndarray], np.ndarray], problem: str) -> None:
    for name, mechanism in zoo().items():
        with pytest.raises(InvalidInputError, match=problem) as caught:
            mechanism.randomize(wrong(UNIT))
        assert not any(f"{value:.3}" in str(caught.value) for value in UNIT), name  # nothing private in the text


@each
def test_the_ball_takes_what_is_shorter_and_refuses_what_is_longer(name: str) -> None:
    mechanism = zoo(ball=True)[name]
    for length in (0.0, 0.5, 1.0, 1.000001):
        assert mechanism.randomize(UNIT * length).mechanism == mechanism
    with pytest.raises(InvalidInputError, match="length at most 1"):
        mechanism.randomize(UNIT * 1.001)
    with pytest.raises(InvalidInputError, match="vector 1 must"):
        mechanism.randomize_many([UNIT, UNIT * 2])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8])
def test_dtypes_and_layouts_of_vectors_do_not_matter(dtype: type) -> None:
    mechanism = PrivUnitG(dim=DIM, epsilon=2.0)
    rows = np.eye(DIM, dtype=dtype)[:, ::-1]
    expected = mechanism.randomize_many(np.eye(DIM)[:, ::-1].copy(), bits=bits(1)).values
    assert (mechanism.randomize_many(rows, bits=bits(1)).values == expected).all()


def test_read_only_and_unaligned_vectors_and_reports_are_taken() -> None:
    rows = np.stack(list(directions(DIM).values()))
    unaligned = np.frombuffer(b"\0" + rows.tobytes(), dtype=np.uint8)[1:].view(np.float64).reshape(rows.shape)
    frozen = rows.copy()
    frozen.flags.writeable = False
    for mechanism in zoo().values():
        servers = []
        for given_rows in (rows, unaligned, frozen, np.asfortranarray(rows)):
            reports = mechanism.randomize_many(given_rows, bits=bits("layouts"))
            reports.seeds.flags.writeable = reports.values.flags.writeable = False
            servers.append(MeanAggregator(mechanism))
            servers[-1].add(reports)
        assert all(server == servers[0] for server in servers)


@each
def test_json_fields_pickles_and_fingerprints_agree(name: str) -> None:
    mechanism = zoo()[name]
    again = Mechanism.from_json(mechanism.to_json())
    assert again == mechanism
    assert hash(again) == hash(mechanism)
    assert again.fingerprint == mechanism.fingerprint
    assert list(json.loads(mechanism.to_json())) == sorted(mechanism.agreed_fields())
    _ = mechanism.squared_error
    mechanism.randomize(UNIT)  # fills caches
    assert pickle.loads(pickle.dumps(mechanism)) == mechanism  # noqa: S301
    assert len(pickle.dumps(mechanism)) < 600
    assert copy.deepcopy(mechanism) == mechanism


def test_mechanisms_that_differ_in_a_field_have_other_fingerprints() -> None:
    assert len({mechanism.fingerprint for mechanism in zoo().values()}) == len(zoo())


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"dim": 1}, "dim must be an integer from 2"),
        ({"dim": 2.0}, "dim must be an integer"),
        ({"dim": True}, "dim must be an integer"),
        ({"dim": (1 << 24) + 1}, "dim must be an integer"),
        ({"epsilon": 0}, "epsilon must be a number"),
        ({"epsilon": float("nan")}, "epsilon must be a number"),
        ({"epsilon": 257.0}, "epsilon must be a number"),
        ({"epsilon": "4"}, "epsilon must be a number"),
        ({"ball": 1}, "ball must be True or False"),
        ({"precision": "float64"}, "precision must be one of"),
        ({"precision": "float16", "epsilon": 2.0**-10}, "range of float16"),
        ({"sketch_dim": 0}, "sketch_dim must be an integer"),
        ({"sketch_dim": 17}, "sketch_dim must be at most 16"),
        ({"rotation": "givens"}, "rotation must be one of"),
        ({"rotation": "gaussian", "shared": True}, "cannot be shared"),
        ({"rotation": "haar", "sketch_dim": 13}, "sketch_dim"),
        ({"rotation": "haar", "shared": True, "dim": 5000, "sketch_dim": 4}, "sketch_dim"),
        ({"seed": -1}, "seed must be an integer"),
        ({"compressed": True, "epsilon": 20.5}, "epsilon must be at most 20"),
        ({"compressed": True, "epsilon": 20.0, "dim": 1 << 22, "sketch_dim": 1 << 22}, "evenly enough"),
        ({"shared": "yes"}, "shared must be True or False"),
    ],
)
def test_fields_out_of_range_are_refused(fields: dict[str, object], problem: str) -> None:
    given_fields = {"dim": DIM, "epsilon": 4.0, "sketch_dim": 6} | fields
    with pytest.raises(InvalidInputError, match=problem):
        ProjUnit(**given_fields)  # type: ignore[arg-type]


def test_delta_and_repetitions_have_their_ranges() -> None:
    with pytest.raises(InvalidInputError, match="delta must be a number"):
        GaussianMechanism(dim=4, epsilon=1.0, delta=0.0)
    with pytest.raises(InvalidInputError, match="more noise than can be sampled"):
        GaussianMechanism(dim=1 << 24, epsilon=2.0**-10, delta=1e-30)
    with pytest.raises(InvalidInputError, match="repetitions must be an integer"):
        ss.local.RePrivHS(dim=4, epsilon=1.0, repetitions=257)
    with pytest.raises(InvalidInputError, match="dim must be at most 4194304"):
        ss.local.SQKR(dim=(1 << 22) + 1, epsilon=1.0, rotation="hadamard")
    assert [ss.local.RePrivHS(dim=4, epsilon=e).repetitions for e in (0.5, 3.9, 4.0, 10.0)] == [1, 1, 2, 5]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "object"),
        ("{", "object"),
        ('{"kind":"nonesuch"}', "kind must be one of"),
        ('{"kind":["proj-unit"]}', "cannot hold lists or objects"),
        ('{"kind":"priv-unit-g","dim":4}', "must have exactly the fields"),
        ('{"kind":"priv-hs","dim":4,"epsilon":1,"ball":false,"seed":0,"more":1}', "must have exactly the fields"),
    ],
)
def test_json_of_no_mechanism_is_refused(text: str, problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        Mechanism.from_json(text)


def test_json_of_another_class_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="describes a PrivUnit, but a ProjUnit was expected"):
        ProjUnit.from_json(zoo()["PrivUnit"].to_json())
    with pytest.raises(InvalidInputError, match="kind must be"):
        mechanism_from_fields({})


def test_reports_of_wrong_shape_dtype_or_content_are_refused() -> None:
    floats, flags = zoo()["ProjUnit, Hadamard"], zoo()["PrivHS"]
    good = np.zeros(6, dtype=np.float32)
    for values in (good[:5], good.astype(np.float64), good.astype(np.int32), good + np.nan, good + np.inf):
        with pytest.raises(InvalidInputError):
            Report(floats, 0, values)
    for seed in (-1, 1 << 64, 10**5000, 1.0, True, 0.0, False, np.uint64(0), np.zeros(2), None):  # some equal 0
        with pytest.raises(InvalidInputError, match="seed"):
            Report(floats, seed, good)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="0 or 1"):
        Report(flags, 0, np.array([2], dtype=np.uint8))
    with pytest.raises(InvalidInputError, match="no seed"):
        Report(zoo()["PrivUnit"], 1, np.zeros(DIM, dtype=np.float32))
    with pytest.raises(InvalidInputError, match="seeds must be uint64"):
        Reports(floats, np.zeros(2), np.zeros((2, 6), dtype=np.float32))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("PrivUnit", 12 * 32),
        ("PrivUnitG, float16", 12 * 16),
        ("ProjUnit, Hadamard", 64 + 6 * 32),
        ("ProjUnit, shared Hadamard", 64 + 6 * 16),
        ("ProjUnit, Alg. 6", 64 + 6 * 32),
        ("ProjUnit, compressed", 128),
        ("CompPrivUnitG", 64),
        ("PrivHS", 65),
        ("RePrivHS of nine", 73),
        ("SQKR", 68),
        ("SQKR, Hadamard", 68),
        ("Gaussian", 12 * 32),
    ],
)
def test_sizes_of_reports_are_exact(name: str, expected: int) -> None:
    assert zoo()[name].layout.bits == expected
    assert zoo()[name].randomize(UNIT).bits == expected


@each
def test_errors_to_expect_fall_to_the_bias(name: str) -> None:
    mechanism = zoo()[name]
    errors = [mechanism.expected_squared_error(n) for n in (1, 10, 10**9)]
    assert errors[0] == pytest.approx(mechanism.squared_error)
    assert errors[1] == pytest.approx((errors[0] - errors[2]) / 10 + errors[2], rel=1e-6)
    assert errors[2] == pytest.approx(mechanism.limiting_squared_error, abs=1e-6)
    for wrong in (0, -1, 1.5, True):
        with pytest.raises(InvalidInputError, match="number of reports"):
            mechanism.expected_squared_error(wrong)  # type: ignore[arg-type]


def test_mechanisms_are_immutable() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        zoo()["PrivUnit"].epsilon = 100.0  # type: ignore[misc]
