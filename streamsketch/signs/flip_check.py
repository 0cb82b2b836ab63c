"""Whether the flips that published signs state are enough for what they guarantee."""

import functools
from collections.abc import Iterable
from fractions import Fraction
from typing import cast

from streamsketch.core import sentences
from streamsketch.core.limits import Limits, current_limits
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.privacy.individual import IndividualGuarantee
from streamsketch.privacy.sign_flips import FlipLaw
from streamsketch.projections.base import Projection
from streamsketch.release.checking.noise import NoiseCheck, unread_matrix
from streamsketch.release.checking.release import QUICK_ENTRIES, warn_of
from streamsketch.signs.individual import IDPSignOPORP, IDPSignOPORPG, IDPSignRPG, IDPSignRPRR
from streamsketch.signs.publishers import (
    WITHIN_63_BITS,
    DPSignLogistic,
    DPSignOPORPRR,
    DPSignOPORPRRSmooth,
    DPSignRPRR,
    DPSignRPRRSmooth,
    SignMechanism,
)
from streamsketch.signs.sketch import IndividualSignSketch, Method, Signs, SignSketch

_PLAIN = {kind.name: kind for kind in (DPSignRPRRSmooth, DPSignOPORPRR, DPSignOPORPRRSmooth, DPSignLogistic)}
_INDIVIDUAL = {kind.name: kind for kind in (IDPSignRPRR, IDPSignOPORP)}
_WITH_NOISE = {kind.name: kind for kind in (IDPSignRPG, IDPSignOPORPG)}
_TOLERANCE = Fraction(1, 10**6)  # of a rate: a share for the keys was added to ε, and is taken off again, in floats


def check_flips(
    guarantee: Guarantee, projection: Projection, law: FlipLaw, *, most_entries: int | None = None
) -> NoiseCheck:
    """Compare the flips stated with those that the mechanism named draws for the guarantee; see `NoiseCheck`.

    Parameters
    ----------
    guarantee, projection, law
        Of the release.
    most_entries
        Larger random matrices are not read.
    """
    return _check_flips(guarantee, projection, law, most_entries, current_limits())


@functools.lru_cache(maxsize=4096)
def _check_flips(
    guarantee: Guarantee, projection: Projection, law: FlipLaw, most_entries: int | None, limits: Limits
) -> NoiseCheck:
    del limits  # what was not checked may be, once limits are raised
    if any(step.law != law for step in guarantee.mechanism.flips):
        return NoiseCheck("too little", f"the estimates assume {law}, but its mechanism has others")
    try:
        mechanism = mechanism_of(guarantee)
        # the stated law and the named mechanism may differ, and only one of them may need the matrix
        if law.shape == "linear" or isinstance(mechanism, DPSignLogistic):
            unread = unread_matrix(projection, guarantee.neighbours.matrix_number, most_entries=most_entries)
            if unread is not None:
                return unread
        if mechanism is None:
            return NoiseCheck("not checked", _unknown(guarantee))
        return _judge(guarantee, law, mechanism, mechanism.law(projection))
    except InvalidInputError as error:
        return NoiseCheck("too little", f"the mechanism named would not release it: {error}")


def _judge(guarantee: Guarantee, law: FlipLaw, mechanism: SignMechanism, allowed: FlipLaw) -> NoiseCheck:
    conditions = {*guarantee.conditions, WITHIN_63_BITS}  # which the first releases do not state
    missing = [condition for condition in mechanism.conditions if condition not in conditions]
    if missing:
        return NoiseCheck("too little", f"it holds only if {' and '.join(missing)}, which it does not state")
    share = f"{guarantee.epsilon - mechanism.epsilon:g}"
    keys = sentences.LESS_FOR_KEYS.format(epsilon=share) if guarantee.mechanism.keys else ""
    stated = sentences.STATED_EPSILON.format(epsilon=f"{guarantee.epsilon:g}")
    requirement = f"{mechanism.name} {allowed} for {stated}{keys}"
    if law.shape != allowed.shape:
        return NoiseCheck("too little", f"{requirement}, and other flips are stated: {law}")
    if law.rate <= allowed.rate * (1 + _TOLERANCE):
        return NoiseCheck(
            "enough", f"{requirement}, {'as' if law.rate >= allowed.rate else 'and more are'} stated here"
        )
    return NoiseCheck("too little", f"{requirement}, and fewer are stated: {law}")


def check_individual(
    guarantee: IndividualGuarantee, projection: Projection, method: Method, *, most_entries: int | None = None
) -> NoiseCheck:
    """Say that individual guarantees cannot be checked, or that no data could give such a release.

    Parameters
    ----------
    guarantee, projection, method
        Of the release.
    most_entries
        Larger random matrices are not read.
    """
    return _check_individual(guarantee, projection, method, most_entries, current_limits())


@functools.lru_cache(maxsize=4096)
def _check_individual(
    guarantee: IndividualGuarantee, projection: Projection, method: Method, most_entries: int | None, limits: Limits
) -> NoiseCheck:
    del limits  # as above
    if unread_matrix(projection, "row maxima", most_entries=most_entries) is None:
        epsilon, delta, neighbours = guarantee.epsilon, guarantee.delta, guarantee.neighbours
        try:
            if method in _WITH_NOISE:
                _WITH_NOISE[method](epsilon=epsilon, delta=delta, neighbours=neighbours).calibrated(projection)
            else:
                _INDIVIDUAL[method](epsilon=epsilon, neighbours=neighbours).calibrated(projection)
        except InvalidInputError as error:
            return NoiseCheck("too little", f"the mechanism named would not release it: {error}")
    return NoiseCheck("not checked", "the data decided which signs were perturbed, and how much; no file states it")


def check_signs(release: Signs, *, most_entries: int | None = None) -> NoiseCheck:
    """Check published signs of either kind; see `check_flips` and `check_individual`."""
    if isinstance(release, SignSketch):
        return check_flips(release.guarantee, release.projection, release.law, most_entries=most_entries)
    individual = cast("IndividualSignSketch", release)
    return check_individual(individual.guarantee, individual.projection, individual.method, most_entries=most_entries)


def warn_of_flips(releases: Iterable[Signs]) -> None:
    """Warn of published signs whose flips are too few for their guarantee."""
    for release in releases:
        check = check_signs(release, most_entries=QUICK_ENTRIES)
        if check.verdict == "too little":
            warn_of(f"release {release.release_id.hex()}", check)


def mechanism_of(guarantee: Guarantee) -> SignMechanism | None:
    """Return the mechanism of a single release, with its guarantee less the share for the keys; else None.

    Raises
    ------
    InvalidInputError
        If that mechanism does not hold for these neighbours or this ε and δ.
    """
    flips = guarantee.mechanism.the_flips
    if flips is None:
        return None
    budget, neighbours = guarantee.budget.minus(guarantee.mechanism.keys), guarantee.neighbours
    if flips.norm_bound is None:
        plain = _PLAIN.get(flips.method)
        return None if plain is None else plain(epsilon=budget.epsilon, neighbours=neighbours)
    if flips.method != DPSignRPRR.name:
        return None
    return DPSignRPRR(epsilon=budget.epsilon, delta=budget.delta, neighbours=neighbours, norm_bound=flips.norm_bound)


def _unknown(guarantee: Guarantee) -> str:
    if not guarantee.mechanism.is_record:
        return sentences.ONLY_TEXT
    return "its mechanism is not a single mechanism of the library"
