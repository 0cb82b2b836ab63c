"""What a release guarantees: neighbours, guarantees and how they add up."""

import dataclasses
import itertools
import json
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamsketch as ss
from streamsketch import L1, SJLT, Guarantee, InvalidInputError, OneCoordinate, compose
from streamsketch.accounting.sensitivity import sensitivity_of
from streamsketch.privacy import Budget, Mechanism, Neighbours
from streamsketch.privacy.gaussian import DiscreteGaussian
from streamsketch.privacy.individual import IndividualGuarantee
from streamsketch.privacy.laplace import DiscreteLaplace
from streamsketch.privacy.layout import Layout
from streamsketch.privacy.mechanism import AddedNoise, FlippedSigns, KeySelection, Shares, StatedInText
from streamsketch.privacy.neighbours import NEIGHBOURS
from streamsketch.privacy.sign_flips import FlipLaw, Shape

RELATIONS = (L1, OneCoordinate)
HOSTILE = ["", "a\nb", "\x1b[31mred", "tab\there", "nul\0", "right\u202eleft", "\x7f", "zero\u200bwidth", "x" * 201]


def laplace(epsilon: float = 1.0, delta: float = 0.0, neighbours: Neighbours = L1(1)) -> Guarantee:  # noqa: B008
    return Guarantee(epsilon, delta, neighbours, Mechanism.stated("discrete Laplace, scale 4"))


# --- neighbours -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bound", "resolution", "l1", "one_coordinate"),
    [
        (1, 1, 1, 1),
        (3, 1, 3, 3),
        ("5/2", 1, 2, 3),
        ("1/2", "1/4", 2, 2),
        ("0.35", "0.1", 3, 4),
        (1, "1/3", 3, 3),
        (1, "2/3", 1, 2),
        (0.3, 0.1, 3, 3),  # floats are read as the decimals they print as
        (Decimal("0.7"), "0.1", 7, 7),
        (10**30, "1/1000", 10**33, 10**33),
    ],
)
def test_grid_steps_round_down_for_sums_and_up_for_one_coordinate(
    bound: int, resolution: int, l1: int, one_coordinate: int
) -> None:
    grid = Fraction(str(resolution))
    assert L1(bound).grid_steps(grid) == l1
    assert OneCoordinate(bound).grid_steps(grid) == one_coordinate


@given(st.fractions(min_value="1/50", max_value=3, max_denominator=60), st.lists(st.fractions(-3, 3), max_size=8))
def test_no_updates_within_the_bound_move_the_grid_further_than_the_l1_steps(
    resolution: Fraction, updates: list[Fraction]
) -> None:
    spent = sum((abs(update) for update in updates), Fraction(0)) or Fraction(1)
    moved = sum(abs(int(update / resolution)) for update in updates)
    if spent >= resolution:
        assert moved <= L1(spent).grid_steps(resolution)
    else:
        assert moved == 0


@given(
    st.fractions(min_value="1/50", max_value=3, max_denominator=60),
    st.fractions(-3, 3, max_denominator=1000),
    st.fractions(-3, 3, max_denominator=1000),
)
def test_no_two_values_within_the_bound_lie_further_apart_on_the_grid_than_the_coordinate_steps(
    resolution: Fraction, one: Fraction, other: Fraction
) -> None:
    moved = abs(int(one / resolution) - int(other / resolution))
    if one != other:
        assert moved <= OneCoordinate(abs(one - other)).grid_steps(resolution)


def test_the_largest_moves_of_the_grid_are_reached() -> None:
    grid = Fraction(2, 5)
    assert sum(int(Fraction(2, 5) / grid) for _ in range(3)) == L1("1.3").grid_steps(grid)
    assert int(Fraction("0.8") / grid) - int(Fraction("0.3") / grid) == OneCoordinate("0.5").grid_steps(grid)


