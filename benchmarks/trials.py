"""Estimates over many projections and noises, beside their truth and the variance that theory predicts.

Projections are those of seeds 0, 1, 2, … and noise is keyed, so that a study gives the same figures each time; releases
draw theirs from the operating system.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

import streamsketch as ss
from benchmarks.verdicts import Check
from streamsketch import privacy
from streamsketch.accounting.sensitivity import guarantee_of, sensitivity_of
from streamsketch.estimation.noise_effect import OutputNoise, effect_of
from streamsketch.privacy import calibration
from streamsketch.privacy.noise import Noise, NoiseMoments
from streamsketch.privacy.samplers import KeyedBits
from streamsketch.release.additive_noise import CalibratedNoise
from streamsketch.sketching.sketch import Sketch

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Make = Callable[[int], ss.projections.Projection]

NEIGHBOURS = ss.L1(1)
# Each takes dim, sketch_dim and seed.
MAPS: Mapping[str, Callable[..., ss.projections.Projection]] = {
    "CountSketch": ss.CountSketch,
    "SJLT, s = 4": functools.partial(ss.SJLT, sparsity=4),
    "SJLT, s = 8": functools.partial(ss.SJLT, sparsity=8),
    "OPORP": ss.projections.OPORP,
    "Rademacher": ss.projections.Rademacher,
    "SRHT": ss.projections.SRHT,
    "Achlioptas": ss.projections.Achlioptas,
    "VerySparse, s = 8": functools.partial(ss.projections.VerySparse, sparsity=8),
    "Gaussian": ss.projections.GaussianProjection,
    "Uniform": ss.projections.UniformProjection,
    "FJLT": ss.projections.FJLT,
    "Rotation": ss.projections.Rotation,
}
_SECRET = b"no secret: studies can be rerun."

DISTANCE, NORM, PRODUCT, COSINE = "squared distance", "squared norm", "inner product", "cosine"
_ESTIMATORS: Mapping[str, Callable[..., ss.estimation.Estimate]] = {
    DISTANCE: ss.squared_distance,
    NORM: lambda x, _: ss.squared_norm(x),
    PRODUCT: ss.inner_product,
    COSINE: ss.cosine,
}


@dataclasses.dataclass(frozen=True)
class Budget:
    """What noise is calibrated to; without one, sketches stay raw."""

    epsilon: float
    delta: float
    mechanism: str

    def noise(self, projection: ss.projections.Projection) -> Noise:
        """Return the library's noise for this projection, for `NEIGHBOURS`."""
        sensitivity = sensitivity_of(projection, NEIGHBOURS)
        return calibration.choose(sensitivity, self.spent, self.mechanism)

    def publisher(self, projection: ss.projections.Projection) -> CalibratedNoise:
        """Return what draws releases of sketches of this projection."""
        noise = self.noise(projection)
        return CalibratedNoise(projection, guarantee_of(noise, self.spent, NEIGHBOURS), noise)

    @property
    def spent(self) -> privacy.Budget:
        """ε and δ."""
        return privacy.Budget(self.epsilon, self.delta)

    def __str__(self) -> str:
        return f"{self.mechanism}, ε = {self.epsilon:g}" + (f", δ = {self.delta:g}" if self.delta else "")


class Errors:
    """Errors of estimates of one quantity beside the standard error that theory predicts, if it has a closed form."""

    values: Floats
    truth: float
    predicted: float | None

    @property
    def observed(self) -> float:
        """See `observed_error`."""
        return observed_error(self.values, self.truth)

    @property
    def uncertainty(self) -> float:
        """The relative standard error of `observed`."""
        return uncertainty_of_error(self.values, self.truth)

    @property
    def ratio(self) -> float:
        """Observed over predicted."""
        return self.observed / float(self.predicted or math.nan)

    @property
    def deviation(self) -> float:
        """See `deviation`."""
        return deviation(self.observed, float(self.predicted or math.nan), self.uncertainty)


