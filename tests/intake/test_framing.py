"""What is one row of a text."""

from hypothesis import given
from hypothesis import strategies as st

from streamsketch.intake.framing import are_rows, json_rows

PARTS = ["{}", '{"a": 1}', " ", "\n", "\r", "\t", "\x0b", "{", "}", '"\\n"', "é"]
CONTENTS = st.lists(st.lists(st.sampled_from(PARTS), max_size=3).map(lambda parts: "".join(parts).encode()), max_size=4)


@given(CONTENTS)
def test_messages_that_are_rows_are_their_own_rows(contents: list[bytes]) -> None:
    if are_rows(contents):
        assert [json_rows(content) for content in contents] == [[content] for content in contents]


def test_most_messages_are_rows() -> None:
    assert are_rows([b'{"item": "tea"}', b' {"item": "jam"}'])