def test_a_bound_below_one_grid_step_is_refused_for_sums() -> None:
    with pytest.raises(InvalidInputError, match=r"the bound 1/4 is below one grid step of 1/3.*finer resolution"):
        L1("1/4").grid_steps(Fraction(1, 3))
    assert OneCoordinate("1/4").grid_steps(Fraction(1, 3)) == 1  # there a value can still cross a grid line


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("bound", [0, -1, "-1/2", 0.0])
def test_a_bound_that_is_not_positive_is_refused(relation: type[Neighbours], bound: float) -> None:
    with pytest.raises(InvalidInputError, match="must be positive"):
        relation(bound)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("bound", [math.nan, math.inf, None, True, "one", "1e9999999999", [1], Decimal("nan")])
def test_a_bound_that_is_no_finite_number_is_refused(relation: type[Neighbours], bound: float) -> None:
    with pytest.raises(InvalidInputError, match="the bound of a neighbour relation must be a finite number"):
        relation(bound)


@pytest.mark.parametrize("relation", RELATIONS)
def test_neighbours_are_equal_by_relation_bound_and_unit(relation: type[Neighbours]) -> None:
    assert relation(1) == relation(1.0) == relation("1/1") == relation(np.int64(1))  # type: ignore[arg-type]
    assert hash(relation(0.5)) == hash(relation("1/2"))
    assert relation(1) != relation(2)
    assert relation(1, unit="user") != relation(1)
    assert L1(1) != OneCoordinate(1)


@pytest.mark.parametrize("relation", RELATIONS)
def test_neighbours_print_what_makes_them_again_and_cannot_be_changed(relation: type[Neighbours]) -> None:
    neighbours = relation("1/3", unit="flight")
    assert repr(neighbours) == f"{relation.__name__}(1/3, unit='flight')"
    with pytest.raises(dataclasses.FrozenInstanceError):
        neighbours.bound = 5  # type: ignore[misc]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("text", [*HOSTILE, b"event", None, 7])
def test_a_unit_no_terminal_should_see_is_refused(relation: type[Neighbours], text: str) -> None:
    with pytest.raises(InvalidInputError, match="the privacy unit must be 1 to 200 printable") as refused:
        relation(1, unit=text)
    assert str(refused.value).isprintable()


def test_a_unit_may_be_written_in_any_script() -> None:
    assert L1(1, unit="бронирование 予約").unit == "бронирование 予約"
    assert len(L1(1, unit="u" * 200).unit) == 200


# --- guarantees -----------------------------------------------------------------------------------------------


def test_a_guarantee_prints_all_it_guarantees() -> None:
    assert (
        str(laplace(0.5, 1e-9, L1("3/2", unit="user")))
        == "ε = 0.5, δ = 1e-09 for one user of at most 3/2 (L1), by discrete Laplace, scale 4"
    )
    assert (
        str(Guarantee(2, 0, OneCoordinate(1), Mechanism.stated("magic")))
        == "ε = 2, δ = 0 for one event of at most 1 (one coordinate), by magic"
    )


def test_a_guarantee_keeps_floats_and_cannot_be_changed() -> None:
    guarantee = Guarantee(1, 0, L1(1), Mechanism.stated("magic"))
    assert isinstance(guarantee.epsilon, float)
    assert isinstance(guarantee.delta, float)
    assert guarantee == Guarantee(1.0, 0.0, L1(1), Mechanism.stated("magic"))
    with pytest.raises(dataclasses.FrozenInstanceError):
        guarantee.epsilon = 0.1  # type: ignore[misc]


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, "1", None])
def test_a_guarantee_without_a_finite_positive_epsilon_is_refused(epsilon: float) -> None:
    with pytest.raises(InvalidInputError, match="epsilon"):
        laplace(epsilon)


@pytest.mark.parametrize("delta", [-0.1, 1, 1.5, math.nan, "0", None, 1 - Fraction(1, 10**20)])
def test_a_guarantee_with_a_delta_outside_zero_to_one_is_refused(delta: float) -> None:
    with pytest.raises(InvalidInputError, match="delta"):
        laplace(1.0, delta)


