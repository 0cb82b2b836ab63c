"""Explanations: true to the release, and able to tell when a release is not."""

import json
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, get_args

import pytest

import streamsketch as ss
from streamsketch.explanation.joint import explain_jointly
from streamsketch.privacy import Budget, Mechanism, Neighbours
from streamsketch.privacy.composition import PrivacyCost, account
from streamsketch.privacy.gaussian import DiscreteGaussian
from streamsketch.privacy.guarantee import Populations
from streamsketch.privacy.mechanism import KeySelection
from streamsketch.privacy.noise import NoiseMoments
from streamsketch.release.checking.noise import NoiseCheck
from streamsketch.release.composition import compose
from streamsketch.release.private_sketch import PrivateSketch
from tests.tampering import tampered

SJLT = ss.SJLT(dim=1 << 40, sketch_dim=64, sparsity=4, seed=7)
SALE = ss.L1(1, unit="sale")
GAUSSIAN: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "mechanism": "gaussian"}


def released(projection: ss.projections.Projection = SJLT, neighbours: Neighbours = SALE, **how: Any) -> PrivateSketch:
    sketch = projection.sketch()
    sketch.update([1, 2], [3, 1])
    return sketch.release(neighbours=neighbours, **{"epsilon": 1.0} | how)


def of_vector(place: str, **how: Any) -> PrivateSketch:
    projection = ss.projections.FJLT(dim=100, sketch_dim=16, seed=1)
    arguments: Any = {"epsilon": 1.0, "neighbours": ss.L1(2), "noise_place": place} | how
    return ss.release.release_vector(projection, [5] * 100, **arguments)


def pan_private(**how: Any) -> PrivateSketch:
    return ss.release.PanPrivateSketch(SJLT, neighbours=ss.L1(3), **{"epsilon": 1.0} | how).release()


SOUND: dict[str, Callable[[], PrivateSketch]] = {
    "Laplace": released,
    "Gaussian": lambda: released(**GAUSSIAN),
    "several keys": lambda: released(neighbours=ss.L1(30, unit="aircraft", max_keys=3)),
    "several keys, Gaussian": lambda: released(neighbours=ss.L1(30, max_keys=3), **GAUSSIAN),
    "one coordinate": lambda: released(SJLT.replace(resolution="1/3"), ss.OneCoordinate("5/2")),
    "tiny epsilon": lambda: released(epsilon=0.001, delta=1e-12, mechanism="gaussian"),
    "large epsilon": lambda: released(epsilon=1000.0),
    "random columns": lambda: released(ss.projections.GaussianProjection(dim=50, sketch_dim=16, seed=1), **GAUSSIAN),
    "input": lambda: of_vector("input"),
    "input, Gaussian": lambda: of_vector("input", **GAUSSIAN),
    "hadamard": lambda: of_vector("hadamard", **GAUSSIAN),
    "pan-private": pan_private,
    "pan-private, Gaussian": lambda: pan_private(**GAUSSIAN),
    "wide noise": lambda: released(epsilon=1e-4, neighbours=ss.L1(10_000)),
    "scaled": lambda: released().scaled("-2/3"),
}


@pytest.mark.parametrize("name", SOUND)
def test_the_noise_of_every_sound_release_is_found_enough(name: str) -> None:
    release = SOUND[name]()
    told = release.explain()
    assert told.check.verdict == "enough", told.check.reason
    assert told.theorems
    assert max(map(len, str(told).splitlines())) <= 80
    json.dumps(told.to_dict())
    smaller = tampered(release, epsilon=release.guarantee.epsilon * 0.99).explain()
    assert smaller.check.verdict == "too little"
    assert "WARNING" in str(smaller)


def test_what_a_guarantee_rests_on_is_told() -> None:
    told = tampered(released(), conditions=["every vector has a norm of at least 5"]).explain()
    assert "Only if    every vector has a norm of at least 5." in str(told)
    assert told.to_dict()["guarantee"]["conditions"] == ["every vector has a norm of at least 5"]
    assert "Only if" not in str(released().explain())
    for populations in ("disjoint", "overlapping"):
        releases = [tampered(released(), conditions=["a holds", name]) for name in ("b holds", "c holds")]
        together = ss.explain(*releases, populations=populations)
        assert "Only if: a holds; b holds; c holds." in " ".join(str(together).split())
        assert "Only if" not in str(ss.explain(released(), released(), populations=populations))


