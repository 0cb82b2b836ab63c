"""A stream's state and releases: once each, whatever fails and whenever."""

import contextlib
import datetime as dt
import json
import shutil
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.core.files import exclusive
from streamsketch.once import sinks
from streamsketch.streams import Stream
from streamsketch.streams import stream as module
from streamsketch.streams.job import Job
from streamsketch.streams.state import read_state, write_state
from tests.streams.naive import AGREEMENT, KEYS, PEOPLE, Row, batch_of, beat, bound_by, over_in, policy_of, windows_of

LOG = [
    Row(second - (7 if second % 5 else 0), KEYS[second % 2], "abc"[second % 3], 1 + second % 9, f"c{second % 4}")
    for second in [*range(0, 100, 3), 30, *range(300, 420, 4)]  # one late row, and windows without any
]


def stream_of(out: Path, charge: Any = None, **changes: Any) -> Stream:
    return Stream(*policy_of(out, **changes), out.parent / "s.raw-stream", charge)


def file_of(stream: Stream, number: int) -> Path:
    (slot,) = stream._slots(number)
    assert isinstance(stream.sink, sinks.WindowFiles)
    return stream.sink.path(slot)


def published(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(out.iterdir())}


def check_exact(out: Path, rows: list[Row], stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that every window that is over came once, with the exact sums of what the bounds leave."""
    expected, late = windows_of(rows)
    count = over_in(rows)
    assert [path.name for path in sorted(out.iterdir())] == [f"2026-11-22T13{n:02}Z.parquet" for n in range(count)]
    assert stream.summary["rows_late"] == late
    first = stream._policy.first
    for number, path in enumerate(sorted(out.iterdir())):
        table = ss.load(path)
        assert list(table) == sorted(KEYS)
        assert table.guarantee.neighbours.unit == "customer in one window of 60 s"
        told = bound_by(
            stream.windows.secret_of(first + number), expected.get(number, [Row(0, "moon", "a", 1, "A")]), monkeypatch
        )
        for key in KEYS:
            assert np.array_equal(table[key].values, told.sketch_of(key).state() * float(AGREEMENT.projection.grid))


def test_every_window_is_released_once_with_its_sums(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = stream_of(out)
    stream.add(batch_of(LOG), 1)
    assert stream.save({"bytes": 1}) == []
    check_exact(out, LOG, stream, monkeypatch)
    state = out.parent / "s.raw-stream"
    assert stat.S_IMODE(state.stat().st_mode) == 0o600
    kept = state.read_bytes()
    assert b"SECRET" in kept[: int.from_bytes(kept[16:18])], "in the first page"
    ends = {path.stat().st_mtime for path in out.iterdir()}
    start = 1795352400  # 2026-11-22T13:00Z
    assert ends == {start + 60 * n for n in range(1, over_in(LOG) + 1)}, "files show when windows end, not when it was"


def test_units_are_counted_in_each_window_as_agreed_on(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In windows and keys without anybody, too; the noise is 0 in all but one draw of 10^100."""
    agreement = AGREEMENT.replace(counting=ss.privacy.Counting(10, 2))
    stream = Stream(*policy_of(out, agreement), out.parent / "s.raw-stream")
    stream.add(batch_of(LOG), 1)
    stream.save({"bytes": 1})
    expected, _ = windows_of(LOG)
    found = [ss.load(path) for path in sorted(out.iterdir())]
    for number, table in enumerate(found):
        rows = expected.get(number, [Row(0, "moon", "a", 1, "A")])
        exact = bound_by(stream.windows.secret_of(stream._policy.first + number), rows, monkeypatch)
        for key in KEYS:
            units, total = exact.sketch_of(key).counts.tolist()
            assert table[key].counts.tolist() == [10 * units, 2 * (5 * units - total)]
    assert len({table.guarantee for table in found}) == 1
    assert any(one.counts.any() for table in found for one in table.values())


@pytest.mark.parametrize("every", [1, 7])
def test_a_stream_that_is_always_restarted_is_the_same(every: int, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before: dict[str, bytes] = {}
    for at in range(0, len(LOG), every):
        stream = stream_of(out)
        assert stream.position == ({"row": at} if at else None)
        stream.add(batch_of(LOG[at : at + every]), at + 1)
        stream.save({"row": min(at + every, len(LOG))})
        now = published(out)
        assert {name: now[name] for name in before} == before
        before = now
    check_exact(out, LOG, stream_of(out), monkeypatch)
    assert stream_of(out).summary["rows_read"] == stream.events == sum(map(len, windows_of(LOG)[0].values()))


class Killed(BaseException):
    pass


def fail_at(monkeypatch: pytest.MonkeyPatch, name: str, *, after: bool) -> Any:
    where = module if hasattr(module, name) else sinks
    real = getattr(where, name)

    def failing(*arguments: Any, **options: Any) -> Any:
        if after:
            real(*arguments, **options)
        raise Killed

    monkeypatch.setattr(where, name, failing)


@pytest.mark.parametrize(
    ("name", "after"), [("write_state", False), ("write_state", True), ("write_new", False), ("write_new", True)]
)
def test_killed_around_a_release_it_is_drawn_once(
    name: str,
    after: bool,  # noqa: FBT001
    out: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = stream_of(out)
    stream.add(batch_of(LOG[:20]), 1)
    stream.save({"row": 20})
    stream.add(batch_of(LOG[20:]), 21)
    with monkeypatch.context() as patch:
        fail_at(patch, name, after=after)
        with pytest.raises(Killed):
            stream.save({"row": len(LOG)})
    before = published(out)
    assert bool(before) is (name == "write_new" and after)
    again = stream_of(out)
    drawn = dict(again._waiting)
    assert again.position == {"row": 20 if (name, after) == ("write_state", False) else len(LOG)}
    if again.position == {"row": 20}:
        again.add(batch_of(LOG[20:]), 21)
    assert again.save({"row": len(LOG)}) == []
    assert {name: data for name, data in published(out).items() if name in before} == before
    assert {file_of(again, number).read_bytes() for number in drawn} == set(drawn.values()), (
        "what was drawn is published"
    )
    check_exact(out, LOG, again, monkeypatch)


def test_after_a_state_is_lost_what_is_published_stays(out: Path) -> None:
    stream = stream_of(out, epsilon=1.0)
    stream.add(batch_of(LOG), 1)
    stream.save({})
    before = published(out)
    next(out.iterdir()).unlink()  # and a release with it, which only then is drawn anew
    (out.parent / "s.raw-stream").unlink()
    charged: list[str] = []
    again = stream_of(out, lambda *arguments: charged.append(arguments[2]), epsilon=1.0)
    again.add(batch_of(LOG), 1)
    assert len(again.save({})) == len(before) - 1
    assert len(charged) == 1
    assert sum(before[name] != data for name, data in published(out).items()) == 1
    other = Path(out / "2026-11-22T1350Z.parquet")
    other.write_bytes(b"of somebody else")
    again.add(batch_of([Row(3200, "north", "a", 1, "Ann")]), 1)
    assert [again.sink.name(one.slot) for one in again.save({})] == [other.name]
    assert other.read_bytes() == b"of somebody else"


def test_what_was_not_charged_is_never_published(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new state finds all windows published, is killed before it publishes, and then the folder is emptied."""
    charged: list[str] = []

    def run() -> list[Any]:
        stream = stream_of(out, lambda *arguments: charged.append(arguments[2]), epsilon=1.0)
        if stream.position is None:
            stream.add(batch_of(LOG), 1)
        return stream.save({})

    run()
    (out.parent / "s.raw-stream").unlink()
    with monkeypatch.context() as patch:
        fail_at(patch, "write_state", after=True)
        with pytest.raises(Killed):
            run()
    for path in out.iterdir():
        path.unlink()
    assert run() == []
    assert published(out) == {}
    assert len(charged) == over_in(LOG)


def test_what_is_published_already_is_charged_under_the_same_id(out: Path) -> None:
    """So it may be published again where the folder is emptied before that."""
    charged: list[str] = []
    state, backup = out.parent / "s.raw-stream", out.parent / "backup"
    stream_of(out).save({})
    shutil.copy(state, backup)
    for _ in range(2):
        shutil.copy(backup, state)
        stream = stream_of(out, lambda *arguments: charged.append(arguments[2]))
        stream.add(batch_of(LOG), 1)
        assert stream.save({}) == []
    assert len(charged) == 2 * len(set(charged)) == 2 * over_in(LOG)


def test_another_file_under_a_name_that_waits_stays(out: Path) -> None:
    stream = stream_of(out)
    stream.add(batch_of(LOG), 1)
    stream._draw()
    taken = file_of(stream, stream.windows._policy.first + 2)
    taken.write_bytes(b"of somebody else")
    assert [stream.sink.name(one.slot) for one in stream.save({})] == [taken.name]
    assert taken.read_bytes() == b"of somebody else"


def test_each_window_is_charged_once_and_not_beyond_the_budget(out: Path) -> None:
    ledger = ss.Ledger(out.parent / "ledger.sqlite")
    ledger.dataset("small", unit="customer", epsilon=2.5)
    ledger.dataset("large", unit="customer", epsilon=100.0)

    def charge(name: str) -> Any:
        def once(guarantee: ss.Guarantee, ids: Any, once: str) -> None:
            ledger.charge(name, guarantee, data_ids=ids, once=once)

        return once

    stream = stream_of(out, charge("small"), epsilon=1.0)
    stream.add(batch_of(LOG), 1)
    with pytest.raises(ss.errors.LedgerError, match="does not fit"):
        stream.save({"row": len(LOG)})
    assert len(published(out)) == 2, "those that fit are there"
    with pytest.raises(ss.errors.LedgerError, match="does not fit"):
        stream_of(out, charge("small"), epsilon=1.0).save({"row": len(LOG)})
    assert ledger.left("small").epsilon == 0.5
    again = stream_of(out, charge("large"), epsilon=1.0)
    assert again.position == {"row": len(LOG)}
    again.save({"row": len(LOG)})
    assert len(published(out)) == over_in(LOG)
    assert ledger.left("large").epsilon == 100.0 - (over_in(LOG) - 2)


def test_a_charge_is_repeated_where_its_release_was_lost(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    charged: list[str] = []
    for fails in (True, False):
        stream = stream_of(out, lambda *arguments: charged.append(arguments[2]))
        if stream.position is None:
            stream.save({})
        stream.add(batch_of(LOG), 1)
        with monkeypatch.context() as patch:
            if fails:
                fail_at(patch, "write_state", after=False)
            with contextlib.suppress(Killed):
                stream.save({})
    assert len(charged) == 2 * len(set(charged)) == 2 * over_in(LOG), "under the same ids, which a ledger charges once"


@pytest.fixture
def begun(out: Path) -> Path:
    stream = stream_of(out)
    stream.add(batch_of(LOG), 1)
    stream.save({"row": 1})
    return out


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"delay": 20, "max_ahead": "1 h"}, "delay, max_ahead"),
        ({"clock": "heartbeats"}, "clock"),
    ],
)
def test_a_state_goes_on_under_its_own_job_alone(changes: dict[str, Any], named: str, begun: Path) -> None:
    with pytest.raises(ss.InvalidInputError, match=f"a job with another {named};"):
        stream_of(begun, **changes)
    Stream(*policy_of(begun.parent / "elsewhere", max_dropped=0.5), begun.parent / "s.raw-stream")


@pytest.mark.parametrize(
    "changes",
    [{"epsilon": 1.0}, {"window": "2 min"}, {"public_keys": ["north"]}, {"clip": "cut"}, {"last": "2026-11-22T13:59Z"}],
    ids=str,
)
def test_a_state_goes_on_under_its_own_agreement_alone(changes: dict[str, Any], begun: Path) -> None:
    with pytest.raises(ss.InvalidInputError, match=r"follows the agreement .*; use its own agreement"):
        stream_of(begun, **changes)
    other = ss.Agreement(AGREEMENT.projection, index="item", key="shop", unit="customer", neighbours=ss.L1(9))
    with pytest.raises(ss.InvalidInputError, match="follows the agreement"):
        Stream(*policy_of(begun, other), begun.parent / "s.raw-stream")


def test_a_state_that_followed_a_policy_says_how_to_go_on(begun: Path) -> None:
    """Earlier versions stated in a policy what the agreement says now."""
    saved = read_state(begun.parent / "s.raw-stream")
    saved.header["policy"] = saved.header.pop("job")
    write_state(saved, begun.parent / "s.raw-stream")
    with pytest.raises(ss.InvalidInputError, match="whose policy is now an agreement and a job: begin a new state"):
        stream_of(begun)


def test_units_are_clipped_as_agreed(tmp_path: Path) -> None:
    assert policy_of(tmp_path, clip="cut").publisher().guarantee.basis == "enforced"
    assert policy_of(tmp_path, clip="none").publisher().guarantee.basis == "asserted"


def test_a_stream_ends_with_its_last_window(out: Path) -> None:
    stream = stream_of(out, last="2026-11-22T13:01Z")
    stream.add(batch_of(LOG), 1)
    stream.save({})
    assert stream.is_finished
    assert list(published(out)) == ["2026-11-22T1300Z.parquet", "2026-11-22T1301Z.parquet"]
    assert stream.summary["rows_after_end"] == sum(row.at >= 120 for row in LOG)
    again = stream_of(out, last="2026-11-22T13:01Z")
    assert again.is_finished
    assert again.summary == stream.summary


def test_windows_clipped_in_sketch_space_go_on_after_restarts(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every customer of a window moves it alike, by 2^15 steps over all shops; Gaussian noise is some 100 steps."""
    agreement = PEOPLE.replace(neighbours=ss.SketchL2(2, unit="customer"))
    with pytest.raises(ss.InvalidInputError, match="Set delta"):
        policy_of(out, agreement, delta=0)
    policy = policy_of(out, agreement, delta=1e-6)
    before: dict[str, bytes] = {}
    for at in range(0, len(LOG), 7):
        stream = Stream(*policy, out.parent / "s.raw-stream")
        stream.add(batch_of(LOG[at : at + 7]), at + 1)
        stream.save({"row": at})
        assert {name: published(out)[name] for name in before} == before
        before = published(out)
    expected, _ = windows_of(LOG)
    for number, path in enumerate(sorted(out.iterdir())):
        table = ss.load(path)
        assert table.guarantee.neighbours == ss.SketchL2(2, unit="customer in one window of 60 s")
        if number in expected:
            secret = stream.windows.secret_of(policy.first + number)
            exact = bound_by(secret, expected[number], monkeypatch, agreement)
            for key in KEYS:
                assert np.abs(table[key].values - exact.sketch_of(key).state()).max() < 2000
    assert stream.summary["units_below_bound"] + stream.summary["units_over_bound"] > 0


def test_a_state_that_was_changed_is_refused(begun: Path) -> None:
    path = begun.parent / "s.raw-stream"
    data = path.read_bytes()
    for bad in (
        data[:-4096],
        data[:100] + b"x" + data[101:],
        data.replace(b"newest", b"newesT"),
        b"x" + data,
        b"",
    ):
        path.write_bytes(bad)
        with pytest.raises(ss.InvalidInputError, match="is not the state of a stream"):
            stream_of(begun)


def test_a_file_is_held_by_one(tmp_path: Path) -> None:
    with exclusive(tmp_path / "a"):
        with pytest.raises(ss.InvalidInputError, match="in use by another process"), exclusive(tmp_path / "a"):
            pass
        with exclusive(tmp_path / "b"):
            pass
    with exclusive(tmp_path / "a"):
        pass


GOOD: dict[str, Any] = {"job": 1, "delay": 0, "folder": "out"}
POLICY_OF_BEFORE = {
    "policy": 1, "time": "at", "window": "1 hour", "start": "2026-11-22", "delay": 0, "epsilon": 1, "folder": "out",
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"dellay": 1}, "the job has an unknown field 'dellay'; its fields are folder, delay, clock"),
        ({"epsilon": 1}, "the job has an unknown field 'epsilon'; .*; the agreement says that now"),
        ({"window": "1 hour", "schedule": {}}, "unknown field 'schedule'; .*; the agreement says that now"),
        (
            POLICY_OF_BEFORE | {"job": ...},
            "it is a policy of an earlier version: what is published is in the agreement",
        ),
        ({"delay": ...}, "a job needs the field delay"),
        ({"job": 2}, 'set "job": 1'),
        ({"job": True}, 'set "job": 1'),
        ({"folder": 1}, "the folder of a job must be text, got 1"),
        ({"delay": True}, "the delay of a job must be seconds, or text such as '1 hour', got True"),
        ({"delay": 1e308}, "delay must be a whole number of microseconds of at most 70,000 years"),
        ({"delay": -1}, "longer than 0 seconds"),
        ({"delay": "soon"}, "a number and a unit"),
        ({"max_ahead": 10**400}, "max_ahead must be a whole number of microseconds of at most 70,000 years"),
        ({"clock": "wall"}, "clock must be one of events, heartbeats"),
        ({"clock": []}, "a job cannot hold lists or objects, got one for 'clock'"),
        ({"comparisons": "angle"}, "comparisons must be one of distance, cosine, mean"),
        ({"stream": "sales"}, "the job has stream, for `streamsketch stream beam` only"),
        ({"ledger": "a.sqlite"}, "ledger and dataset go together"),
        ({"folder": ""}, "the folder of a job"),
    ],
)
def test_a_mistake_in_a_job_is_a_sentence(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    fields = {name: value for name, value in (GOOD | changes).items() if value is not ...}
    path, (agreement, _) = tmp_path / "job.json", policy_of(tmp_path)
    path.write_text(json.dumps(fields))
    with pytest.raises(ss.InvalidInputError, match=said):
        Stream(agreement, Job.load(path), tmp_path / "s.raw-stream")
    assert [one.name for one in tmp_path.iterdir()] == ["job.json"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"windows": None}, r"the agreement has the windows none: agree on windows that are releases"),
        ({"windows": ss.Windows(time="at", every="1 min")}, "agree on windows that are releases, with a first one"),
        ({"terms": None}, "does not say what a release spends, and a stream publishes with noise"),
        ({"terms": ss.Terms(epsilon=1, mechanism="DP-SignLogistic")}, r"signs are published by agreement\.release"),
        ({"keys": "public"}, r"has public keys: list the keys; others are published by agreement\.release"),
        (
            {"terms": ss.Terms(epsilon=1, delta=1e-6), "keys": ss.Selected(epsilon=0.1, delta=1e-7)},
            "has keys selected with ε = 0.1, δ = 1e-07: list the keys",
        ),
        ({"key": None, "keys": None}, "a stream without a key column needs max_keys=1, got 2"),
        (
            {"windows": ss.Windows(time="at", every="1 min", first="2026-11-22T13:00Z", period="1 h")},
            "keeps a unit to some windows of each period, which `streamsketch stream beam` does",
        ),
    ],
)
def test_what_no_stream_publishes_is_said_with_what_does(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    agreement, job = policy_of(tmp_path)
    with pytest.raises(ss.InvalidInputError, match=said):
        Stream(agreement.replace(**changes), job, tmp_path / "s.raw-stream")


def test_a_stream_is_made_of_an_agreement_and_a_job(tmp_path: Path) -> None:
    agreement, job = policy_of(tmp_path)
    with pytest.raises(TypeError, match="follows an Agreement and a Job, got Job, Agreement"):
        Stream(job, agreement, tmp_path / "s.raw-stream")  # type: ignore[arg-type]


def test_paths_in_a_job_are_from_its_folder(tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text(json.dumps(GOOD | {"ledger": "l.sqlite", "dataset": "sales"}))
    job = Job.load(tmp_path / "job.json")
    assert (job.folder, job.ledger) == (str(tmp_path / "out"), str(tmp_path / "l.sqlite"))
    elsewhere = json.dumps(GOOD | {"ledger": "postgresql+psycopg://", "dataset": "sales", "folder": "s3://sales/out"})
    (tmp_path / "job.json").write_text(elsewhere)
    job = Job.load(tmp_path / "job.json")
    assert (job.folder, job.ledger) == ("s3://sales/out", "postgresql+psycopg://")
    two = json.dumps(GOOD)[:-1] + ', "delay": 1}'
    with pytest.raises(ss.InvalidInputError, match="appears twice"):
        Job.from_json(two)


def test_one_stream_without_keys_is_a_sketch_a_window(out: Path) -> None:
    agreement = ss.Agreement(AGREEMENT.projection, index="item", value="n", unit="customer", neighbours=ss.L1(5))
    stream = Stream(*policy_of(out, agreement), out.parent / "s.raw-stream")
    stream.add(batch_of(LOG), 1)
    stream.save({})
    assert {path.suffix for path in out.iterdir()} == {".sketch"}
    first = ss.load(min(out.iterdir()))
    assert isinstance(first, ss.PrivateSketch)
    told = ss.bound(batch_of(windows_of(LOG)[0][0]), agreement)
    assert isinstance(told, ss.Sketch)
    assert np.array_equal(first.values, told.state()), "units with one item each, so that no choice is left"
    unbounded = ss.Agreement(AGREEMENT.projection, index="item", value="n", neighbours=ss.L1(5, unit="sale"))
    stream = Stream(*policy_of(out, unbounded), out.parent / "t.raw-stream")
    stream.add(batch_of(LOG), 1)
    assert len(stream.save({})) == over_in(LOG), "the names are taken"


def test_names_of_windows_say_where_they_start() -> None:
    def named(**changes: Any) -> str:
        policy = policy_of(Path("out"), **{"delay": 0} | changes)
        return policy.windows.name(policy.first + 1)

    assert named(window="1 day", start="2026-11-22") == "2026-11-23"
    assert named(window="1 day", start="2026-11-22T05:00Z") == "2026-11-23T0500Z"
    assert named(window=0.5, start="2026-11-22") == "2026-11-22T000000.500000Z"


def test_months_of_a_zone_are_released_once_by_their_names(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From 1 November 2026 in Berlin, when clocks are an hour ahead of UTC; the rows begin on the 22nd."""
    day = 24 * 3600
    end = 8 * day + 10 * 3600  # 2026-11-30T23:00Z
    rows = [
        Row(-22 * day, "north", "a", 1, "Ann"),
        Row(end - 1, "north", "a", 2, "Ann"),
        Row(end, "south", "b", 3, "B"),
    ]
    fields = {"window": "month", "zone": "Europe/Berlin", "start": "2026-11"}
    stream = stream_of(out, **fields)
    stream.add(batch_of([*rows, beat(end + 31 * day + 10)]), 1)
    stream.save({})
    assert stream.summary["rows_before_start"] == 1
    assert list(published(out)) == ["2026-11.parquet", "2026-12.parquet"]
    ends = [dt.datetime.fromtimestamp(path.stat().st_mtime, dt.UTC) for path in sorted(out.iterdir())]
    assert [at.isoformat() for at in ends] == ["2026-11-30T23:00:00+00:00", "2026-12-31T23:00:00+00:00"]
    policy = stream.windows._policy
    for number, its in enumerate([[rows[1]], [rows[2]]]):
        table = ss.load(out / f"2026-1{number + 1}.parquet")
        assert table.guarantee.neighbours.unit == "customer in one month (Europe/Berlin)"
        told = bound_by(stream.windows.secret_of(policy.first + number), its, monkeypatch)
        for key in KEYS:
            assert np.array_equal(table[key].values, told.sketch_of(key).state() * float(AGREEMENT.projection.grid))
    with pytest.raises(ss.InvalidInputError, match="follows the agreement"):
        stream_of(out, **fields | {"zone": "Europe/London"})


def test_the_agreement_and_the_job_of_the_documentation_are_some() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "unbounded-streams.md").read_text()
    job = Job.from_json(page.partition("```json\n")[2].partition("```")[0])
    for name in job.to_dict():
        assert f"`{name}`" in page or name == "job", name