@pytest.mark.parametrize("text", [*HOSTILE, b"magic", None])
def test_a_mechanism_no_terminal_should_see_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="the mechanism must be 1 to 200 printable") as refused:
        Mechanism.stated(text)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 150


# --- composition ----------------------------------------------------------------------------------------------


def test_disjoint_populations_have_the_worst_guarantee() -> None:
    parts = [laplace(1.0, 1e-9), laplace(3.0), laplace(2.0, 1e-6)]
    for order in itertools.permutations(parts):
        total = compose(order, populations="disjoint")
        assert (total.epsilon, total.delta, total.neighbours) == (3.0, 1e-6, L1(1))


def test_overlapping_populations_add_up() -> None:
    parts = [laplace(1.0, 1e-9), laplace(3.0), laplace(2.0, 1e-6)]
    for order in itertools.permutations(parts):
        total = compose(order, populations="overlapping")
        assert (total.epsilon, total.delta) == (6.0, pytest.approx(1.001e-6, rel=1e-15))


def test_one_guarantee_composes_to_itself() -> None:
    one = laplace(0.3, 1e-7, OneCoordinate(5, unit="user"))
    assert compose([one], populations="disjoint") == one
    assert compose(iter([one]), populations="overlapping") == one


@pytest.mark.parametrize("other", [L1(2), L1(1, unit="user"), OneCoordinate(1)], ids=["bound", "unit", "relation"])
def test_guarantees_for_different_neighbours_do_not_compose(other: Neighbours) -> None:
    for populations in ("disjoint", "overlapping"):
        with pytest.raises(InvalidInputError, match="one neighbour relation, got L1") as refused:
            compose([laplace(), laplace(), laplace(neighbours=other)], populations=populations)  # type: ignore[arg-type]
        assert repr(other) in str(refused.value)
        assert "Release all streams for the same neighbours" in str(refused.value)


def test_no_guarantee_at_all_does_not_compose() -> None:
    with pytest.raises(InvalidInputError, match="at least one"):
        compose([], populations="disjoint")


@pytest.mark.parametrize("word", ["Disjoint", "", "both", None, True])
def test_the_populations_must_be_said_in_one_of_two_words(word: str) -> None:
    with pytest.raises(InvalidInputError, match=r"'disjoint' .* or 'overlapping'"):
        compose([laplace()], populations=word)  # type: ignore[arg-type]


def test_the_populations_must_be_said_at_all() -> None:
    with pytest.raises(TypeError, match="populations"):
        compose([laplace()])  # type: ignore[call-arg]


def test_deltas_that_add_up_to_one_guarantee_nothing() -> None:
    with pytest.raises(InvalidInputError, match="guarantee nothing"):
        compose([laplace(1.0, 0.5)] * 2, populations="overlapping")
    assert compose([laplace(1.0, 0.5)] * 2, populations="disjoint").delta == 0.5


def test_the_mechanisms_are_named_once_each_until_there_are_too_many() -> None:
    def of(text: str) -> Guarantee:
        return Guarantee(1.0, 0.0, L1(1), Mechanism.stated(text))

    assert compose([of("a"), of("b"), of("a")], populations="disjoint").mechanism == Mechanism.stated("a; b")
    many = compose([of(f"discrete Laplace, scale {i}") for i in range(50)], populations="disjoint")
    assert str(many.mechanism) == "several mechanisms"
    assert str(compose([many, of("a")], populations="disjoint").mechanism) == "several mechanisms; a"


