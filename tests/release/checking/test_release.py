"""What a release states of its noise: sums part by part, made-up ids, and cells that hold less than is stated."""

import dataclasses
import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.errors import NoiseMismatchWarning
from streamsketch.estimation import normalised_inner_product
from streamsketch.privacy import Mechanism
from streamsketch.privacy.noise import NoiseMoments
from streamsketch.projections.explicit import RandomNorms
from streamsketch.release.checking import release as checking
from streamsketch.release.checking.release import check_release, composition_of
from streamsketch.release.noise_parts import NoisePart
from streamsketch.release.private_sketch import PrivateSketch
from tests.tampering import tampered

SJLT = ss.SJLT(dim=1 << 40, sketch_dim=64, sparsity=4, seed=7)
GAUSSIAN: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "mechanism": "gaussian"}


def released(epsilon: float = 1.0, **how: Any) -> PrivateSketch:
    sketch = SJLT.sketch()
    sketch.update([1, 2], [3, 1])
    return sketch.release(**{"epsilon": epsilon, "neighbours": ss.L1(1)} | how)


def merged(populations: Any = "overlapping") -> PrivateSketch:
    """Return a sum of a Laplace, a Gaussian and a pan-private release, with multipliers 4, 1 and -2."""
    parts = (
        released().scaled(4),
        released(**GAUSSIAN),
        ss.release.PanPrivateSketch(SJLT, epsilon=2, neighbours=ss.L1(1)).release(),
    )
    return parts[0].combine(parts[1], populations=populations).subtract(parts[2].scaled(2), populations=populations)


def changed(release: PrivateSketch, **changes: Any) -> PrivateSketch:
    """Return a release with other fields than it has."""
    fields = {
        "noise_place": release.noise_place,
        "multiplier": release.multiplier,
        "release_ids": release.release_ids,
        "parts": release.parts,
    } | changes
    values, noise, guarantee = (fields.pop(name, getattr(release, name)) for name in ("values", "noise", "guarantee"))
    return PrivateSketch(release.projection, values, noise, guarantee, **fields)


# --- sums ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sum_of",
    [
        merged,
        lambda: merged("disjoint"),
        lambda: merged().scaled("-3/7"),
        lambda: released().combine(released(), populations="disjoint").scaled(Fraction(1, 2)),
        lambda: merged().combine(merged(), populations="disjoint"),
        lambda: PrivateSketch.from_bytes(merged().to_bytes()),
    ],
)
def test_sums_are_checked_part_by_part(sum_of: Callable[[], PrivateSketch]) -> None:
    check = check_release(sum_of())
    assert check.verdict == "enough", check.reason


def test_a_sum_says_which_composition_it_is() -> None:
    mixed = merged("disjoint").combine(merged(), populations="overlapping")
    for release, composition, said in (
        (merged(), "overlapping", "the sums of theirs, which holds for overlapping populations"),
        (merged("disjoint"), "disjoint", "the largest of theirs, which holds for disjoint populations only"),
        (mixed, "mixed", "between the largest and the sums of theirs"),
    ):
        told = release.explain()
        assert told.composition == told.to_dict()["composition"] == composition
        assert said in " ".join(told.mechanism)
        assert [part["guarantee"]["epsilon"] for part in told.to_dict()["parts"]]
    assert released().explain().composition is None


def replaced(release: PrivateSketch, place: int, **changes: Any) -> list[NoisePart]:
    """Return the parts of a release with one of them changed, its guarantee by field names."""
    guarantee = {
        name: changes.pop(name) for name in list(changes) if name in ("epsilon", "neighbours", "conditions", "basis")
    }
    parts = list(release.parts)
    part = parts[place]
    parts[place] = dataclasses.replace(part, guarantee=dataclasses.replace(part.guarantee, **guarantee), **changes)
    return parts


