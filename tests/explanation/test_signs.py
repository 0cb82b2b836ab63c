"""Explanations of published signs: the library's own numbers, and able to tell when a release is not what it says."""

import dataclasses
import json
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

import streamsketch as ss
from streamsketch import signs
from streamsketch.privacy import Budget, Mechanism
from streamsketch.privacy.individual import IndividualGuarantee
from streamsketch.privacy.mechanism import FlippedSigns, KeySelection
from streamsketch.signs.angles import expected
from streamsketch.signs.sign_changes import FlipLaw
from streamsketch.signs.sketch import SignSketch
from tests.explanation.test_explanation import released

PIXEL = ss.OneCoordinate(1, unit="pixel")
SALE = ss.L1(1, unit="sale")
OPORP = ss.projections.OPORP(dim=784, sketch_dim=256, seed=1, resolution="1/4")
GAUSSIAN = ss.projections.GaussianProjection(dim=64, sketch_dim=256, seed=1, independence=64)
RADEMACHER = ss.projections.Rademacher(dim=784, sketch_dim=256, seed=1)


def published(mechanism: Any, projection: ss.projections.Projection) -> Any:
    sketch = projection.sketch()
    sketch.update([1, 2], [3, 1])
    return mechanism.release(sketch)


SOUND: dict[str, tuple[str, Callable[[], SignSketch]]] = {
    "randomised response": (
        "6.2",
        lambda: published(
            signs.DPSignRPRR(epsilon=8, delta=1e-6, neighbours=PIXEL, norm_bound=Fraction(61, 2)), GAUSSIAN
        ),
    ),
    "the paper's count": (
        "6.2",
        lambda: published(
            signs.DPSignRPRR(epsilon=8, delta=1e-6, neighbours=PIXEL, norm_bound=30, counting="paper"), GAUSSIAN
        ),
    ),
    "smooth": ("6.3", lambda: published(signs.DPSignRPRRSmooth(epsilon=1, neighbours=SALE), RADEMACHER)),
    "smooth, random rows": ("6.3", lambda: published(signs.DPSignRPRRSmooth(epsilon=1, neighbours=SALE), GAUSSIAN)),
    "bins": ("6.3", lambda: published(signs.DPSignOPORPRR(epsilon=2, neighbours=PIXEL), OPORP)),
    "bins, smooth": ("6.3", lambda: published(signs.DPSignOPORPRRSmooth(epsilon=0.2, neighbours=PIXEL), OPORP)),
    "logistic": ("6.4", lambda: published(signs.DPSignLogistic(epsilon=1, neighbours=SALE), RADEMACHER)),
    "logistic, several keys": (
        "6.4",
        lambda: published(signs.DPSignLogistic(epsilon=1, neighbours=ss.L1(30, max_keys=3)), GAUSSIAN),
    ),
}


def changed(release: SignSketch, law: FlipLaw | None = None, **changes: Any) -> SignSketch:
    """Return a release that says of itself what is not so."""
    fields = {
        name: changes.get(name, getattr(release.guarantee, name))
        for name in ("epsilon", "delta", "neighbours", "mechanism", "conditions")
    }
    guarantee = ss.Guarantee(**fields)
    law = release.law if law is None else law
    return SignSketch(release.projection, release.packed, law, guarantee, release_id=release.release_id)


def flipped(release: SignSketch, **changes: Any) -> Mechanism:
    """Return the mechanism of a release with its flips changed."""
    (step,) = release.guarantee.mechanism.steps
    assert isinstance(step, FlippedSigns)
    return Mechanism([dataclasses.replace(step, **changes)])


@pytest.mark.parametrize("name", SOUND)
def test_the_flips_of_every_sound_release_are_found_enough(name: str) -> None:
    section, release_of = SOUND[name]
    release = release_of()
    told = release.explain()
    assert told.check.verdict == "enough", told.check.reason
    assert section in " ".join(told.theorems)
    shown = str(told)
    assert max(map(len, shown.splitlines())) <= 80
    assert f"by {release.guarantee.mechanism}" in " ".join(shown.split())
    for condition in release.guarantee.conditions:
        assert f"{condition}." in " ".join(shown.split()), "in full"
    json.dumps(told.to_dict(), allow_nan=False)
    assert told == release_of().explain()
    assert len({told, release_of().explain()}) == 1


@pytest.mark.parametrize("name", [name for name in SOUND if name != "the paper's count"])  # which has flips to spare
def test_a_smaller_guarantee_than_the_flips_keep_is_found_out(name: str) -> None:
    release = SOUND[name][1]()
    told = changed(release, epsilon=release.guarantee.epsilon * 0.99).explain()
    assert (told.check.verdict, "fewer are stated" in told.check.reason) == ("too little", True)
    assert "WARNING" in str(told)
    rate = release.law.rate / 2
    law = FlipLaw(release.law.shape, rate)
    more = changed(release, law, mechanism=flipped(release, law=law)).explain()
    assert (more.check.verdict, "more are stated" in more.check.reason) == ("enough", True)