def test_conditions_are_kept_however_many_mechanisms_there_are() -> None:
    def under(i: int) -> Guarantee:
        return Guarantee(1.0, 0.0, L1(1), Mechanism.stated(f"discrete Laplace, scale {i}"), [f"c{i % 3}", "all"])

    parts = [*map(under, range(50)), laplace()]
    for populations in ("disjoint", "overlapping"):
        total = compose(parts, populations=populations)  # type: ignore[arg-type]
        assert str(total.mechanism) == "several mechanisms"
        asserted = ["no event is in two of the streams"] if populations == "disjoint" else []
        assert list(total.conditions) == ["all", "c0", "c1", "c2", *asserted]
        assert str(total).endswith(f"by several mechanisms, only if: {'; '.join(total.conditions)}")
        assert compose([total, laplace()], populations=populations).conditions == total.conditions  # type: ignore[arg-type]
    assert hash(under(1)) == hash(
        Guarantee(1.0, 0.0, L1(1), Mechanism.stated("discrete Laplace, scale 1"), ("all", "c1", "all"))
    )
    assert under(1) != Guarantee(1.0, 0.0, L1(1), Mechanism.stated("discrete Laplace, scale 1"))


def test_conditions_are_refused_rather_than_dropped() -> None:
    parts = [Guarantee(1.0, 0.0, L1(1), Mechanism.stated("m"), [f"c{i}"]) for i in range(65)]
    for populations, most in (("overlapping", 64), ("disjoint", 63)):
        assert len(compose(parts[:most], populations=populations).conditions) == 64
        with pytest.raises(InvalidInputError, match="at most 64 conditions, got 65; none may be dropped"):
            compose(parts[: most + 1], populations=populations)
    for text in HOSTILE:
        with pytest.raises(InvalidInputError, match="a condition must be 1 to 200 printable characters"):
            Guarantee(1.0, 0.0, L1(1), Mechanism.stated("m"), [text])
    with pytest.raises(TypeError, match="put it in a list"):
        Guarantee(1.0, 0.0, L1(1), Mechanism.stated("m"), "no vector is zero")


def test_composing_in_steps_is_composing_at_once() -> None:
    parts = [laplace(0.25 * i, 2.0**-i) for i in range(4, 9)]
    for populations in ("disjoint", "overlapping"):
        at_once = compose(parts, populations=populations)  # type: ignore[arg-type]
        stepwise = parts[0]
        for part in parts[1:]:
            stepwise = compose([stepwise, part], populations=populations)  # type: ignore[arg-type]
        assert stepwise == at_once


def test_a_guarantee_for_several_keys_says_so() -> None:
    neighbours = L1(30, unit="aircraft", max_keys=2)
    assert repr(neighbours) == "L1(30, unit='aircraft', max_keys=2)"
    assert str(Guarantee(1.0, 0.0, neighbours, Mechanism.stated("noise"))) == (
        "ε = 1, δ = 0 for one aircraft of at most 30 in each of at most 2 keys (L1), by noise"
    )
    assert neighbours != L1(30, unit="aircraft")


@pytest.mark.parametrize("max_keys", [0, -1, 1.0, True, "2", 1 << 32])
def test_a_number_of_keys_that_is_none_is_refused(max_keys: object) -> None:
    with pytest.raises(InvalidInputError, match="max_keys must be an integer from 1 to 4294967295, got"):
        L1(1, max_keys=max_keys)  # type: ignore[arg-type]


@pytest.mark.parametrize("relation", [L1, OneCoordinate])
def test_a_unit_in_several_keys_moves_the_table_further(relation: type[Neighbours]) -> None:
    projection = SJLT(dim=100, sketch_dim=8, sparsity=4, seed=1)
    one, four = (sensitivity_of(projection, relation(3, max_keys=keys)) for keys in (1, 4))
    assert (one.l1, one.l2_squared, one.cells, one.moved) == (12, 36, 8, 8)
    assert (four.l1, four.l2_squared, four.cells, four.moved) == (48, 144, 8, 32)


