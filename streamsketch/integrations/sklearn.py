"""Projections and features of rows as scikit-learn transformers; requires the extra ``sklearn``."""

import dataclasses
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from streamsketch.core.numbers import Floats, Numbers
from streamsketch.data.tables import schema_of
from streamsketch.errors import InvalidInputError
from streamsketch.features.features import Features
from streamsketch.projections.families import KINDS
from streamsketch.projections.from_fields import projection_from_fields


class RandomProjection(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Project rows by any map of this library, ``X ↦ X Sᵀ``, in floating point.

    Fitting uses only the number of columns, so it learns nothing from the data, and parties with the same parameters
    have the same map. The output is not private; see `streamsketch.release.PrivateProjection`.

    Parameters
    ----------
    n_components
        The ``sketch_dim`` of the projection.
    kind
        The kind of map, as named by `Projection.to_json`.
    seed
        Public seed, 0 to 2^64 - 1.
    random_state
        The same seed under scikit-learn's name, an integer; None for ``seed``. A generator is refused: parties could
        not state it, and fitting twice would give two maps.
    options
        Further fields of the projection, such as ``{"sparsity": 8}``. The default ``sparsity``, for kinds that have
        one, is the smaller of 4 and ``n_components``.

    Attributes
    ----------
    projection_
        The `Projection`, set by `fit`.
    n_features_in_
        The ``dim`` of the projection, set by `fit`.

    Examples
    --------
    >>> import numpy as np
    >>> RandomProjection(n_components=64, seed=7).fit_transform(np.eye(100)).shape
    (100, 64)
    """

    def __init__(
        self,
        n_components: int = 256,
        *,
        kind: str = "sjlt-block",
        seed: int = 0,
        random_state: int | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.n_components = n_components
        self.kind = kind
        self.seed = seed
        self.random_state = random_state
        self.options = options

    def fit(self, X: object, y: object = None) -> Self:  # noqa: N803 - scikit-learn's names
        """Take the number of columns of ``X``, (n, dim), dense or sparse.

        Raises
        ------
        ValueError
            For data that scikit-learn rejects, or invalid parameters of the projection (`InvalidInputError`).
        """
        del y
        validate_data(self, X, accept_sparse="csr", dtype=(np.float64, np.float32))
        own = {"kind": self.kind, "dim": self.n_features_in_, "sketch_dim": self.n_components, "seed": self._seed}
        if not (isinstance(self.kind, str) and self.kind in KINDS):
            raise InvalidInputError(f"kind must be one of {', '.join(KINDS)}, got {self.kind!r:.40}")
        if not isinstance(self.options, dict | None) or own.keys() & (self.options or {}):
            raise InvalidInputError(
                f"options must be None or a dict of further fields, without {', '.join(own)}, which are the parameters "
                f"kind, n_components and seed, and the number of columns; got {self.options!r:.80}"
            )
        fields, (cls, _) = own | (self.options or {}), KINDS[self.kind]
        for name, value in self._defaults(cls).items():
            fields.setdefault(name, value)
        self.projection_ = projection_from_fields(fields)
        return self

    def transform(self, X: object) -> Numbers:  # noqa: N803 - as above
        """Return ``X Sᵀ``: (n, n_components), float32 for float32 input, else float64.

        Raises
        ------
        ValueError
            For data that scikit-learn rejects, or another number of columns than in `fit`.
        """
        check_is_fitted(self)
        checked = validate_data(self, X, accept_sparse="csr", dtype=(np.float64, np.float32), reset=False)
        return self.projection_.transform(checked)

    @property
    def _seed(self) -> int:
        if self.random_state is None:
            return self.seed
        if isinstance(self.random_state, bool) or not isinstance(self.random_state, int | np.integer):
            raise InvalidInputError(
                f"random_state is a public seed, an integer that all parties state, or None for the parameter seed; "
                f"got {self.random_state!r:.40}"
            )
        if self.seed not in (0, self.random_state):
            raise InvalidInputError(
                f"seed={self.seed!r:.40} and random_state={int(self.random_state)} are two seeds of one map: state one"
            )
        return int(self.random_state)

    def _defaults(self, cls: Any) -> dict[str, Any]:
        _, fixed = KINDS[self.kind]
        own = {field.name: field.default for field in dataclasses.fields(cls) if field.init and field.name not in fixed}
        if own.get("sparsity") is dataclasses.MISSING:
            own["sparsity"] = max(1, min(4, self.n_components))
        return {name: value for name, value in own.items() if value is not dataclasses.MISSING}

    @property
    def _n_features_out(self) -> int:
        return int(self.projection_.sketch_dim)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class MixedFeatures(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Map rows of numbers, categories and embeddings to vectors of length 1, by public `Features`.

    These are the rows that releases of the same `Features` sum up, so a model of them sees what such releases compare.
    The map is public and not learned: fitting only checks that the columns are there. The output is not
    private, but as secret as the rows; release sums of features by `streamsketch.bound`, under an agreement.

    Parameters
    ----------
    features
        The `Features` to compute.

    Attributes
    ----------
    feature_names_in_, n_features_in_
        Names and number of the columns that are read, set by `fit`. Other columns are ignored.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from streamsketch.features import Category, Number
    >>> rows = pa.table({"age": [55, 110], "smokes": ["no", None]})
    >>> mixed = MixedFeatures(Features({"age": Number(0, 110), "smokes": Category(["yes", "no"])}, seed=7))
    >>> mixed.fit_transform(rows).shape, mixed.get_feature_names_out()[:4].tolist()
    ((2, 8), ['age_0', 'age_1', 'age_2', 'smokes_0'])
    """

    def __init__(self, features: Features) -> None:
        self.features = features

    def fit(self, X: object, y: object = None) -> Self:  # noqa: N803 - scikit-learn's names
        """Check that ``X``, a data frame or another table as in `Features.transform`, has the columns.

        Raises
        ------
        TypeError
            If ``features`` is not a `Features`, or ``X`` is not a table with named columns, such as a matrix.
        ValueError
            For columns that are missing, or of a type that can never be such a column (`InvalidInputError`).
        """
        del y
        features = self._checked()
        names = list(features.columns)
        empty = schema_of(X, names).empty_table()  # whose columns have the types of those of X, which are checked
        features.cells({name: empty.column(name).combine_chunks() for name in names})
        self.feature_names_in_ = np.array(names, dtype=object)
        self.n_features_in_ = len(names)
        return self

    def transform(self, X: object) -> Floats:  # noqa: N803 - as above
        """Return the features of each row: float64, (n, D), multiples of 2^-15; errors as `fit`."""
        return self._checked().transform(X)

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """Return a name for each of the D features: its block's, an underscore and its place in it, from 0.

        Parameters
        ----------
        input_features
            Not used, as the columns are those of the features.
        """
        del input_features
        named = [f"{block.name}_{place}" for block in self._checked().blocks for place in range(block.cells)]
        return np.array(named, dtype=object)

    def _checked(self) -> Features:
        if not isinstance(self.features, Features):
            raise TypeError(f"features must be Features, got a {type(self.features).__name__}")
        return self.features

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.two_d_array = False  # it takes tables whose columns have names and types
        tags.input_tags.categorical = tags.input_tags.string = tags.input_tags.allow_nan = True
        return tags