def test_flips_that_are_not_those_of_the_mechanism_are_found_out() -> None:
    release = SOUND["bins"][1]()
    other = FlipLaw("levels", release.law.rate)
    assert "its mechanism has others" in changed(release, other).explain().check.reason
    named = changed(release, other, mechanism=flipped(release, law=other)).explain().check
    assert (named.verdict, "other flips are stated" in named.reason) == ("too little", True)
    refused = changed(release, neighbours=SALE).explain().check
    assert (refused.verdict, "would not release it: DP-SignOPORP-RR" in refused.reason) == ("too little", True)
    bounded = flipped(release, norm_bound=Fraction(5))
    for mechanism in (
        flipped(release, method="by magic"),
        bounded,
        Mechanism.stated(str(release.guarantee.mechanism)),
    ):
        assert changed(release, mechanism=mechanism).explain().check.verdict == "not checked"


def test_a_guarantee_that_drops_what_it_rests_on_is_found_out() -> None:
    release = SOUND["randomised response"][1]()
    dropped = changed(release, conditions=release.guarantee.conditions[:-1]).explain()
    assert dropped.check.verdict == "too little"
    assert f"it holds only if {release.guarantee.conditions[-1]}, which it does not state" in dropped.check.reason


def test_a_choice_of_keys_takes_its_share() -> None:
    near = ss.L1(30, unit="aircraft", max_keys=2)
    plain = published(signs.DPSignLogistic(epsilon=0.75, neighbours=near), RADEMACHER)
    share = Budget(0.25, 1e-9)
    choice = ss.Guarantee.of(share, near, Mechanism([KeySelection(share)]))
    guarantee = ss.compose([plain.guarantee, choice], populations="overlapping")
    fields = {name: getattr(guarantee, name) for name in ("epsilon", "delta", "mechanism")}
    told = changed(plain, **fields).explain()
    assert told.check.verdict == "enough", told.check.reason
    assert "less 0.25 for the keys" in told.check.reason
    assert "Korolova" in " ".join(told.theorems)
    assert "chosen privately, with ε = 0.25, δ = 1e-09" in " ".join(told.mechanism)
    assert not any("which key" in said for said in told.not_protected)
    assert changed(plain, **fields | {"epsilon": 0.9}).explain().check.verdict == "too little"


@pytest.mark.parametrize(("name", "norms"), [("bins", 1), ("randomised response", 1), ("smooth", 3), ("logistic", 3)])
def test_the_numbers_of_the_text_are_those_of_the_estimates(name: str, norms: int) -> None:
    release = SOUND[name][1]()
    told = release.explain()
    assert len({at.norm for at in told.angles}) == norms
    assert {60, 90} <= {at.degrees for at in told.angles}
    lines = [line.split() for line in str(told).splitlines() if "°" in line]
    assert len(lines) == len(told.angles) == len(told.to_dict()["angles"])
    for at, line, fields in zip(told.angles, lines, told.to_dict()["angles"], strict=True):
        theta = math.radians(at.degrees)
        found = expected(theta, release.projection, release.law, release.guarantee, norm=at.norm)
        error = math.degrees(found.angle.standard_error)
        shown = [float(word.rstrip("°").replace(",", "")) for word in line if word.endswith("°")]
        assert shown[:2] == [at.degrees, pytest.approx(error, rel=0.05)]
        assert fields["angle"]["standard_error"] == pytest.approx(error)
        assert shown[2] ** 2 + shown[3] ** 2 == pytest.approx(error**2, rel=0.15)
        if found.cosine is None:
            assert (line[-1], fields["cosine"]) == ("unknown", None)
        else:
            assert float(line[-1]) == pytest.approx(found.cosine.standard_error, rel=0.05)
            assert fields["cosine"]["standard_error"] == found.cosine.standard_error


def test_how_often_a_sign_is_wrong_is_the_laws_chance() -> None:
    told = SOUND["bins"][1]().explain()
    assert told.flip_chance(5.0) == pytest.approx(1 / (math.exp(2) + 1), rel=1e-6)
    assert "a sign is wrong with probability 11.9 %." in " ".join(str(told).split())
    told = SOUND["bins, smooth"][1]().explain()  # the step is 4, of 1/4
    assert told.flip_chance(9.0) == pytest.approx(1 / (math.exp(3 * 0.2) + 1), rel=1e-6)
    shown = " ".join(str(told).split())
    assert "26.9 % if its cell is ± 5 and 4.74 % if its cell is ± 15, in data units" in shown
    assert "A step, the most that one pixel moves a cell, is 1 in data units" in shown
    told = SOUND["logistic"][1]().explain()  # a pixel moves 256 cells by one step, of 1/16
    assert told.flip_chance(512.0) == pytest.approx(1 / (math.exp(2) + 1), rel=1e-6)
    assert "26.9 % if its cell is ± 16" in " ".join(str(told).split())


