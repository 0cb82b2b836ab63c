"""Mechanisms are records: their text is derived, nothing reads it, and a reworded text changes no verdict."""

import ast
import dataclasses
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import streamsketch as ss
from streamsketch.errors import InvalidInputError
from streamsketch.privacy import Budget, Counting, Mechanism
from streamsketch.privacy.gaussian import DiscreteGaussian
from streamsketch.privacy.laplace import DiscreteLaplace
from streamsketch.privacy.layout import Layout
from streamsketch.privacy.mechanism import AddedNoise, FlippedSigns, KeySelection, Shares, StatedInText
from streamsketch.privacy.sign_flips import FlipLaw
from streamsketch.schedules.factorisation import Factorisation
from streamsketch.schedules.separate import Separate
from streamsketch.schedules.tree import Tree

ROOT = Path(ss.__file__).parent
LAPLACE, GAUSSIAN = DiscreteLaplace(Fraction(9, 4)), DiscreteGaussian(Fraction(25))
LAW = FlipLaw("levels", Fraction(1, 8))
TEXTS: list[tuple[Any, str]] = [
    (AddedNoise(LAPLACE), "discrete Laplace, scale 9/4"),
    (AddedNoise(GAUSSIAN, layers=2), "discrete Gaussian, variance 25, inside and on release"),
    (AddedNoise(LAPLACE, place="input"), "discrete Laplace, scale 9/4, on the input"),
    (AddedNoise(LAPLACE, place="hadamard"), "discrete Laplace, scale 9/4, on what the Hadamard step returns"),
    (FlippedSigns("DP-SignRP-RR-smooth", LAW), "DP-SignRP-RR-smooth, flips with 1/(exp(1/8·⌈|cell|/step⌉) + 1)"),
    (
        FlippedSigns("DP-SignRP-RR", FlipLaw("constant", Fraction(2)), Fraction(61, 2)),
        "DP-SignRP-RR for norms of at least 61/2, flips with 1/(exp(2) + 1)",
    ),
    (KeySelection(Budget(1, 1e-9)), "Laplace threshold for the keys, ε = 1.0, δ = 1e-09"),
    (StatedInText("by magic"), "by magic"),
    (
        AddedNoise(LAPLACE, layout=Layout(schedule=Tree(horizon=365))),
        "discrete Laplace, scale 9/4, over 365 windows (tree of depth 5), a unit in one of them",
    ),
    (
        AddedNoise(GAUSSIAN, layout=Layout(Counting(9), Factorisation(horizon=52, max_windows=4, gap=7))),
        (
            "discrete Gaussian, variance 25, over 52 windows (square root in blocks (8)), a unit in at most 4 of them, "
            "7 apart, with a count of units (weight 9)"
        ),
    ),
]


@pytest.mark.parametrize(("step", "text"), TEXTS, ids=lambda one: str(one)[:30])
def test_text_is_derived(step: Any, text: str) -> None:
    assert str(Mechanism([step])) == text
    both = Mechanism.together([Mechanism([step]), Mechanism.of_noise(GAUSSIAN)])
    assert str(both) == f"{text}; discrete Gaussian, variance 25"
    assert (both.is_record, Mechanism([step]).is_record) == (True, text != "by magic")


def test_rows_of_a_schedule_have_one_noise_and_a_record() -> None:
    stated = Mechanism([AddedNoise(GAUSSIAN, layout=Layout(Counting(9), Factorisation(horizon=52, band=7)))])
    assert Mechanism.from_list(stated.to_list()) == stated
    assert stated.layout.schedule == Factorisation(horizon=52, band=7)
    assert "schedule" not in AddedNoise(GAUSSIAN).to_dict()  # the text and the record of others are as they were
    for changed in ({"layers": 2}, {"place": "input"}, {"shares": Shares(3, 2)}):
        with pytest.raises(InvalidInputError, match="one noise on each cell, of one party"):
            AddedNoise(LAPLACE, layout=Layout(schedule=Separate(horizon=2)), **changed)
    assert Mechanism.together([stated, Mechanism.of_noise(LAPLACE)]).layout.schedule is None
    fields = stated.to_list()
    fields[0]["schedule"].pop("bits")
    with pytest.raises(InvalidInputError, match="the steps of the mechanism must be"):
        Mechanism.from_list(fields)


def test_a_mechanism_says_what_is_asked_of_it() -> None:
    share = Budget(0.5, 1e-9)
    chosen = Mechanism([AddedNoise(LAPLACE, 2), KeySelection(share)])
    assert (chosen.the_noise, chosen.the_flips, chosen.keys) == (AddedNoise(LAPLACE, 2), None, share)
    assert chosen.is_pan_private
    assert AddedNoise(LAPLACE, 2).cumulants == LAPLACE.cumulants.times(2)
    signs = Mechanism([FlippedSigns("a", LAW)])
    assert (signs.the_noise, signs.the_flips, signs.keys) == (None, FlippedSigns("a", LAW), None)
    for several in (
        [AddedNoise(LAPLACE), AddedNoise(LAPLACE)],
        [AddedNoise(LAPLACE), StatedInText("m")],
        [KeySelection(share), AddedNoise(LAPLACE)],
        [AddedNoise(LAPLACE), KeySelection(share), KeySelection(share)],
    ):
        assert Mechanism(several).the_noise is None


