"""Which noise a guarantee takes, by its name or by a rule."""

import dataclasses
from collections.abc import Iterator

from streamsketch.errors import InvalidInputError
from streamsketch.privacy.budget import Budget
from streamsketch.privacy.noise import NOISES, Noise, Sensitivity, squared_distance_variance

_AUTO, _LEAST_VARIANCE = "auto", "least-variance"


def mechanism_names() -> tuple[str, ...]:
    """Return what ``mechanism=`` may be: the registered noises, and two ways to choose one of them.

    Examples
    --------
    >>> mechanism_names()
    ('auto', 'laplace', 'gaussian', 'least-variance')
    """
    return _AUTO, *NOISES, _LEAST_VARIANCE


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A mechanism that would give the guarantee, and what it would cost.

    Parameters
    ----------
    mechanism
        The name of a registered noise: ``"laplace"`` or ``"gaussian"``.
    noise
        The calibrated distribution.
    variance
        The noise's part of the variance of a squared distance between two close streams released with it, in
        grid steps⁴ (Theory 4).
    """

    mechanism: str
    noise: Noise
    variance: float


def candidates(sensitivity: Sensitivity, budget: Budget) -> list[Candidate]:
    """Return the mechanisms that give (ε, δ), with their predicted variance, the automatic choice first.

    A mechanism whose noise would be too wide to sample is left out, or refused if it is the only one. The automatic
    choice is Laplace when δ < exp(-D1²/D2²), else Gaussian (Stausholm 2021, Note 5); for an SJLT that is δ < e^{-s}.
    The rule ignores constants, so the other one may have the smaller variance.
    """
    return [_candidate(noise, sensitivity) for noise in _noises(sensitivity, budget)]


def choose(sensitivity: Sensitivity, budget: Budget, mechanism: str) -> Noise:
    """Return the noise of the mechanism asked for.

    Parameters
    ----------
    sensitivity, budget
        What the noise has to hide, and what it may spend.
    mechanism
        ``"laplace"``, ``"gaussian"`` or another registered noise; ``"auto"``, the first of `candidates`;
        ``"least-variance"``, the one of them with the least predicted variance.

    Raises
    ------
    InvalidInputError
        For Gaussian with δ = 0, another mechanism, or noise too wide to sample.
    """
    check_choice(budget, mechanism)
    if mechanism in NOISES:
        return NOISES[mechanism].calibrated(sensitivity, budget)
    found = _noises(sensitivity, budget)
    if mechanism == _AUTO:
        return next(found)  # the others are not calibrated
    return min(found, key=lambda noise: _candidate(noise, sensitivity).variance)


def check_choice(budget: Budget, mechanism: str) -> None:
    """Raise `InvalidInputError` for what no sensitivity would make a release of."""
    if not (isinstance(mechanism, str) and mechanism in mechanism_names()):
        raise InvalidInputError(f"mechanism must be one of {', '.join(mechanism_names())}, got {mechanism!r:.40}")
    if mechanism in NOISES:
        NOISES[mechanism].check_budget(budget)


def _noises(sensitivity: Sensitivity, budget: Budget) -> Iterator[Noise]:
    """Yield each noise that gives the guarantee, the automatic choice first."""
    kinds = [kind for kind in NOISES.values() if budget.delta > 0 or not kind.needs_delta]
    kinds.sort(key=lambda kind: not kind.suits(sensitivity, budget))
    refusals, found = [], False
    for kind in kinds:
        try:
            noise = kind.calibrated(sensitivity, budget)
        except InvalidInputError as refusal:  # too wide to sample; another may not be
            refusals.append(refusal)
            continue
        found = True
        yield noise
    if not found:
        raise refusals[0]


def _candidate(noise: Noise, sensitivity: Sensitivity) -> Candidate:
    layered = noise.cumulants.times(sensitivity.layers)
    return Candidate(noise.name, noise, squared_distance_variance(layered, sensitivity.cells))
