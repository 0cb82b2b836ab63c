"""Projections as a scikit-learn transformer; requires the extra ``streamsketch[sklearn]``."""

import dataclasses
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from streamsketch.errors import InvalidInputError
from streamsketch.projections import KINDS, projection_from_fields


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
        options: dict[str, Any] | None = None,
    ) -> None:
        self.n_components = n_components
        self.kind = kind
        self.seed = seed
        self.options = options

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803 - scikit-learn's names
        """Take the number of columns of ``X``, (n, dim), dense or sparse.

        Raises
        ------
        ValueError
            For data that scikit-learn rejects, or invalid parameters of the projection (`InvalidInputError`).
        """
        del y
        validate_data(self, X, accept_sparse="csr", dtype=(np.float64, np.float32))
        own = {"kind": self.kind, "dim": self.n_features_in_, "sketch_dim": self.n_components, "seed": self.seed}
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

    def transform(self, X: Any) -> NDArray[Any]:  # noqa: N803 - as above
        """Return ``X Sᵀ``: (n, n_components), float32 for float32 input, else float64.

        Raises
        ------
        ValueError
            For data that scikit-learn rejects, or another number of columns than in `fit`.
        """
        check_is_fitted(self)
        checked = validate_data(self, X, accept_sparse="csr", dtype=(np.float64, np.float32), reset=False)
        return self.projection_.transform(checked)

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
