"""The audit (make audit): rows of claims, what tests report to them, and the pages that point to them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.audit import record
from tests.audit.__main__ import (
    ROUNDING,
    Row,
    judged_by_command,
    judged_by_output,
    judged_by_tests,
    run_tests,
    selects,
    table_of,
    without_chance,
)
from tests.audit.claims import (
    DOCS,
    FOOTNOTE,
    Claim,
    anchor_of,
    claims,
    footnote,
    numbers_of,
    page,
    sentences_of,
)

CLAIMS = claims()
OFFICER = (DOCS / "privacy-officer.md").read_text(encoding="utf-8")
NO_CLAIMS = Path(record.__file__).with_name("no_claims.txt")


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_a_row_names_code_tests_and_a_section_that_exist(claim: Claim) -> None:
    assert claim.problem() is None


def test_rows_have_names_of_their_own_and_headings_once() -> None:
    assert len({claim.name for claim in CLAIMS}) == len(CLAIMS)
    groups = [claim.group for claim in CLAIMS]
    assert groups == sorted(groups, key=groups.index), "the rows of a heading stand together"


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"place": "privacy/laplace.py:NoSuchClass"}, "is not in the library"),
        ({"tests": ("tests/none",)}, "does not exist"),
        ({"tests": ("tests/test_audit.py::test_none",)}, "has no test test_none"),
        ({"tests": ()}, "tests or a command"),
        ({"section": "theory/noise.md#none"}, "has no section none"),
        ({"section": "theory/none.md"}, "is not a page of the theory"),
    ],
)
def test_a_row_that_names_what_is_gone_is_told(changed: dict[str, Any], problem: str) -> None:
    fields = {name: getattr(CLAIMS[0], name) for name in Claim.__dataclass_fields__}
    assert problem in str(Claim(**(fields | changed)).problem())


def test_each_sentence_of_the_officers_page_points_to_a_row_or_claims_nothing() -> None:
    """A new sentence gets a footnote; what is a definition, advice, law or an example is in the list."""
    without = [one for one in sentences_of(OFFICER) if not FOOTNOTE.search(one)]
    listed = NO_CLAIMS.read_text(encoding="utf-8").splitlines()
    assert [one for one in without if one not in listed] == []
    assert [one for one in listed if one not in without] == [], "these are no longer on the page"


def test_footnotes_point_to_rows_as_they_are_numbered_now() -> None:
    numbers = numbers_of(CLAIMS)
    known = {footnote(claim, numbers[claim.name]) for claim in CLAIMS}
    assert {match[0] for match in FOOTNOTE.finditer(OFFICER)} <= known
    assert len(FOOTNOTE.findall(OFFICER)) > 30


def test_sentences_of_a_page_are_told_apart_with_their_links() -> None:
    link = "[¹](explanation/audit.md#a)"
    text = f"# Title\n\nOne is\nhere.{link} Two? [Three](x.md).\n\n- A list.\n\n| a | b |\n| --- | --- |\n"
    assert sentences_of(text) == [f"One is here.{link}", "Two?", "[Three](x.md).", "A list.", "| a | b |"]


def test_the_page_has_every_row_under_its_heading() -> None:
    text = page()
    for claim in CLAIMS:
        assert claim.claim in text
        assert f"## {claim.group}\n" in text
        assert anchor_of(claim.group) in footnote(claim, 1)


def test_what_a_test_reports_is_the_least_margin_and_all_cases() -> None:
    record.taken()
    assert record.taken() is None
    record.judged(0.5, 10)
    record.judged(cases=3)
    record.judged(0.25)
    assert record.taken() == (14, 0.25)
    record.judged(cases=2)
    assert record.taken() == (2, None)


def claim_of(*tests: str) -> Claim:
    return Claim("name", "Group", "It holds", "privacy/laplace.py", "a test", tests=tests, margin="of ε")


def test_a_claim_is_judged_by_its_own_tests() -> None:
    found: dict[str, dict[str, Any]] = {
        "tests/a.py::one": {"outcome": "passed", "cases": 7, "margin": 0.5},
        "tests/a.py::two[x]": {"outcome": "passed"},
        "tests/ab.py::one": {"outcome": "failed"},
        "tests/b/c.py::one": {"outcome": "passed", "cases": 2, "margin": 0.1},
        "tests/b/c.py::two": {"outcome": "skipped"},
    }
    claim = claim_of("tests/a.py", "tests/b")
    assert judged_by_tests(claim, found) == Row(claim, 10, 0.1, "")
    assert judged_by_tests(claim_of("tests/ab.py"), found).problem == "1 failed, first tests/ab.py::one"
    assert judged_by_tests(claim_of("tests/c.py"), found).problem == "no test ran"
    for margin, problem in [(-1e-60, ""), (0.0, ""), (-1e-9, "the margin is below zero")]:
        row = judged_by_tests(claim, {"tests/a.py::one": {"outcome": "passed", "margin": margin}})
        assert row.problem == problem
        assert ("Holds: 1 case, the smallest margin is 0 of ε." in table_of([row])) == (problem == "")
    assert judged_by_tests(claim_of("tests/b/c.py::two"), found).problem == "no test ran"


def test_the_table_fits_a_terminal_and_has_the_numbers_of_the_page() -> None:
    rows = [Row(claim, 10, 0.1, "") for claim in CLAIMS]
    lines = table_of([*rows[:-1], rows[-1]._replace(problem="1 failed, first tests/a.py::one")]).splitlines()
    assert max(map(len, lines)) <= 80
    assert [line for line in lines if line and not line.startswith(" ")] == list(dict.fromkeys(c.group for c in CLAIMS))
    assert [int(line[:4]) for line in lines if line[:4].strip()[:1].isdigit()] == list(range(1, len(CLAIMS) + 1))
    assert sum("Holds: 10 cases" in line for line in lines) == len(CLAIMS) - 1
    assert "      DOES NOT HOLD: 1 failed, first tests/a.py::one." in lines


RATES = {f"tests/a.py::usual[{place}]": 2e-4 for place in range(1000)} | {"tests/a.py::often": 0.05}


def outcomes_of(*failed: str) -> dict[str, dict[str, Any]]:
    named = {name: {"rejects": rate} for name, rate in RATES.items()} | {"tests/a.py::exact": {}}
    return {name: test | {"outcome": "failed" if name in failed else "passed"} for name, test in named.items()}


@pytest.mark.parametrize(
    ("failed", "again", "holds"),
    [
        (["usual[0]"], [], True),
        (["usual[0]", "often"], [], True),
        (["usual[0]"], [1], False),  # twice in six runs, where once in 5,000 is stated
        (["often"], [3], True),
        (["often"], [1, 2, 3, 4, 5], False),
        (["exact"], [], False),  # it draws nothing
        ([f"usual[{place}]" for place in range(9)], [], False),  # 0.25 are stated
    ],
)
def test_what_may_fail_by_chance_runs_again(failed: list[str], again: list[int], holds: bool) -> None:  # noqa: FBT001
    names = [f"tests/a.py::{name}" for name in failed]

    def run_again(tests: Sequence[str], number: int) -> dict[str, dict[str, Any]]:
        assert set(tests) <= set(names)
        return {name: test for name, test in outcomes_of(*(names if number in again else [])).items() if name in tests}

    tests = without_chance(outcomes_of(*names), run_again)
    assert tests.keys() == outcomes_of().keys()
    assert (judged_by_tests(claim_of("tests/a.py"), tests).problem == "") == holds


def test_a_command_that_is_not_there_is_said_and_does_not_hold_silently() -> None:
    claim = Claim("name", "Group", "It holds", "privacy/laplace.py", "a command", command=("no-such-command",))
    assert judged_by_command(claim).problem.startswith("Not run: no-such-command")
    assert judged_by_output(claim, 0, "\u2139 tests 9\n\u2139 pass 7\n\u2139 fail 0") == Row(claim, 7, None, "")
    assert judged_by_output(claim, 0, "# pass 7\n").cases == 7
    go = "    a_test.go:60: a.json: 202 of 202 cases agree\n    a_test.go:60: b.json: 16 of 16 cases agree\n"
    assert judged_by_output(claim, 0, go).cases == 218
    assert judged_by_output(claim, 1, "\u2139 pass 7\n\u2139 fail 2").problem == "it ended with 1"
    assert judged_by_output(claim, 0, "nothing to do").problem == "no test ran"


def test_one_argument_of_pytest_selects_another() -> None:
    assert selects("tests/a", "tests/a/b.py")
    assert selects("tests/a.py", "tests/a.py::one")
    assert not selects("tests/a", "tests/ab.py")


def test_what_tests_report_arrives_from_other_processes() -> None:
    """With margins and cases, of fresh randomness; nothing of the run is left."""
    test = "tests/privacy/test_key_selection.py::test_the_choice_is_private_by_enumeration"
    (found,) = {judged_by_tests(claim, run_tests([claim], "1")) for claim in [claim_of(test)]}
    assert (found.cases > 100, found.problem) == (True, "")
    assert found.margin == pytest.approx(0, abs=ROUNDING), "the noise is the least that is allowed"