@pytest.mark.parametrize(
    ("forged", "reason"),
    [
        (lambda one: changed(one, noise=one.noise.scaled(0.5)), "those of the releases inside add up to"),
        (lambda one: changed(one, parts=replaced(one, 0, multiplier=7)), "those of the releases inside add up to"),
        (lambda one: changed(one, parts=replaced(one, 0, epsilon=0.1)), "1 of the 3 releases inside: "),
        (lambda one: changed(one, parts=replaced(one, 0, neighbours=ss.L1(2))), "for other neighbours than the sum"),
        (lambda one: changed(one, parts=replaced(one, 0, conditions=["it rains"])), "under a condition that the sum"),
        (lambda one: changed(one, parts=replaced(one, 0, epsilon=9.0)), "states less ε or δ than a release inside"),
        (lambda one: changed(one, values=np.zeros(64, dtype=np.int64)), "the squared norm of its cells is 0 grid"),
    ],
)
def test_sums_that_contradict_themselves_are_found_out(
    forged: Callable[[PrivateSketch], PrivateSketch], reason: str
) -> None:
    release = merged("disjoint")
    assert check_release(release).verdict == "enough"
    check = check_release(forged(release))
    assert check.verdict == "too little"
    assert reason in check.reason


@pytest.mark.parametrize("stated", ["enforced", None, "asserted"])
@pytest.mark.parametrize("inside", ["enforced", None, "asserted"])
@pytest.mark.parametrize("place", [0, 1])
def test_a_sum_states_no_firmer_bound_than_each_release_inside(stated: Any, inside: Any, place: int) -> None:
    """What is clipped in one part is not clipped in all."""
    release = merged("disjoint")
    parts = [dataclasses.replace(part, guarantee=part.guarantee.on("enforced")) for part in release.parts]
    firm = changed(release, parts=parts, guarantee=dataclasses.replace(release.guarantee, basis=stated))
    assert check_release(firm).verdict == "enough"
    sum_of = changed(firm, parts=replaced(firm, place, basis=inside))
    firmness = ["asserted", None, "enforced"]
    honest = firmness.index(inside) >= firmness.index(stated)
    for one in (sum_of, PrivateSketch.from_bytes(sum_of.to_bytes())):
        check = check_release(one)
        assert check.verdict == ("enough" if honest else "too little")
        assert honest or "rests on less than the sum states" in check.reason


@pytest.mark.parametrize("factor", ["1/1000", "3/2"])
def test_a_part_in_fractions_of_the_steps_is_found_out(factor: str) -> None:
    """A sum of releases multiplies each by whole numbers: a fraction would make its noise vanish beside exact cells."""
    one = released()
    part = NoisePart(one.noise, one.guarantee, Fraction(factor))
    forged = changed(one, noise=one.noise.scaled(float(Fraction(factor))), parts=[part], values=SJLT.sketch().state())
    check = check_release(PrivateSketch.from_bytes(forged.to_bytes()))
    assert check.verdict == "too little"
    assert "not a whole multiple of the sum's" in check.reason


def test_cells_without_noise_are_found_out_in_sums_of_many_parts() -> None:
    total = released()
    for number in range(12):
        total = total.combine(released(1.0 + number / 8), populations="disjoint")
    unknown = total.combine(tampered(released(), mechanism="a mechanism that no check knows"), populations="disjoint")
    for one in (total, unknown):
        assert len(one.parts) > checking.MOST_NOISES
        assert checking.impossible_norm(one) is None
        assert checking.impossible_norm(changed(one, values=SJLT.sketch().state())) == 0


def test_a_part_that_was_not_checked_leaves_the_sum_unchecked() -> None:
    unknown = tampered(released(), mechanism="a mechanism that no check knows")
    check = check_release(released().combine(unknown, populations="overlapping"))
    assert check.verdict == "not checked"
    assert "1 of the 2 releases inside: its mechanism is stated only as text" in check.reason


def test_a_made_up_release_id_does_not_hide_too_little_noise() -> None:
    thin = tampered(released(), noise=NoiseMoments(0.5, 0.1))
    assert check_release(thin).verdict == "too little"
    more = changed(thin, release_ids=[*thin.release_ids, b"made up!"])
    assert check_release(more).verdict == "too little"
    assert (
        "2 releases by discrete Laplace, scale 4 have a noise of variance 63.67 at least" in check_release(more).reason
    )
    for unread in (thin, released()):
        text = dataclasses.replace(unread.guarantee, mechanism=Mechanism.stated("several mechanisms"))
        more = changed(unread, guarantee=text, release_ids=[*unread.release_ids, b"made up!"])
        assert check_release(more).verdict == "not checked"
    greedy = dataclasses.replace(released().guarantee, epsilon=0.5)
    two = released().combine(released(), populations="disjoint")
    assert check_release(changed(two, parts=[])).verdict == "not checked"
    assert check_release(changed(two, parts=[], guarantee=greedy)).verdict == "too little"