def test_noise_beside_a_share_for_the_keys_that_leaves_nothing_is_too_little() -> None:
    noise = released().guarantee.mechanism
    for share in (Budget(1.0, 1e-7), Budget(0.5, 0.1)):
        told = tampered(released(), mechanism=Mechanism([*noise.steps, KeySelection(share)])).explain()
        assert (told.check.verdict, "nothing is left for noise" in told.check.reason) == ("too little", True)
    twice = Mechanism([*noise.steps, *[KeySelection(Budget(0.1, 1e-9))] * 2])
    assert tampered(released(), mechanism=twice).explain().check.verdict == "not checked"


@pytest.mark.parametrize("name", SOUND)
def test_a_mechanism_in_text_only_is_told_and_not_checked(name: str) -> None:
    release = SOUND[name]()
    told = tampered(release, mechanism=str(release.guarantee.mechanism)).explain()
    assert told.check == NoiseCheck("not checked", "its mechanism is stated only as text")
    assert str(told.guarantee) == str(release.guarantee)
    assert "none that its text names" not in str(told)


def test_the_theorems_are_those_of_the_place_of_the_noise() -> None:
    words = {"Laplace": None, "input": "Lemma 8", "input, Gaussian": "Lemma 8", "hadamard": "Note 7"}
    for name, theorem in words.items():
        said = " ".join(str(SOUND[name]().explain()).split())
        assert [one for one in ("Lemma 8", "Note 7") if one in said] == [one for one in (theorem,) if one], name


def test_noise_at_another_place_than_stated_is_found_out() -> None:
    release = of_vector("input")
    noise = release.guarantee.mechanism.noises[0].noise
    told = tampered(release, mechanism=Mechanism.of_noise(noise)).explain()
    assert (told.check.verdict, "adds noise to the output" in told.check.reason) == ("too little", True)


def test_noise_that_is_not_what_the_mechanism_says_is_found_out() -> None:
    release = released()
    told = tampered(release, noise=NoiseMoments(release.noise.k2 / 4, release.noise.k4 / 16)).explain()
    assert told.check.verdict == "too little"
    assert "another noise than the discrete Laplace, scale 4" in told.check.reason
    assert f"cumulants are {release.noise.k2 / 4:.6g} and" in told.check.reason
    assert f"those of that noise {release.noise.k2:.6g} and" in told.check.reason
    gaussian = tampered(released(**GAUSSIAN), delta=1e-9)
    assert gaussian.explain().check.verdict == "too little"


def test_a_choice_of_keys_takes_its_share() -> None:
    near = ss.L1(30, unit="aircraft", max_keys=2)
    plain = released(neighbours=near, epsilon=0.75)
    share = Budget(0.25, 1e-9)
    choice = ss.Guarantee.of(share, near, Mechanism([KeySelection(share)]))
    guarantee = ss.compose([plain.guarantee, choice], populations="overlapping")
    told = tampered(plain, **{name: getattr(guarantee, name) for name in ("epsilon", "delta", "mechanism")}).explain()
    assert told.check.verdict == "enough", told.check.reason
    assert "less 0.25 for the keys" in told.check.reason
    assert "Korolova" in " ".join(told.theorems)
    assert "chosen privately, with ε = 0.25, δ = 1e-09" in " ".join(told.mechanism)
    assert not any("which key" in said for said in told.not_protected)
    assert "in each of at most 2 keys; the guarantee covers the releases of all keys together" in told.who
    greedy = tampered(plain, epsilon=0.9, delta=1e-9, mechanism=guarantee.mechanism)
    assert greedy.explain().check.verdict == "too little"


@pytest.mark.parametrize("noise", [GAUSSIAN, {"epsilon": 1.0, "mechanism": "laplace"}], ids=["gaussian", "laplace"])
@pytest.mark.parametrize("share", [Budget(0.1, 1e-9), Budget(1.0, 1e-7), Budget(3.0, 1e-6)])
@pytest.mark.parametrize("count", [2, 5])
def test_choices_of_keys_are_accounted_for_in_every_sum(noise: dict[str, Any], share: Budget, count: int) -> None:
    """Tighter accounting never falls below what the choices alone spend, nor below what the noises alone do."""
    plain = [released(**noise) for _ in range(count)]
    step = KeySelection(share)
    chosen = [
        tampered(
            one,
            epsilon=one.guarantee.epsilon + share.epsilon,
            delta=one.guarantee.delta + share.delta,
            mechanism=Mechanism([*one.guarantee.mechanism.steps, step]),
        )
        for one in plain
    ]
    assert {one.explain().check.verdict for one in chosen} == {"enough"}
    for some in (chosen, [chosen[0], *plain[1:]]):
        joint = explain_jointly(some)
        spent = min(part.epsilon for part in (joint.guarantee, joint.finer) if part is not None)
        choices = [PrivacyCost(share.epsilon, share.delta)] * sum(one in chosen for one in some)
        choices_alone = account(choices, joint.delta)
        noises_alone = explain_jointly(plain, delta=joint.delta).finer
        for least in (choices_alone, noises_alone):
            assert least is None or spent >= least.epsilon