def test_individual_privacy_says_so_and_does_not_compose() -> None:
    guarantee = IndividualGuarantee(1.0, 0.0, OneCoordinate(1), "iDP-SignRP-RR")
    assert "individual differential privacy only (not differential privacy)" in str(guarantee)
    assert repr(guarantee).startswith("IndividualGuarantee(")
    for parts in ([guarantee], [Guarantee(1.0, 0.0, OneCoordinate(1), Mechanism.stated("m")), guarantee]):
        with pytest.raises(TypeError, match="only Guarantee objects compose, got a IndividualGuarantee"):
            compose(parts, populations="disjoint")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="epsilon"):
        IndividualGuarantee(0.0, 0.0, L1(1), "m")


@pytest.mark.parametrize(
    "refused",
    [
        lambda huge: ss.signs.DPSignLogistic(epsilon=huge, neighbours=ss.L1(1)),
        lambda huge: ss.signs.IDPSignRPG(epsilon=1, delta=huge, neighbours=ss.L1(1)),
        lambda huge: ss.signs.DPSignLogistic(epsilon=1, neighbours=ss.L1(huge)),
        lambda huge: FlipLaw("linear", huge),
        lambda huge: ss.signs.nearest([1], [2], huge),
        lambda huge: ss.L1(-huge),
        lambda huge: ss.L1(1, max_keys=huge),
        lambda huge: ss.local.PrivHS(dim=3, epsilon=1).expected_squared_error(-huge),
        lambda huge: ss.local.PrivHS(dim=[huge], epsilon=1),
    ],
)
def test_integers_of_more_digits_than_python_converts_are_refused_with_a_sentence(refused: Any) -> None:
    with pytest.raises(ss.InvalidInputError, match=r"bits|too many digits"):
        refused(10**5000)


# --- as what JSON can hold --------------------------------------------------------------------------------------

texts = st.text("abc äβ-.", min_size=1, max_size=20).filter(str.strip)
budgets = st.builds(Budget, st.floats(1e-6, 1e6), st.floats(0, 0.5))
rates = st.builds(Fraction, st.integers(1, 1 << 20), st.sampled_from([1, 2, 1 << 40]))
noises = st.builds(DiscreteLaplace, st.integers(1, 1 << 20).map(lambda n: Fraction(n, 4))) | st.builds(
    DiscreteGaussian, st.integers(2, 1 << 20).map(lambda n: Fraction(n, 4))
)
steps = st.one_of(
    st.builds(AddedNoise, noises, st.integers(1, 2), st.sampled_from(["output", "input", "hadamard"])),
    st.builds(AddedNoise, noises, shares=st.integers(1, 9).map(lambda honest: Shares(9, honest))),
    st.builds(
        FlippedSigns,
        st.just("DP-SignRP-RR"),
        st.builds(FlipLaw, st.sampled_from(get_args(Shape)), rates),
        st.none() | st.fractions(min_value="1/9", max_value=10**6, max_denominator=99),
    ),
    st.builds(KeySelection, budgets),
    st.builds(StatedInText, texts),
)
guarantees = st.builds(
    Guarantee.of,
    budgets,
    st.builds(lambda kind, *given: kind(*given), st.sampled_from(list(NEIGHBOURS.values())), rates, texts, st.just(3)),
    st.builds(Mechanism, st.lists(steps, min_size=1, max_size=2)),
    st.lists(texts, max_size=3),
    st.sampled_from([None, "enforced", "asserted"]),
)


@given(guarantees)
def test_every_guarantee_survives_json(guarantee: Guarantee) -> None:
    assert Guarantee.from_dict(json.loads(json.dumps(guarantee.to_dict()))) == guarantee


