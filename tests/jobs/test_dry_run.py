"""A dry run of a topic counts what its stream would drop, in any order of partitions, and commits nothing."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.jobs.topic import BASE, MINUTE, NeverStop, Topic, arrow, as_json, policy_in, read_to_end, rows

pytest.importorskip("confluent_kafka")

from streamsketch.jobs import dry_run
from streamsketch.streams import DryStream

FIRST = f"{np.datetime64(BASE + MINUTE, 's')}Z"


def topic_of(form: str, seed: int) -> Topic:
    """Return a topic of two partitions with late rows, rows of an earlier minute, and messages that are none."""
    topic = Topic(2, seed)
    for minute in (0, 1, 2, 4, 2, 5):
        for number in topic.messages:
            batch = rows(minute, 8, seed=number)
            topic.write(number, *(as_json(batch) if form == "json" else [arrow(batch)]))
            topic.write(number, b"nonsense" if form == "arrow" else b" ")
    for number in topic.messages:
        topic.write(number, b"", second=MINUTE * 5 + 5)
    return topic


@pytest.mark.parametrize("form", ["json", "arrow"])
def test_it_counts_what_a_stream_drops_and_leaves_no_trace(tmp_path: Path, form: Any) -> None:
    found = []
    for seed in range(3):
        topic, stream = topic_of(form, seed), DryStream(*policy_in(tmp_path / "dry" / "out", start=FIRST), strict=True)
        counts = dry_run(stream, topic, "sales", form, NeverStop())
        assert topic.committed == {}
        assert not (tmp_path / "dry").exists()
        found.append((counts, stream.rows_of_windows))
    assert found[0] == found[1] == found[2]
    counts, windows = found[0]
    real = read_to_end(topic_of(form, 0), tmp_path / "real", form=form, policy={"start": FIRST})
    assert counts == real.row_counts
    assert (counts.undecodable, counts.early, counts.late) == (12, 16, 16)
    assert sum(one.is_over for one in windows) < real.stream.released == 4, "one minute has no rows"
    assert [(one.rows, one.late) for one in windows] == [(16, 0), (32, 16), (16, 0), (16, 0)]
    assert sum(one.other_keys for one in windows) == counts.other_keys > 0


def test_rows_that_are_gone_are_no_mistake(tmp_path: Path) -> None:
    topic = topic_of("json", 0)
    for number in topic.messages:
        topic.remove(number, 9)
    counts = dry_run(DryStream(*policy_in(tmp_path, start=FIRST), strict=True), topic, "sales", "json", NeverStop())
    assert counts.early == 0 < counts.late
