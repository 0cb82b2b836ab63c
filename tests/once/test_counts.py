"""Counts of rows that a stream read and dropped."""

from pathlib import Path

import pytest

from streamsketch.once.counts import ROW_CODES, RowAlarms, RowLimits, Tally
from streamsketch.streams import RowCounts, counts_in
from tests.patience import wait_until


@pytest.mark.parametrize(
    ("counts", "most", "said"),
    [
        (RowCounts(1000, late=10), 0.01, []),
        (RowCounts(1000, late=11), 0.01, ["1.1 % of the rows in a test were dropped, more than max_dropped, 1 %"]),
        (RowCounts(1000, late=5, malformed=6), 0.01, ["5 late, 0 too far ahead, 6 malformed"]),
        (RowCounts(10, late=10), 1, []),
        (RowCounts(10, late=1), 0, ["10 % of the rows"]),
        (RowCounts(1000, ahead=1), 0.01, ["1 rows in a test were too far ahead (max_ahead)"]),
        (RowCounts(1000, late=2, lost=2), 0.01, ["the folder of dead letters is full, and 2 dropped rows"]),
        (RowCounts(lost=1), 0.01, ["the folder of dead letters is full"]),
        (RowCounts(1000, blank=101), 0.01, ["10.1 % of the rows in a test lack a value that is needed"]),
        (RowCounts(1000, early=101), 0.01, ["10.1 % of the rows in a test are before the first window"]),
        (RowCounts(1000, other_keys=401), 0.01, ["40.1 % of the rows in a test are of keys that are not listed"]),
        (RowCounts(10**6, messages=10, undecodable=1), 0.01, ["10 % of the messages in a test could not be decoded"]),
        (RowCounts(1000, blank=100, early=100, other_keys=400, messages=100, undecodable=1), 0.01, []),
        (RowCounts(), 0, []),
    ],
)
def test_what_is_wrong_with_rows(counts: RowCounts, most: float, said: list[str]) -> None:
    found = counts.complaints(RowLimits(dropped=most), "in a test")
    assert len(found) == len(said)
    assert all(words in sentence for words, sentence in zip(said, found.values(), strict=True))
    assert found.keys() <= ROW_CODES.keys()


def test_what_is_unusual_for_a_stream_is_said_after_three_periods() -> None:
    alarms = RowAlarms(RowLimits())
    usual = RowCounts(1000, blank=20, other_keys=300)
    assert [alarms.look(usual, "") for _ in range(5)] == [{}] * 5
    assert list(alarms.look(usual._replace(other_keys=360), "")) == ["rows_of_other_keys"]
    assert list(alarms.look(usual._replace(blank=80), "")) == ["rows_blank"]
    assert alarms.look(usual._replace(blank=60, other_keys=340), "") == {}
    assert list(alarms.look(RowCounts(99), "")) == ["volume_low"]
    assert list(alarms.look(RowCounts(199, other_keys=60), "", 2)) == ["volume_low"]
    assert alarms.look(RowCounts(0), "", 0) == {}, "a period that has not ended says nothing of volume"
    few = RowAlarms(RowLimits())
    assert [few.look(RowCounts(count, blank=count // 20), "") for count in (90, 95, 20, 9, 1, 0, 90)] == [{}] * 7
    for limits in (RowLimits(volume=0.5), RowLimits(volume=0)):
        judged = RowAlarms(limits)
        found = [judged.look(RowCounts(count), "") for count in (1000, 1000, 1000, 499)]
        assert ("volume_low" in found[-1]) == bool(limits.volume)


def test_each_process_has_a_file_of_its_own_that_only_its_owner_reads(tmp_path: Path) -> None:
    folder = tmp_path / "counts"
    assert counts_in(folder) == {}
    assert Tally.of(str(folder)) is Tally.of(str(folder))
    one, other = (Tally(str(folder), seconds=3600.0) for _ in range(2))
    for _ in range(3):  # the second write waits
        one.add(RowCounts(5, late=1))
        one.flush()
    other.add(RowCounts(7))
    other.flush(now=True)
    assert sorted(counts_in(folder).values()) == [RowCounts(5, late=1), RowCounts(7)]
    one.flush(now=True)
    assert sorted(counts_in(folder).values()) == [RowCounts(7), RowCounts(15, late=3)]
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}


def test_what_waits_is_written_by_itself(tmp_path: Path) -> None:
    """As nothing may come after it."""
    tally = Tally(str(tmp_path), seconds=0.01)
    for _ in range(2):
        tally.add(RowCounts(1))
        tally.flush()
    # another file is there while it is replaced
    wait_until(lambda: [*counts_in(tmp_path).values()] == [RowCounts(2)], "the counts")


@pytest.mark.parametrize("content", ["{}", '{"read": -1, "late": 0, "ahead": 0, "malformed": 0, "lost": 0}', "["])
def test_other_files_are_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(ValueError, match=r"does not hold counts|Expecting value"):
        counts_in(tmp_path)