def test_texts_side_by_side_are_one() -> None:
    joined = Mechanism([StatedInText("a"), StatedInText("b")])
    assert joined == Mechanism.stated("a; b")
    assert len({joined, Mechanism.stated("a; b")}) == 1


@pytest.mark.parametrize(
    "refused",
    [
        lambda: Mechanism([]),
        lambda: Mechanism([KeySelection(Budget(1.0))] * 17),
        lambda: Mechanism.stated("x" * 201),
        lambda: Mechanism([AddedNoise(LAPLACE), StatedInText("")]),
        lambda: AddedNoise(LAPLACE, layers=3),
        lambda: AddedNoise(LAPLACE, layers=0),
        lambda: AddedNoise(LAPLACE, place="somewhere"),  # type: ignore[arg-type]
        lambda: FlippedSigns("", LAW),
        lambda: FlippedSigns("m", LAW, Fraction(0)),
    ],
)
def test_what_is_no_mechanism_is_refused(refused: Callable[[], object]) -> None:
    with pytest.raises(InvalidInputError):
        refused()


def test_a_guarantee_has_a_mechanism_and_not_its_text() -> None:
    with pytest.raises(TypeError, match=r"must be a Mechanism, got a str\. .* Mechanism.stated\(text\)"):
        ss.Guarantee(1.0, 0.0, ss.L1(1), "discrete Laplace, scale 4")  # type: ignore[arg-type]


# --- nothing reads the text -----------------------------------------------------------------------------------------

READERS = {"startswith", "endswith", "partition", "rpartition", "split", "find", "index", "count", "replace"}
READERS |= {"search", "match", "fullmatch", "findall", "finditer", "sub", "removeprefix", "removesuffix"}


OF_MECHANISMS = {"mechanism", "guarantee", "stated"}


def names(node: ast.AST) -> set[str]:
    """Return the names and attributes in an expression."""
    found = {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}
    return found | {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def readers_of_mechanisms(source: str) -> Iterator[int]:
    """Yield the lines that look into a text that a mechanism or a guarantee has a part in."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            looks_in = any(isinstance(op, ast.In | ast.NotIn) for op in node.ops)
            if looks_in and is_text(node.left) and any(OF_MECHANISMS & names(one) for one in node.comparators):
                yield node.lineno
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in READERS:
            given = [node.func.value, *node.args]
            if ast.unparse(node.func) != "dataclasses.replace" and any(OF_MECHANISMS & names(one) for one in given):
                yield node.lineno


def test_nothing_in_the_library_reads_the_text_of_a_guarantee() -> None:
    for path in sorted(ROOT.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if any(name in source for name in OF_MECHANISMS):
            assert list(readers_of_mechanisms(source)) == [], path
    for read in (
        "'flips with' in guarantee.mechanism",
        "guarantee.mechanism.partition(', ')",
        "_NOISE.findall(str(mechanism))",
        "str(stated).startswith('x')",
    ):
        assert list(readers_of_mechanisms(read)) == [1]


def test_no_regular_expression_knows_the_words_of_mechanisms() -> None:
    said = re.compile("discrete|Laplace|Gaussian|flips with|threshold|DP-Sign|inside and")
    for path in sorted(ROOT.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if "import re\n" not in source:
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("re."):
                assert not said.search(ast.unparse(node)), path


RELEASES: dict[str, Callable[[], Any]] = {
    "noise": lambda: _sketch().release(epsilon=1.0, neighbours=ss.L1(1)),
    "too little noise": lambda: _greedy(_sketch().release(epsilon=1.0, neighbours=ss.L1(1))),
    "pan-private": lambda: ss.release.PanPrivateSketch(
        _sketch().projection, epsilon=1.0, neighbours=ss.L1(1)
    ).release(),
    "signs": lambda: ss.signs.DPSignLogistic(epsilon=1.0, neighbours=ss.L1(1)).release(_sketch()),
    "a sum": lambda: RELEASES["noise"]().combine(RELEASES["pan-private"](), populations="overlapping"),
}


def _sketch() -> ss.Sketch:
    return ss.SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=1).sketch()


def _greedy(release: ss.PrivateSketch) -> ss.PrivateSketch:
    guarantee = dataclasses.replace(release.guarantee, epsilon=0.5)
    return ss.PrivateSketch(
        release.projection, release.values, release.noise, guarantee, release_ids=release.release_ids
    )


@pytest.mark.parametrize("name", RELEASES)
def test_a_reworded_text_changes_no_verdict(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = RELEASES[name]()
    before = plain.explain()
    verdict, theorems = before.check.verdict, before.theorems
    assert verdict == ("too little" if name == "too little noise" else "enough")
    monkeypatch.setattr(DiscreteLaplace, "label", "wide noise of size")
    monkeypatch.setattr(FlipLaw, "__str__", lambda law: f"turned by {law.shape} {law.rate}")
    monkeypatch.setattr(AddedNoise, "__str__", lambda step: f"{step.noise} ({step.layers})")
    reworded = RELEASES[name]()
    for release in (reworded, type(reworded).from_bytes(reworded.to_bytes())):
        told = release.explain()
        assert (told.check.verdict, told.theorems) == (verdict, theorems)
        assert "discrete Laplace" not in str(told)
