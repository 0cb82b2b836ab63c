"""ProjUnit: a random projection to k dimensions, followed by PrivUnitG."""

import dataclasses
import functools
import math

import numpy as np

from streamsketch.core.numbers import Floats, Ints
from streamsketch.errors import InvalidInputError
from streamsketch.kernels.hashing import Words
from streamsketch.local.compressed import Compression
from streamsketch.local.mechanism import CHUNK_CELLS, MAX_DIM, register
from streamsketch.local.parameters import GaussianCap, gaussian_cap
from streamsketch.local.plausible_lengths import gaussian_lengths
from streamsketch.local.priv_unit_g import WithPrecision, check_float16, randomize_units
from streamsketch.local.random_words import salt, secret_words
from streamsketch.local.report import Layout, Values
from streamsketch.local.rotations import HadamardMap, MatrixMap, RandomMap, SharedHaarMap, SharedHadamardMap
from streamsketch.privacy.samplers import BitSource
from streamsketch.projections.independent import GaussianProjection
from streamsketch.projections.rotation import Rotation

ROTATIONS = ("hadamard", "haar", "gaussian")
_LOG_FAILURE = 13.815510557964274  # ln 10^6, of the norm bound


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProjUnit(WithPrecision):
    """ProjUnit: PrivUnitG of Wv/‖Wv‖ in R^k, and a public seed for the random map W (Asi et al. 2023).

    Its error is that of PrivUnitG in R^dim plus about d/k, with k floats in a report. The server sums Wᵀû (Algorithms 1
    and 2).

    - ``rotation="hadamard"`` (FastProjUnit, Section 2.2): signs, a fast Hadamard transform, and k of its rows. A dim
      that is not a power of two is padded with zeros to the next one, N; rows are drawn from all N, and the mean is
      truncated to dim.
    - ``rotation="haar"`` (Section 2.1): k rows of a uniformly random rotation; O(k² dim) for each report.
    - ``rotation="gaussian"`` (Appendix D): a k by dim Gaussian matrix; O(k dim) for each report.
    - ``shared=True`` (Section 3, Algorithms 3 and 4): one rotation for all reports, and rows drawn for each. The server
      adds a report in O(k), and rotates back once. A Gaussian matrix cannot be shared, because it is not an isometry.

    Normalising biases the mean by `limiting_squared_error`, which does not average out. Independent Haar and Gaussian
    maps shrink every vector by 1 - 1/(4k), and the value is exact. Independent Hadamard maps also distort structured
    vectors, and the value is a bound over all vectors, about 0.12/k² (Theory 7.2 says which part of it is proved).
    Under a shared rotation the value is that of a vector without structure, about 25/(16k²): no vector exceeds it on
    average over seeds, but one chosen with knowledge of the seed may. ``unbiased=True`` removes the bias: independent
    Haar and Gaussian maps divide by E‖Wv‖ (Algorithm 5); the others complete Wv to length √C instead of normalising it
    (Algorithms 6 and 7), which multiplies the error by about C; see `norm_bound`.

    ``compressed=True`` sends a seed instead of k floats, selected among candidates in R^k as in `CompPrivUnitG`.
    Otherwise floats affect the guarantee as in `PrivUnitG`.

    Parameters
    ----------
    dim, epsilon, ball
        As in `Mechanism`.
    precision
        As in `PrivUnitG`.
    sketch_dim
        k, at most N; for ``"haar"`` at most 4096, dim · k at most 2^30, and dim at most 4096 if shared.
    rotation
        ``"hadamard"``, ``"haar"`` or ``"gaussian"``.
    shared, unbiased, compressed
        See above.
    seed
        Public, 0 to 2^64 - 1: selects the shared rotation, and the maps of the reports' seeds. Choose it independently
        of the vectors.

    Raises
    ------
    InvalidInputError
        For a field out of range, or a shared Gaussian map.

    Examples
    --------
    >>> mechanism = ProjUnit(dim=1 << 15, sketch_dim=1000, epsilon=10.0, shared=True, seed=7)
    >>> round(mechanism.expected_squared_error(1)), mechanism.layout.bits
    (3115, 32064)
    """

    sketch_dim: int
    rotation: str = "hadamard"
    shared: bool = False
    unbiased: bool = False
    compressed: bool = False
    seed: int = 0

    kind = "proj-unit"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set_choice("rotation", ROTATIONS)
        for name in ("shared", "unbiased", "compressed"):
            self._set_flag(name)
        self._set_int("seed", 0, (1 << 64) - 1)
        self._set_int("sketch_dim", 1, MAX_DIM)
        if self.rotation == "gaussian" and self.shared:
            raise InvalidInputError(
                "a Gaussian map cannot be shared. Use rotation='hadamard' or 'haar': with one Gaussian matrix for "
                "all reports, the error of the mean stays about as large as the mean itself, for any number of "
                "reports"
            )
        if self.sketch_dim > self.map.padded_dim:
            raise InvalidInputError(
                f"sketch_dim must be at most {self.map.padded_dim}, the number of rows of the rotation; got "
                f"{self.sketch_dim}"
            )
        if self.compressed:
            _ = self.compression  # raises if the parameters are out of range
        check_float16(self, self.cap.scale)

    # --- parts ------------------------------------------------------------------------------------------------

    @functools.cached_property
    def map(self) -> RandomMap:
        """The map W as a function of a report's seed."""
        if self.rotation == "hadamard":
            family = SharedHadamardMap if self.shared else HadamardMap
            return family(self.sphere_dim, self.sketch_dim, self.seed)
        if self.shared:
            return SharedHaarMap(self.sphere_dim, self.sketch_dim, self.seed)
        matrix: type[Rotation | GaussianProjection] = Rotation if self.rotation == "haar" else GaussianProjection
        return MatrixMap(self.sphere_dim, self.sketch_dim, self.seed, matrix)

    @property
    def completes(self) -> bool:
        """Whether Wv is completed to length √C (Algorithm 6) instead of normalised."""
        return self.unbiased and (self.shared or self.rotation == "hadamard")

    @property
    def norm_bound(self) -> float:
        """C = min(1 + 2√(t/k) + 2t/k, N/k) with t = ln 10⁶, which ‖Wv‖² exceeds with probability about 10^-6.

        This is the χ² tail of Laurent and Massart (2000, Lemma 1), which also bounds that of Haar maps (Dasgupta and
        Gupta 2003); under Hadamard maps the probability is up to 2·10^-5 for vectors of a few equal coordinates at
        small k. A longer Wv is normalised, which causes a bias of at most √(CN/k) times that probability. ‖Wv‖² never
        exceeds N/k.
        """
        t, k = _LOG_FAILURE, self.sketch_dim
        return max(1.0, min(1 + 2 * math.sqrt(t / k) + 2 * t / k, self.map.padded_dim / k))

    @property
    def inner_dim(self) -> int:
        """The dimension of PrivUnitG, k or, with the completing coordinate, k + 1."""
        return self.sketch_dim + self.completes

    @functools.cached_property
    def compression(self) -> Compression:
        """The choice among candidates, if ``compressed``."""
        return Compression(self.inner_dim, self.epsilon, salt(self.seed, f"{self.kind}/candidates"))

    @property
    def cap(self) -> GaussianCap:
        """The cap's parameters."""
        return self.compression.cap if self.compressed else gaussian_cap(self.inner_dim, self.epsilon)

    @property
    def factor(self) -> float:
        """The factor of Wᵀû, which is 1/E‖Wv‖ in Algorithm 5, √C in Algorithm 7, else 1."""
        if self.completes:
            return math.sqrt(self.norm_bound)
        return 1 / self.map.mean_length if self.unbiased else 1.0

    # --- what a kind of mechanism defines ---------------------------------------------------------------------

    @property
    def layout(self) -> Layout:
        """A seed, and k floats or a second seed."""
        return (
            Layout(1, "uint64", seeded=True)
            if self.compressed
            else Layout(self.sketch_dim, self.precision, seeded=True)
        )

    @functools.cached_property
    def honest_lengths(self) -> tuple[float, float]:
        """Lengths of the k floats, before the server multiplies them; see `Mechanism.honest_lengths`."""
        if self.compressed:
            return super().honest_lengths
        return gaussian_lengths(self.cap, self.sketch_dim - 1, self.inner_dim - 1).rounded(self.layout)

    @property
    def state_dim(self) -> int:
        """N cells in rotated coordinates if the rotation is shared, else dim."""
        return self.map.state_dim

    @property
    def squared_error(self) -> float:
        """The closed forms of Theory 7 for Algorithms 1 to 4, 5 and 6.

        For Hadamard maps E‖Wv‖ is replaced by that of a Haar map, which is within 1/k of it for every vector. So the
        value is within 2/k of the error, or of its average over seeds for a shared map (proved if dim is a power of
        two, Theory 7.1).
        """
        if self.completes:
            cap = self.cap
            along = self.map.mean_back * cap.threshold * cap.scale
            return self.norm_bound * cap.scale**2 * self.sphere_dim + along - 1
        if self.unbiased:
            return self.cap.squared_norm(self.sphere_dim, self.map.mean_back) * self.factor**2 - 1
        return self.cap.squared_norm(self.sphere_dim, self.map.mean_back) + 1 - 2 * self.map.mean_length

    @property
    def longest_contribution(self) -> float:
        """See `Mechanism.longest_contribution`; infinite for Gaussian maps, whose norms are unbounded."""
        return (
            self.factor * self.map.stretch * (self.compression.longest if self.compressed else self.honest_lengths[1])
        )

    @property
    def limiting_squared_error(self) -> float:
        """Squared bias, 0 if unbiased. It is exact, a bound or an average, as described in `ProjUnit`."""
        return 0.0 if self.unbiased else self.map.squared_bias

    def unit_inputs(self, units: Floats, seeds: Words) -> Floats:
        """Return the input of PrivUnitG, rows of length 1: Wv/‖Wv‖, or (Wv, √(C - ‖Wv‖²))/√C: (n, inner_dim)."""
        directions, lengths = self.map.directions(units, seeds)
        if not self.completes:
            return directions
        bound = self.norm_bound
        within = np.minimum(lengths / math.sqrt(bound), 1.0)
        rest = np.sqrt(1 - within**2)
        return np.concatenate([directions * within[:, np.newaxis], rest[:, np.newaxis]], axis=1)

    def fill(self, units: Floats, bits: BitSource, seeds: Words, values: Values) -> None:
        """Write reports; see `Mechanism.fill`."""
        seeds[:] = secret_words(bits, seeds.size)
        directions = self.unit_inputs(units, seeds)
        if self.compressed:
            values[:, 0] = self.compression.seeds(directions, bits)
        else:
            values[...] = randomize_units(directions, self.cap, bits)[:, : self.sketch_dim]

    def _scale(self, values: Values) -> Floats:
        decoded = self.compression.vectors(values[:, 0])[:, : self.sketch_dim] if self.compressed else values
        return np.ascontiguousarray(decoded, dtype=np.float64) * self.factor

    def contributions(self, seeds: Words, values: Values) -> Floats:
        """Return Wᵀû of each report, (n, sphere_dim); see `Mechanism.contributions`."""
        return self.map.lift(self._scale(values), seeds)

    def add_steps(self, seeds: Words, values: Values, total: Ints, step: float, limit: float) -> None:
        """Add reports; see `Mechanism.add_steps`."""
        if seeds.size == 1:  # checked before it is added, in O(k): a separate total would take O(dim)
            self.map.add_steps(self._scale(values), seeds, total, step, limit)
            return
        added = np.zeros_like(total)
        rows = max(1, CHUNK_CELLS // self.sketch_dim)  # compressed reports expand a thousandfold
        for start in range(0, seeds.size, rows):
            part = slice(start, start + rows)
            self.map.add_steps(self._scale(values[part]), seeds[part], added, step, limit)
        total += added

    def mean_of(self, total: Floats) -> Floats:
        """Return the mean; see `Mechanism.mean_of`."""
        return self.map.mean_of(total)


register(ProjUnit)