def test_a_large_random_map_is_not_read_through() -> None:
    large = ss.projections.UniformProjection(dim=1 << 24, sketch_dim=256, seed=1)
    for name in ("smooth", "logistic"):
        one = SOUND[name][1]()
        told = SignSketch(large, one.packed, one.law, one.guarantee, release_id=one.release_id).explain()
        assert told.angles == []
        assert "Angles  " not in str(told)
        assert (told.check.verdict == "not checked") == (name == "logistic")
        assert (told.flip_chance(3.0) is None) == (name == "smooth")


def test_a_large_random_map_whose_entries_are_signs_takes_no_reading_for_its_steps() -> None:
    large = ss.projections.VerySparse(dim=1 << 24, sketch_dim=256, sparsity=8, seed=1)
    one = SOUND["smooth"][1]()
    told = SignSketch(large, one.packed, one.law, one.guarantee, release_id=one.release_id).explain()
    assert told.angles != []
    assert told.flip_chance(3.0) is not None


def test_a_bound_below_the_grid_is_a_strangers() -> None:
    one = SOUND["smooth"][1]()
    told = changed(one, neighbours=ss.L1("1/2")).explain()
    assert told.angles == []
    assert "The sign of a cell of zero is a fair coin flip" in " ".join(str(told).split())


# --- individual -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mechanism", "projection", "named"),
    [
        (signs.IDPSignRPRR(epsilon=1, neighbours=PIXEL), RADEMACHER, "Theorem A.2"),
        (signs.IDPSignRPG(epsilon=1, delta=1e-6, neighbours=SALE), RADEMACHER, "Theorem A.1"),
        (signs.IDPSignOPORP(epsilon=1, neighbours=PIXEL), OPORP, "Appendix A"),
        (signs.IDPSignOPORPG(epsilon=1, delta=1e-6, neighbours=PIXEL), OPORP, "Appendix A.3"),
    ],
)
def test_individual_privacy_says_what_it_is_not(
    mechanism: Any, projection: ss.projections.Projection, named: str
) -> None:
    release = published(mechanism, projection)
    told = release.explain()
    shown = " ".join(str(told).split())
    assert "Guarantee individual differential privacy only (not differential privacy)" in shown
    assert "this is not differential privacy" in shown
    assert "It does not compose: its ε does not add up with that of another release, and streamsketch.compose " in shown
    assert "n of them spend n times" not in shown
    assert "adds to ε" not in shown
    assert told.check.verdict == "not checked"
    assert named in shown
    assert max(map(len, str(told).splitlines())) <= 80
    fields = told.to_dict()
    json.dumps(fields, allow_nan=False)
    assert (fields["individual"], fields["guarantee"]["conditions"]) == (True, [])
    for at in told.angles:
        found = expected(math.radians(at.degrees), projection, release.method, release.guarantee, norm=at.norm)
        assert at.expected == found
    assert told == published(mechanism, projection).explain()


def test_individual_signs_that_no_mechanism_releases_are_found_out() -> None:
    release = published(signs.IDPSignRPG(epsilon=1, delta=1e-6, neighbours=PIXEL), RADEMACHER)
    for near, delta in ((ss.OneCoordinate(10**18), 1e-6), (PIXEL, 1e-300)):
        guarantee = IndividualGuarantee(1e-6, delta, near, release.method)
        told = signs.IndividualSignSketch(
            RADEMACHER, release.packed, release.method, guarantee, release_id=release.release_id
        ).explain()
        assert told.check.verdict == "too little"
        assert "the mechanism named would not release it: the noise would have a Gaussian variance" in told.check.reason
        assert "WARNING" in str(told)
        assert told.to_dict()["angles"] == []


# --- together -------------------------------------------------------------------------------------------------


def test_signs_and_sketches_add_up() -> None:
    both = [released(), published(signs.DPSignLogistic(epsilon=2, neighbours=SALE), RADEMACHER)]
    assert ss.explain(*both, populations="overlapping").guarantee.epsilon == 3.0
    assert ss.explain(*both, populations="disjoint").guarantee.epsilon == 2.0
    twice = ss.explain(*both, both[1], populations="overlapping")
    assert (twice.guarantee.epsilon, twice.counted, len(twice.each)) == (3.0, 2, 3)
    json.dumps(twice.to_dict())


def test_the_conditions_of_signs_go_into_the_sum() -> None:
    release = SOUND["randomised response"][1]()
    other = published(signs.DPSignOPORPRR(epsilon=2, neighbours=PIXEL), OPORP)
    joint = ss.explain(release, other, populations="overlapping")
    assert joint.guarantee.conditions == release.guarantee.conditions
    shown = " ".join(str(joint).split())
    assert f"Only if: {'; '.join(release.guarantee.conditions)}." in shown


def test_individual_privacy_is_not_added_up() -> None:
    release = published(signs.IDPSignRPRR(epsilon=1, neighbours=SALE), RADEMACHER)
    with pytest.raises(TypeError, match="is not differential privacy and does not compose"):
        ss.explain(released(), release, populations="disjoint")
    with pytest.raises(TypeError, match="is not differential privacy and does not compose"):
        ss.explain(release, delta=1e-5)
