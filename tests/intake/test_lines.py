"""Lines of CSV and JSON: where they end, and reading without the bad ones."""

from hypothesis import given
from hypothesis import strategies as st

from streamsketch.intake.lines import ends_in_quotes, split_rows, whole_lines


def test_lines_in_quotes_and_quotes_that_never_close() -> None:
    assert whole_lines(b'a,"b\nc"\nd,"e\n', "csv", ended=False) == (b'a,"b\nc"\n', b'd,"e\n')
    assert whole_lines(b'"a\nb', "csv", ended=False) == (b"", b'"a\nb')
    assert whole_lines(b'"a\nb', "jsonl", ended=False) == (b'"a\n', b"b")
    assert whole_lines(b"a\nb", "csv", ended=True) == (b"a\nb\n", b"")
    lines = b"x\n" * 100_000
    assert whole_lines(lines + b'"' + lines, "csv", ended=False) == (lines, b'"' + lines)


@given(st.text('",\n\rx', max_size=30).map(str.encode))
def test_lines_are_whole_where_a_reader_of_letters_finds_them_so(data: bytes) -> None:
    place, end = "start", 0  # of a field
    for at, letter in enumerate(data.decode()):
        if place == "quoted":
            place = "quote" if letter == '"' else "quoted"
        elif letter in ",\r\n":
            end = at + 1 if letter == "\n" else end
            place = "start"
        else:
            place = "quoted" if letter == '"' and place in ("start", "quote") else "plain"
    assert whole_lines(data, "csv", ended=False) == (data[:end], data[end:])


@given(st.text('",\n\rx', max_size=30).map(str.encode))
def test_rows_are_the_whole_lines_one_by_one(data: bytes) -> None:
    whole, _ = whole_lines(data, "csv", ended=False)
    found = split_rows(whole, "csv")
    assert b"".join(found).replace(b"\n", b"").replace(b"\r", b"") == whole.replace(b"\n", b"").replace(b"\r", b"")
    assert all(whole_lines(row, "csv", ended=False) == (row, b"") for row in found)
    assert not any(ends_in_quotes(row, "csv") for row in found)