@given(guarantees)
def test_earlier_versions_wrote_no_steps_and_no_basis(guarantee: Guarantee) -> None:
    """Their text stays, which keys noise, and is all that is known."""
    older = json.loads(guarantee.to_json())
    assert "steps" not in older
    found = Guarantee.from_dict(older)
    assert found == dataclasses.replace(guarantee, mechanism=Mechanism.stated(str(guarantee.mechanism)))
    assert found.to_json() == guarantee.to_json()


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 0}, {"epsilon": "1"}, {"delta": 2}, {"relation": "l3"}, {"bound": "2/4"}, {"max_keys": 0},
        {"mechanism": "another text"}, {"conditions": ["b", "a"]}, {"conditions": "a"}, {"basis": "hoped"}, {"more": 1},
        {"steps": []}, {"steps": "x"}, {"steps": [{"text": "x", "more": 1}]}, {"steps": [{"keys": {"epsilon": 1}}]},
        {"steps": [{"noise": "cauchy", "amount": "4", "layers": 1, "place": "output", "shares": None}]},
        {"steps": [{"noise": "laplace", "amount": "8/2", "layers": 1, "place": "output", "shares": None}]},
        {"steps": [{"noise": "laplace", "amount": "1e9999999", "layers": 1, "place": "output", "shares": None}]},
        {"steps": [{"noise": "laplace", "amount": "4", "layers": 1, "place": "output", "shares": {"all": 3}}]},
    ],
)  # fmt: skip
def test_what_no_guarantee_writes_is_refused(change: dict[str, object]) -> None:
    fields = Guarantee(1.0, 0.0, L1(1), Mechanism.of_noise(DiscreteLaplace(Fraction(4)))).to_dict()
    assert Guarantee.from_dict(fields).mechanism.is_record
    with pytest.raises(InvalidInputError):
        Guarantee.from_dict(fields | change)
    with pytest.raises(InvalidInputError):
        Guarantee.from_dict([fields])


@pytest.mark.parametrize(
    ("neighbours", "slack"),
    [(OneCoordinate(1), 0), (ss.L2(1), 0), (ss.SketchL2(1), 0), (ss.SketchL2(1, max_keys=2), 1)],
)
def test_no_guarantee_counts_units_of_neighbours_without_a_proof(neighbours: Neighbours, slack: int) -> None:
    """Whoever reads such bytes is not left with a guarantee that nothing can check."""
    counted = Mechanism.of_noise(DiscreteGaussian(Fraction(9)), layout=Layout(ss.privacy.Counting(3, slack)))
    assert Guarantee(1.0, 1e-6, L1(1), counted).mechanism.layout.counting == ss.privacy.Counting(3, slack)
    with pytest.raises(InvalidInputError, match=r"units are counted|slack is free|any number of keys"):
        Guarantee(1.0, 1e-6, neighbours, counted)
    fields = Guarantee(1.0, 1e-6, L1(1), counted).to_dict()
    with pytest.raises(InvalidInputError):
        Guarantee.from_dict(fields | neighbours.to_dict())


# --- bases together -----------------------------------------------------------------------------------------------

TOGETHER = {  # rows: the one; columns: enforced, asserted, unknown
    "enforced": ("enforced", "asserted", None),
    "asserted": ("asserted", "asserted", "asserted"),
    None: (None, "asserted", None),
}


@pytest.mark.parametrize("populations", ["overlapping", "disjoint"])
def test_the_basis_of_two_is_the_weaker(populations: Any) -> None:
    """A bound is enforced for both if it is for each; asserted if one is, whatever is known of the other."""
    bases: Any = list(TOGETHER)
    alone = Guarantee(1.0, 0.0, L1(1), Mechanism.stated("a mechanism"))
    for one, of_others in TOGETHER.items():
        for other, expected in zip(bases, of_others, strict=True):
            parts = [dataclasses.replace(alone, basis=basis) for basis in (one, other)]  # type: ignore[arg-type]
            for order in (parts, parts[::-1]):
                assert compose(order, populations=populations).basis == expected, (one, other)
            for third in bases:
                three = [*parts, dataclasses.replace(alone, basis=third)]
                weakest = "asserted" if "asserted" in (one, other, third) else None
                weakest = "enforced" if {one, other, third} == {"enforced"} else weakest
                found = {compose(order, populations=populations).basis for order in itertools.permutations(three)}
                assert found == {weakest}, (one, other, third)