@dataclasses.dataclass(frozen=True)
class Sample(Errors):
    """Estimates of one quantity.

    Parameters
    ----------
    truth
        What was estimated.
    values, stated, low, high
        Each estimate, its own standard error, and its 95 % interval: (trials,).
    predicted
        The standard error that theory predicts from the true vectors; None where it has no closed form.
    refused
        How many estimates were refused: cosines of a sketch that looks empty. They are not among the values.
    safe
        The share of 95 % intervals by Chebyshev's inequality that hold the truth.
    """

    truth: float
    values: Floats
    stated: Floats
    low: Floats
    high: Floats
    predicted: float | None
    refused: int = 0
    safe: float = math.nan

    @property
    def coverage(self) -> float:
        """Share of the intervals that hold the truth."""
        slack = 1e-9 * max(1.0, abs(self.truth))  # a raw sketch may be exact but for rounding
        return float(((self.low - slack <= self.truth) & (self.truth <= self.high + slack)).mean())


def simulate(
    make: Make, x: Ints, y: Ints, budget: Budget | None, trials: int, quantities: tuple[str, ...]
) -> dict[str, Sample]:
    """Sketch, release and estimate with a new projection and new noise each time.

    Where the noise follows the projection's own sensitivity, the prediction is the mean over the noises drawn.
    """
    vectors, masses = np.stack([x, y]), [int(np.abs(vector).sum()) for vector in (x, y)]
    estimates: dict[str, list[ss.estimation.Estimate]] = {name: [] for name in quantities}
    noises: list[NoiseMoments] = []
    for seed in range(trials):
        projection = make(seed)
        states = projection.transform(vectors, exact=True)
        pair: list[ss.PrivateSketch | Sketch] = [
            Sketch.from_state(projection, state, int(mass / projection.grid))
            for state, mass in zip(states, masses, strict=True)
        ]
        if budget is not None:
            publisher = budget.publisher(projection)
            bits = keyed(f"{projection} {budget}".encode() + vectors.tobytes())
            pair = [publisher.for_data(sketch).draw(bits) for sketch in pair if isinstance(sketch, Sketch)]
            noises.append(publisher.noise.cumulants.scaled(projection.cell_unit))
        for name in quantities:
            try:
                estimates[name].append(_ESTIMATORS[name](*pair))
            except ss.InvalidInputError:
                if name != COSINE:
                    raise
    samples = {name: _sample(name, draws, make(0), (x, y), noises) for name, draws in estimates.items()}
    return {name: dataclasses.replace(sample, refused=trials - sample.values.size) for name, sample in samples.items()}


def clip_weights(lengths: Floats, bound: float, clip: str) -> Floats:
    """Return by what units of these lengths, above 0, are multiplied that are clipped by their exact lengths."""
    return bound / lengths if clip == "equal" else np.minimum(1.0, bound / lengths)


def keyed(context: bytes) -> KeyedBits:
    """Return bits for noise that is the same each time, and another for another context."""
    return KeyedBits(_SECRET, context)


def _sample(
    name: str,
    estimates: list[ss.estimation.Estimate],
    projection: ss.projections.Projection,
    pair: tuple[Ints, Ints],
    noises: list[NoiseMoments],
) -> Sample:
    intervals = np.array([estimate.interval() for estimate in estimates])
    truth = truth_of(name, *pair)
    slack = 1e-9 * max(1.0, abs(truth))
    ends = [estimate.interval(method="chebyshev") for estimate in estimates]
    variance = predicted_variance(name, projection, *pair, noises or [NoiseMoments()])
    return Sample(
        truth,
        np.array([estimate.value for estimate in estimates]),
        np.array([estimate.standard_error for estimate in estimates]),
        intervals[:, 0],
        intervals[:, 1],
        None if variance is None else math.sqrt(max(variance, 0.0)),
        safe=float(np.mean([low - slack <= truth <= high + slack for low, high in ends])),
    )


def truth_of(name: str, x: Ints, y: Ints) -> float:
    """Return the quantity itself."""
    if name == COSINE:
        return float(x @ y) / math.sqrt(float(x @ x) * float(y @ y))
    vector = {DISTANCE: x - y, NORM: x}.get(name)
    return float(x @ y) if vector is None else float(vector @ vector)


