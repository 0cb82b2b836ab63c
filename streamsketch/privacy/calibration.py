"""Which noise a guarantee takes, by its name or by a rule."""

import dataclasses
from typing import NamedTuple

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
    is_automatic
        Whether ``mechanism="auto"`` takes it. It takes none of the others in its place.
    """

    mechanism: str
    noise: Noise
    variance: float
    is_automatic: bool = False


def candidates(sensitivity: Sensitivity, budget: Budget) -> list[Candidate]:
    """Return the mechanisms that give (ε, δ), with their predicted variance, the automatic choice first if it is one.

    A mechanism whose noise would be too wide to sample is left out, or refused if it is the only one. `choose` refuses
    such an automatic choice. The automatic choice is Laplace when δ < exp(-D1²/D2²), else Gaussian (Stausholm 2021,
    Note 5); for an SJLT that is δ < e^{-s}. The rule ignores constants, so the other one may have the smaller variance.
    """
    tried = _tried(sensitivity, budget)
    mechanisms = [_candidate(trial, sensitivity) for trial in tried if trial.noise is not None]
    if not mechanisms:
        raise _refusal_of(tried[0])
    return mechanisms


def choose(sensitivity: Sensitivity, budget: Budget, mechanism: str) -> Noise:
    """Return the noise of the mechanism asked for.

    Parameters
    ----------
    sensitivity, budget
        What the noise has to hide, and what it may spend.
    mechanism
        ``"laplace"``, ``"gaussian"`` or another registered noise; ``"auto"``, the noise that suits the sensitivity and
        the budget; ``"least-variance"``, the one of `candidates` with the least predicted variance.

    Raises
    ------
    InvalidInputError
        For Gaussian with δ = 0, another mechanism, or noise too wide to sample. Where the noise that is asked for
        cannot be drawn, no other takes its place: it could be hundreds of times as wide, and with another δ.
    """
    check_choice(budget, mechanism)
    if mechanism in NOISES:
        return NOISES[mechanism].calibrated(sensitivity, budget)
    if mechanism == _AUTO:
        first = _try(_kinds(sensitivity, budget)[0], sensitivity, budget, is_first=True)  # others are not calibrated
        if first.noise is None:
            raise _instead_of(first, budget)
        return first.noise
    tried = _tried(sensitivity, budget)
    noises = [trial.noise for trial in tried if trial.noise is not None]
    refused = [trial for trial in tried if trial.noise is None]
    if not noises:
        raise _refusal_of(refused[0])
    best = min(noises, key=lambda noise: noise.cumulants.k2)
    if narrower := [trial for trial in refused if trial.kind.widest < best.cumulants.k2]:
        raise _instead_of(narrower[0], budget)  # it may have had less
    return min(noises, key=lambda noise: _variance(noise, sensitivity))


def check_choice(budget: Budget, mechanism: str) -> None:
    """Raise `InvalidInputError` for what no sensitivity would make a release of."""
    if not (isinstance(mechanism, str) and mechanism in mechanism_names()):
        raise InvalidInputError(f"mechanism must be one of {', '.join(mechanism_names())}, got {mechanism!r:.40}")
    if mechanism in NOISES:
        NOISES[mechanism].check_budget(budget)


class _Tried(NamedTuple):
    """A kind of noise, calibrated, or why it cannot be."""

    kind: type[Noise]
    noise: Noise | None
    refusal: InvalidInputError | None
    is_automatic: bool


def _kinds(sensitivity: Sensitivity, budget: Budget) -> list[type[Noise]]:
    """Return the kinds that give the guarantee, the automatic choice first."""
    kinds = [kind for kind in NOISES.values() if budget.delta > 0 or not kind.needs_delta]
    return sorted(kinds, key=lambda kind: not kind.suits(sensitivity, budget))


def _tried(sensitivity: Sensitivity, budget: Budget) -> list[_Tried]:
    kinds = _kinds(sensitivity, budget)
    return [_try(kind, sensitivity, budget, is_first=kind is kinds[0]) for kind in kinds]


def _try(kind: type[Noise], sensitivity: Sensitivity, budget: Budget, *, is_first: bool) -> _Tried:
    try:
        return _Tried(kind, kind.calibrated(sensitivity, budget), None, is_first)
    except InvalidInputError as refusal:
        return _Tried(kind, None, refusal, is_first)


def _refusal_of(tried: _Tried) -> InvalidInputError:
    if tried.refusal is None:
        raise ValueError("the noise was not refused")
    return tried.refusal


def _instead_of(tried: _Tried, budget: Budget) -> InvalidInputError:
    """Return the refusal of a noise, with what else there is."""
    refusal, others = _refusal_of(tried), [kind.name for kind in NOISES.values() if kind is not tried.kind]
    spent = " and gives δ = 0" if budget.delta and others == ["laplace"] else ""
    ways = " or ".join(f"mechanism={name!r}" for name in others)
    return type(refusal)(
        f"{refusal}. No other noise is taken instead of {tried.kind.name} noise; {ways} asks for one, which may be "
        f"many times as wide{spent}"
    )


def _candidate(tried: _Tried, sensitivity: Sensitivity) -> Candidate:
    if tried.noise is None:
        raise ValueError("the noise was refused")
    return Candidate(tried.noise.name, tried.noise, _variance(tried.noise, sensitivity), tried.is_automatic)


def _variance(noise: Noise, sensitivity: Sensitivity) -> float:
    return squared_distance_variance(noise.cumulants.times(sensitivity.layers), sensitivity.cells)