def test_merged_and_scaled_releases_say_so() -> None:
    merged = released().combine(released(), populations="overlapping").scaled(Fraction(1, 2))
    told = merged.explain()
    assert told.check.verdict == "enough"
    assert "2 releases were added or subtracted; the stated ε and δ are the sums of theirs" in " ".join(told.mechanism)
    assert "The cells count 1/2 times" in " ".join(told.mechanism)
    assert told.noise_deviation == pytest.approx(released().explain().noise_deviation / math.sqrt(2))


def test_a_large_random_map_is_not_read_through() -> None:
    projection = ss.projections.VerySparse(dim=1 << 24, sketch_dim=64, sparsity=8, seed=1)
    one = released()
    foreign = PrivateSketch(projection, one.values, one.noise, one.guarantee, release_ids=one.release_ids)
    assert foreign.explain().check.verdict == "not checked"


def test_bounds_and_noises_that_no_calibration_meets_are_not_judged() -> None:
    fine = released(neighbours=ss.L1("1/2"), projection=SJLT.replace(resolution="1/2"))
    coarse = PrivateSketch(SJLT, fine.values, fine.noise, fine.guarantee, release_ids=fine.release_ids)
    assert coarse.explain().check.verdict == "not checked"
    assert "below one grid step" in str(coarse.explain())
    narrow = DiscreteGaussian(Fraction(2))
    told = tampered(released(), noise=narrow.cumulants, mechanism=Mechanism.of_noise(narrow), delta=0.5).explain()
    assert (told.check.verdict, told.check.sigma) == ("not checked", None)


def test_the_noise_of_distances_is_what_mechanisms_predict() -> None:
    told = released(**GAUSSIAN).explain()
    options = ss.accounting.mechanisms(SJLT, epsilon=1.0, delta=1e-6, neighbours=SALE)
    (predicted,) = [option.variance for option in options if option.mechanism == "gaussian"]
    assert told.distances[0].value == 0.0
    assert told.distances[0].noise_variance == pytest.approx(predicted)
    estimate = ss.squared_distance(released(**GAUSSIAN), released(**GAUSSIAN))
    slope = (told.distances[1].noise_variance - told.distances[0].noise_variance) / told.distances[1].value
    assert estimate.noise_variance == pytest.approx(predicted + slope * max(estimate.value, 0.0))


def test_what_a_test_could_find_out_is_bounded() -> None:
    assert "in more than 13.6 % of cases" in released().explain().meaning  # e · 5 %
    assert "in more than 5.02 % of cases" in released(epsilon=0.002).explain().meaning  # 5.01001, rounded up
    assert "in more than 37 % of cases" in released(epsilon=2.0).explain().meaning  # 36.945
    assert "in more than 99.99" in released(epsilon=12.0).explain().meaning
    assert "in more than 100 % of cases" in released(epsilon=1000.0).explain().meaning


def test_releases_made_alike_have_equal_explanations() -> None:
    assert released().explain() == released().explain()
    assert len({released().explain(), released().explain(), released(**GAUSSIAN).explain()}) == 2


@pytest.mark.parametrize(
    "text", ["by magic", "discrete Laplace, scale 1/0", "discrete Gaussian, variance 0", "discrete Laplace, scale -4"]
)
def test_a_strangers_text_is_told_and_not_trusted(text: str) -> None:
    told = tampered(released(), mechanism=text).explain()
    assert told.check.verdict == "not checked"
    assert text in str(told).replace("\n           ", " ")


# --- together -------------------------------------------------------------------------------------------------


def test_gaussian_releases_together_take_far_less_than_their_sum() -> None:
    parts = [released(**GAUSSIAN) for _ in range(10)]
    joint = ss.explain(*parts, populations="overlapping", delta=2e-5)
    assert joint.guarantee == compose([part.guarantee for part in parts], populations="overlapping")
    assert joint.finer is not None
    assert joint.finer.epsilon < 3.5
    assert joint.finer.delta == 2e-5
    assert "by the closed form for Gaussian noise" in " ".join(str(joint).split())
    json.dumps(joint.to_dict())


