"""The transformer keeps scikit-learn's rules, and is the library's projection."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import check_estimator

import streamsketch as ss
from streamsketch.features import Category, Embedding, Features, Number
from streamsketch.integrations.sklearn import MixedFeatures, RandomProjection
from streamsketch.projections.families import KINDS


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning", "ignore:.*SCIPY_ARRAY_API.*")
def test_it_passes_scikit_learns_own_checks() -> None:
    check_estimator(RandomProjection())


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"identity"}))
def test_every_kind_is_a_transformer(kind: str) -> None:
    matrix = np.random.default_rng(1).normal(size=(5, 100)).astype(np.float32)
    transformer = RandomProjection(16, kind=kind, seed=3)
    result = transformer.fit_transform(matrix)
    assert result.dtype == np.float32
    assert (result == transformer.projection_.transform(matrix)).all()
    assert transformer.projection_.kind == kind
    assert transformer.projection_.seed == 3
    assert np.allclose(clone(transformer).fit_transform(sparse.csr_matrix(matrix)), result, atol=1e-4)


def test_options_are_fields_of_the_projection() -> None:
    fitted = RandomProjection(64, options={"sparsity": 16, "independence": 5}).fit(np.eye(9))
    assert fitted.projection_ == ss.SJLT(dim=9, sketch_dim=64, sparsity=16, seed=0, independence=5)
    assert fitted.get_feature_names_out()[:2].tolist() == ["randomprojection0", "randomprojection1"]


def test_a_random_state_is_the_seed() -> None:
    expected = RandomProjection(16, seed=9).fit(np.eye(20)).projection_
    for state in (9, np.int64(9)):
        assert RandomProjection(16, random_state=state).fit(np.eye(20)).projection_ == expected
    assert RandomProjection(16, seed=9, random_state=9).fit(np.eye(20)).projection_ == expected
    assert RandomProjection(16, seed=9, random_state=None).fit(np.eye(20)).projection_ == expected
    assert RandomProjection(16, random_state=0).fit(np.eye(20)).projection_.seed == 0


@pytest.mark.parametrize(
    "state",
    [np.random.RandomState(1), np.random.default_rng(1), "7", 1.0, True],
    ids=["RandomState", "Generator", "text", "float", "bool"],
)
def test_a_generator_is_no_public_seed(state: Any) -> None:
    with pytest.raises(ValueError, match="random_state is a public seed"):
        RandomProjection(16, random_state=state).fit(np.eye(20))


def test_two_seeds_are_refused() -> None:
    with pytest.raises(ValueError, match="seed=3 and random_state=4 are two seeds"):
        RandomProjection(16, seed=3, random_state=4).fit(np.eye(20))


def test_it_stands_in_a_pipeline() -> None:
    assert make_pipeline(Normalizer(), RandomProjection(32)).fit_transform(np.eye(50)).shape == (50, 32)


@pytest.mark.parametrize(
    "parameters",
    [
        {"kind": "fourier"},
        {"kind": ["x"]},
        {"n_components": 0},
        {"options": {"wings": 2}},
        {"options": {"dim": 50}},
        {"options": {"kind": "oporp"}},
        {"options": ["sketch_dim"]},
    ],
    ids=str,
)
def test_parameters_of_no_projection_are_value_errors(parameters: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"kind|sketch_dim|wings"):
        RandomProjection(**parameters).fit(np.eye(9))


COLUMNS: dict[str, Any] = {"age": Number(0, 110), "ward": Category(["A", "B"]), "scan": Embedding(2, waves=1)}
FEATURES = Features(COLUMNS, seed=7, joint=1)
ROWS = pa.table(
    {"id": [1, 2, 3], "age": [40.5, None, 80], "ward": ["A", None, "C"], "scan": [[1.0, 2.0], None, [0.5, -1.0]]}
)


@pytest.mark.filterwarnings("ignore:Can't test estimator MixedFeatures", "ignore:.*SCIPY_ARRAY_API.*")
@pytest.mark.parametrize(
    "check",
    [
        lambda _, mixed: check_estimator(mixed),
        estimator_checks.check_estimator_repr,
        estimator_checks.check_get_params_invariance,
        estimator_checks.check_no_attributes_set_in_init,
        estimator_checks.check_set_params,
        estimator_checks.check_valid_tag_types,
    ],
)
def test_mixed_features_pass_scikit_learns_checks_of_what_takes_no_matrix(check: Any) -> None:
    check("MixedFeatures", MixedFeatures(FEATURES))


@pytest.mark.parametrize("library", [pa.table, pl.from_arrow, pa.Table.to_pandas])
def test_mixed_features_of_data_frames_are_those_of_the_agreement(library: Any) -> None:
    mixed = clone(MixedFeatures(FEATURES))
    found = mixed.fit_transform(library(ROWS))
    assert found.dtype == np.float64
    assert (found == FEATURES.transform(ROWS)).all()
    assert (mixed.n_features_in_, list(mixed.feature_names_in_)) == (3, ["age", "ward", "scan"])


def test_mixed_features_have_the_names_of_their_blocks() -> None:
    names = MixedFeatures(FEATURES).get_feature_names_out().tolist()
    assert names[:7] == [*(f"age_{n}" for n in range(3)), *(f"ward_{n}" for n in range(4))]
    assert names[-3:] == ["(joint)_0", "(joint)_1", "(rest)_0"]
    assert len(set(names)) == FEATURES.dim
    frame = ROWS.to_pandas().set_index("id")
    shown = MixedFeatures(FEATURES).set_output(transform="pandas").fit_transform(frame)
    assert isinstance(shown, pd.DataFrame)
    assert (shown.columns.tolist(), shown.index.tolist()) == (names, [1, 2, 3])


def test_mixed_features_stand_in_a_pipeline() -> None:
    model = make_pipeline(MixedFeatures(FEATURES), RidgeClassifier()).fit(ROWS, [1, 0, 1])
    assert model.predict(ROWS).tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("features", "rows", "error", "message"),
    [
        (FEATURES, np.eye(3), TypeError, "data frame"),
        (FEATURES, ROWS.drop_columns("age"), ValueError, "age"),
        (FEATURES, ROWS.set_column(1, "age", pa.array([[1], [2], [3]])), ValueError, "not a number"),
        (FEATURES.columns, ROWS, TypeError, "must be Features, got a dict"),
    ],
    ids=["a matrix", "a missing column", "lists as numbers", "no features"],
)
def test_mixed_features_refuse_what_they_cannot_read(features: Any, rows: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        MixedFeatures(features).fit(rows)
