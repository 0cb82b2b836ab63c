"""What an operator is told of the unit column: texts that often stand for nobody, however they are written."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsketch.agreement.columns import Column
from streamsketch.intake.seen import MISSING_TEXTS, Seen

PERSON = Column("person", "text")
BLANK = st.text(" \t\n\xa0\u2003\u3000", max_size=12)
NAMES = st.text("nNaAuUlL/#<>()-1.\\xé \xa0", max_size=12)


def missing_in(texts: list[str | None]) -> set[str]:
    """Return which of the texts stand for nobody, one by one."""
    named = {text.lower(): text for text in MISSING_TEXTS} | {"": "blanks"}
    spelt = [text.strip().lower() for text in texts if text]
    return {named[text] for text in spelt if text in named}


def noted(column: pa.Array) -> set[str]:
    seen = Seen()
    seen.add("a.csv", pa.record_batch({"person": column}), PERSON)
    assert seen.rows == {"a.csv": len(column)}
    return seen.unit_texts


CELLS = st.one_of(
    st.none(),
    NAMES,
    BLANK,
    st.builds(
        "{}{}{}".format, BLANK, st.sampled_from([*MISSING_TEXTS, *(text.swapcase() for text in MISSING_TEXTS)]), BLANK
    ),
)


@given(st.lists(CELLS, max_size=6), st.sampled_from([pa.string(), pa.large_string(), pa.string_view()]))
def test_texts_that_stand_for_nobody_are_noticed(texts: list[str | None], kind: pa.DataType) -> None:
    assert noted(pa.array(texts, kind)) == missing_in(texts)
    assert noted(pa.array(["-", *texts, "null"], kind)[1:-1]) == missing_in(texts)
    assert noted(pa.array(texts, pa.string()).dictionary_encode()) == missing_in(texts)


@pytest.mark.parametrize("text", MISSING_TEXTS)
@pytest.mark.parametrize("form", ["{}", "{:>20}", "{:<20}", "\u3000{}", "{}\u3000"])
def test_each_is_noticed_in_any_case_and_between_blanks(text: str, form: str) -> None:
    for spelt in (text, text.lower(), text.upper()):
        assert noted(pa.array(["Ann", form.format(spelt), "nobody"])) == {text}