def test_a_release_that_guarantees_too_much_spoils_the_sum() -> None:
    joint = ss.explain(released(), tampered(released(), epsilon=0.5), populations="overlapping")
    assert "WARNING: 1 of them state too little noise" in " ".join(str(joint).split())


def test_sums_are_rounded_up() -> None:
    parts = [released(epsilon=0.7000001), released(epsilon=0.3)]
    joint = ss.explain(*parts, populations="overlapping")
    assert "add up to ε = 1.00001, δ = 0 (" in " ".join(str(joint).split())
    tenths = ss.explain(released(epsilon=0.1), released(epsilon=0.2), populations="overlapping")
    assert "add up to ε = 0.3, δ = 0 (" in " ".join(str(tenths).split())
    (alone,) = [released(epsilon=1.0, delta=1.0000001e-6, mechanism="gaussian")]
    told = explain_jointly([alone], populations="disjoint")
    assert "ε = 1, δ = 1.00001e-06 (parallel composition)" in " ".join(str(told).split())


def test_disjoint_releases_keep_the_largest_guarantee() -> None:
    joint = ss.explain(released(), released(epsilon=2.0), populations="disjoint")
    assert (joint.guarantee.epsilon, joint.finer) == (2.0, None)


def test_copies_and_parts_of_a_merge_spend_nothing_more() -> None:
    first, second = released(), released()
    merged = first.combine(second, populations="overlapping")
    for given in ([first, second, merged], [merged, merged.scaled(3)], [first, second, first]):
        joint = ss.explain(*given, populations="overlapping")
        assert joint.guarantee.epsilon == 2.0
        assert len(joint.each) == len(given)
    # a guarantee for disjoint streams does not cover both parts, where people may be in both
    thin = first.combine(second, populations="disjoint")
    assert ss.explain(thin, first, second, populations="overlapping").guarantee.epsilon == 2.0
    assert ss.explain(thin, first, populations="overlapping").guarantee.epsilon == 2.0  # of 1 and 1
    large = released(epsilon=2.0)
    thin = large.combine(first, populations="disjoint")
    assert ss.explain(thin, large, first, populations="overlapping").guarantee.epsilon == 3.0
    assert ss.explain(thin, large, populations="overlapping").guarantee.epsilon == 4.0
    # the part that is missing is the difference of the others, so leaving it out buys nothing
    assert ss.explain(thin, first, populations="overlapping").guarantee.epsilon == 3.0
    assert ss.explain(merged, first, populations="overlapping").guarantee.epsilon == 3.0
    assert ss.explain(thin, large, first, populations="disjoint").guarantee.epsilon == 2.0
    tenths = [released(epsilon=epsilon) for epsilon in (0.1, 0.2, 0.3)]
    merged = tenths[0].combine(tenths[1], populations="overlapping").combine(tenths[2], populations="overlapping")
    assert ss.explain(*tenths, merged, populations="overlapping").guarantee == merged.guarantee


def test_what_can_be_computed_from_the_others_spends_nothing_more() -> None:
    one, two, three, four = (released(epsilon=epsilon) for epsilon in (1.0, 2.0, 4.0, 8.0))

    def spent(*given: PrivateSketch) -> float:
        both = [ss.explain(*order, populations="overlapping") for order in (given, given[::-1])]
        assert both[0].guarantee.epsilon == both[1].guarantee.epsilon
        return both[0].guarantee.epsilon

    for populations in get_args(Populations):
        week = one.combine(two, populations=populations)
        late = two.combine(three, populations=populations)
        month = week.combine(three, populations=populations)
        assert spent(week, three, month) == week.guarantee.epsilon + 4
        assert spent(one, two, three, week, late, month) == 7
        assert spent(one, two, week, four) == 11
        # the three windows give all three days away, though their last is the union of the first two
        assert spent(week, late, month) == sum(each.guarantee.epsilon for each in (week, late, month))
    assert spent(one, one.scaled(5), four) == 9
    thin, wide = (one.combine(two, populations=populations) for populations in get_args(Populations))
    assert spent(thin, wide) == 3
    forged = PrivateSketch(
        thin.projection, thin.values, thin.noise, released(epsilon=0.25).guarantee, release_ids=thin.release_ids
    )
    assert spent(forged, one, two) == 3