def test_composition_is_judged_by_both_epsilon_and_delta() -> None:
    near = ss.L1(1)
    parts = [NoisePart(NoiseMoments(1.0), ss.Guarantee(1.0, 1e-6, near, Mechanism.stated("a")), count=3)]
    for epsilon, delta, composition in (
        (3.0, 3e-6, "overlapping"),
        (3.0, 1e-6, "mixed"),
        (1.0, 1e-6, "disjoint"),
        (1.0, 3e-6, "mixed"),
        (0.9, 3e-6, None),
        (3.0, 0.9e-6, None),
    ):
        assert composition_of(ss.Guarantee(epsilon, delta, near, Mechanism.stated("b")), parts) == composition


# --- warnings -----------------------------------------------------------------------------------------------------

ESTIMATES: dict[str, Callable[[PrivateSketch, PrivateSketch], object]] = {
    "squared_distance": ss.squared_distance,
    "squared_norm": lambda x, _: ss.squared_norm(x),
    "inner_product": ss.inner_product,
    "cosine": ss.cosine,
    "normalised_inner_product": normalised_inner_product,
    "pairwise": lambda x, y: ss.pairwise([x, y]),
}


def large(count: int) -> PrivateSketch:
    sketch = SJLT.sketch()
    sketch.update(count, 100_000)
    return sketch.release(epsilon=1.0, neighbours=ss.L1(1))


@pytest.mark.parametrize("name", ESTIMATES)
def test_estimates_warn_of_noise_that_is_not_what_a_release_states(name: str) -> None:
    sound, other = large(1), large(2)
    ESTIMATES[name](sound, other)  # warnings are errors here
    thin = tampered(sound, noise=NoiseMoments(1.0, 1.0))
    with pytest.warns(NoiseMismatchWarning, match=sound.release_ids[0].hex()) as caught:
        ESTIMATES[name](thin, other)
    assert len(caught) == 1
    assert caught[0].filename == __file__, "it points at the line that asked"


def test_cells_without_noise_are_warned_of() -> None:
    one = released()
    empty = changed(one, values=SJLT.sketch().state())
    with pytest.warns(NoiseMismatchWarning, match="the squared norm of its cells is 0 grid steps²"):
        ss.squared_norm(empty)
    assert empty.explain().check.verdict == "too little"


def test_large_random_maps_are_not_read_for_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: RandomNorms) -> None:
        raise AssertionError("the matrix was read")

    monkeypatch.setattr(RandomNorms, "column_norms", refuse)
    one = released()
    for dim in (1 << 24, 1 << 17):  # the smaller one an explanation would read
        projection = ss.projections.VerySparse(dim=dim, sketch_dim=64, sparsity=8, seed=1)
        release = PrivateSketch(projection, one.values, one.noise, one.guarantee, release_ids=one.release_ids)
        ss.squared_norm(release)


def test_what_releases_state_is_checked_once_for_all_that_state_it(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    plain = checking.check_noise
    monkeypatch.setattr(checking, "check_noise", lambda *given, **how: calls.append(given) or plain(*given, **how))
    near = ss.L1(1, unit="a unit of this test")
    alike = [released(neighbours=near) for _ in range(30)]
    ss.pairwise(alike)
    ss.squared_distance(*alike[:2])
    assert len(calls) == 1


def test_warnings_can_be_made_errors() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", NoiseMismatchWarning)
        with pytest.raises(NoiseMismatchWarning, match=r"more than the stated ε = 0\.5"):
            ss.squared_norm(tampered(released(), epsilon=0.5))


def test_signs_with_too_few_flips_are_warned_of() -> None:
    projection = ss.projections.OPORP(dim=256, sketch_dim=64, seed=3)
    publish = ss.signs.DPSignOPORPRR(epsilon=2, neighbours=ss.OneCoordinate(1))
    x, y = (publish.release(projection.sketch()) for _ in range(2))
    ss.signs.angle(x, y)
    greedy = dataclasses.replace(x.guarantee, epsilon=1.0)
    forged = ss.signs.SignSketch(projection, x.packed, x.law, greedy, release_id=x.release_id)
    for estimate in (ss.signs.angle, ss.signs.cosine):
        with pytest.warns(NoiseMismatchWarning, match=f"release {x.release_id.hex()} states too little"):
            estimate(forged, y)
    assert ss.signs.hamming_distance(forged, y) >= 0  # no error bars, nothing to warn of