def predicted_variance(
    name: str, projection: ss.projections.Projection, x: Ints, y: Ints, noises: list[NoiseMoments]
) -> float | None:
    """Return Var D̂, Var N̂ or Var Ĝ of Theory 4 with the true vectors, its noise part averaged over ``noises``.

    Parameters
    ----------
    noises
        Cumulants of one release's noise on a cell, in data units.
    """
    law, effect = projection.variance, effect_of(projection, "output")
    if name == COSINE or not isinstance(effect, OutputNoise):
        return None
    if name == PRODUCT:
        norms, inner = (float(x @ x), float(y @ y)), float(x @ y)
        own = law.of_inner_product(*norms, inner, float((x**2) @ (y**2)))
        return own + float(
            np.mean([effect.inner_product_variance(*norms, moments.k2, moments.k2) for moments in noises])
        )
    vector, copies = (x - y, 2) if name == DISTANCE else (x, 1)
    norm = float(vector @ vector)
    summed = [moments.times(copies) for moments in noises]
    own = law.of_squared_norm(norm, float((vector**4).sum()))
    return own + float(np.mean([effect.squared_norm_variance(norm, moments.k2, moments.k4) for moments in summed]))


def simultaneous_z(count: int, level: float = 0.99) -> float:
    """Return how many standard errors ``count`` independent normal variables all stay within with this probability."""
    return float(ndtri((1 + level ** (1 / max(count, 1))) / 2))


def as_predicted(claim: str, deviations: Iterable[float], data: str = "") -> Check:
    """Return the check that no deviation from a prediction is larger than sampling explains.

    Parameters
    ----------
    claim, data
        As in `Check`.
    deviations
        In standard errors, each. Correct predictions stay within the tolerance with probability 99 %.
    """
    sizes = [abs(deviation) for deviation in deviations]
    largest = max(sizes, default=math.nan)
    return Check(claim, largest, 0.0, simultaneous_z(len(sizes)), unit="standard errors", data=data)


def pair_of(kind: str, dim: int, size: float = 10.0) -> tuple[Ints, Ints]:
    """Return two integer vectors of a kind, of like length whatever the kind: ``size``·√dim or so.

    ``"dense"``: correlated normal entries. ``"four items"``: four entries, two of them shared. ``"one item"``: x has
    one, y the same at three fifths and another.
    """
    length = size * math.sqrt(dim)
    if kind == "dense":
        rng = np.random.default_rng(20130601)
        shared = rng.normal(0, 1, dim)
        x, y = (0.8 * shared + 0.6 * rng.normal(0, 1, dim) for _ in range(2))
    else:
        x, y = np.zeros(dim), np.zeros(dim)
        if kind == "four items":
            x[[1, 5, 9, 12]], y[[1, 5, 20, 33]] = (0.6, -0.5, 0.5, 0.4), (0.7, -0.4, 0.3, 0.5)
        elif kind == "one item":
            x[3], y[3], y[7] = 1, 0.6, 0.8
        else:
            raise ValueError(f"vectors are dense, four items or one item; got {kind!r}")
    scaled = [np.rint(length * vector / np.linalg.norm(vector)).astype(np.int64) for vector in (x, y)]
    return scaled[0], scaled[1]


def observed_error(values: Floats, truth: float) -> float:
    """Return the root of the mean squared error: about the truth, so that a bias counts."""
    return math.sqrt(float(((values - truth) ** 2).mean()))


def deviation(observed: float, predicted: float, uncertainty: float) -> float:
    """Return how many of its standard errors the mean squared error is from its prediction; 0 where it has none.

    Parameters
    ----------
    observed, uncertainty
        `observed_error`, and its `uncertainty_of_error`.
    predicted
        The standard error that theory predicts.
    """
    return (1 - (predicted / observed) ** 2) / (2 * uncertainty) if uncertainty else 0.0


def uncertainty_of_error(values: Floats, truth: float) -> float:
    """Return the relative standard error of `observed_error`."""
    squares = (values - truth) ** 2
    mean = float(squares.mean())
    return float(squares.std()) / (2 * mean * math.sqrt(squares.size)) if mean else 0.0