def test_together_mistakes_are_refused() -> None:
    with pytest.raises(TypeError, match="only releases can be explained, got a Sketch"):
        ss.explain(SJLT.sketch())  # type: ignore[call-overload]
    with pytest.raises(ss.InvalidInputError, match="no guarantee"):
        ss.explain(populations="overlapping")  # type: ignore[call-overload]
    with pytest.raises(ss.InvalidInputError, match="one neighbour relation"):
        ss.explain(released(), released(neighbours=ss.L1(2)), populations="overlapping")
    with pytest.raises(ss.InvalidInputError, match="at least the sum that the releases spend"):
        ss.explain(*[released(**GAUSSIAN)] * 2, populations="overlapping", delta=1e-9)


def test_releases_of_the_same_data_are_told_and_not_disjoint() -> None:
    sketch = SJLT.sketch()
    one, two = (sketch.release(epsilon=1.0, neighbours=SALE) for _ in range(2))
    joint = ss.explain(one, released(), two, populations="overlapping")
    assert joint.sharing == ((0, 2),)
    assert joint.to_dict()["sharing"] == [[0, 2]]
    assert "The releases 1 and 3 share data, so their populations are not disjoint." in " ".join(str(joint).split())
    with pytest.raises(ss.InvalidInputError, match="releases 1 and 3 of 3 share data"):
        ss.explain(one, released(), two, populations="disjoint")
    other = released()
    both = one.combine(other, populations="disjoint")
    assert ss.explain(one, one, other, both, populations="disjoint").sharing == ()


def test_sums_say_how_many_of_them_were_checked() -> None:
    unknown = tampered(released(), mechanism="a mechanism that no check knows")
    joint = ss.explain(released(), unknown, populations="overlapping")
    assert joint.to_dict()["checks"] == {"enough": 1, "too little": 0, "not checked": 1}
    assert "The noise of 1 of them was not checked: this holds only if it is enough." in " ".join(str(joint).split())
    assert "not checked" not in str(ss.explain(released(), released(), populations="overlapping"))


def test_what_estimates_assume_is_told() -> None:
    for projection, few in (
        (SJLT, False),
        (ss.CountSketch(dim=1000, sketch_dim=64, seed=1), True),
        (ss.projections.OPORP(dim=1000, sketch_dim=50, seed=1), True),
        (SJLT.replace(sparsity=1), True),
        (ss.projections.VerySparse(dim=100, sketch_dim=64, sparsity=1, seed=1), False),
    ):
        told = released(projection).explain()
        assert "assume that no cell's exact sum, including noise, exceeded 63 bits" in " ".join(str(told).split())
        assert any("If a difference comes from few items" in said for said in told.assumed) == few
        assert told.to_dict()["assumed"] == told.assumed


def test_a_weekly_sum_says_what_seven_days_cost() -> None:
    days = [SJLT.sketch().release(epsilon=0.5, neighbours=ss.L1(1, unit="trip")) for _ in range(7)]
    week, every = days[0], days[0]
    for day in days[1:]:
        week, every = week.combine(day, populations="disjoint"), every.combine(day, populations="overlapping")
    assert "A person with one trip in each of the 7 spends up to ε = 3.5, δ = 0 in all." in week.explain().mechanism
    assert not any("Whoever" in sentence for sentence in every.explain().mechanism), "there it is the guarantee"


def test_l1_is_the_sum_of_absolute_values_not_the_absolute_value_of_the_sum() -> None:
    release = SJLT.sketch().release(epsilon=0.5, neighbours=ss.L1("3/2", unit="trip"))
    assert release.explain().who == (
        "one trip: adding or removing it changes the data by updates whose absolute values sum to at most 3/2; "
        "nothing was clipped to that bound: the releaser asserts that it holds"
    )


def test_it_says_whether_the_bound_was_enforced() -> None:
    bought = (["tea"], [80995], ["Ann"])
    near = ss.L1(5, unit="customer")
    hashed = ss.SJLT(sketch_dim=64, sparsity=4, seed=7)
    bounded = ss.bounding.bound_units([(None, *bought)], hashed, neighbours=near).sketch_of("")
    released = bounded.release(epsilon=0.5, neighbours=near)
    assert released.explain().who.endswith("at most 5; each contribution was clipped to that bound")
    assert not any("beyond the bound" in said for said in released.explain().not_protected)
    older = PrivateSketch.from_bytes(tampered(released, basis=None).to_bytes())
    assert older.explain().who.endswith("the release does not say whether that bound was enforced or is asserted")
