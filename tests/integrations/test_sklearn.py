"""The transformer keeps scikit-learn's rules, and is the library's projection."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.utils.estimator_checks import check_estimator

import streamsketch as ss
from streamsketch.integrations.sklearn import RandomProjection
from streamsketch.projections import KINDS


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
