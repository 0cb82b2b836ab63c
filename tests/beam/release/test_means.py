"""Means through Beam: the bits of one loop, whatever the bundles, and nothing but sound reports."""

import functools
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.transforms.display import DisplayData
from apache_beam.transforms.window import FixedWindows, GlobalWindow, TimestampedValue
from hypothesis import given
from hypothesis import strategies as st

from streamsketch.beam import MeanAggregatorCoder, MeanPerKey
from streamsketch.beam.release import means
from streamsketch.beam.run.steps import merge_group
from streamsketch.errors import WireFormatError
from streamsketch.local import MeanAggregator, Mechanism, PrivHS, ProjUnit, Report, Reports
from tests.beam.running import run
from tests.local.directions import bits, directions

MECHANISM = ProjUnit(dim=20, sketch_dim=8, epsilon=4.0, shared=True, seed=3)
KEYS: list[Any] = ["north", "south", b"west", 4]
VECTORS = np.stack(list(directions(20).values()) * 8)


@functools.cache
def reports() -> list[Report]:
    return list(MECHANISM.randomize_many(VECTORS, bits=bits("beam")))


def elements() -> list[tuple[Any, Report]]:
    return [(KEYS[i % 4], report) for i, report in enumerate(reports())]


def loops() -> dict[Any, MeanAggregator]:
    servers = {key: MeanAggregator(MECHANISM) for key in KEYS}
    for key, report in elements():
        servers[key].add(report)
    return servers


def batched(pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Reports]]:
    found = []
    for key in KEYS:
        mine = [report for of, report in pairs if of == key]
        seeds = np.array([report.seed for report in mine], dtype=np.uint64)
        found.append((key, Reports(MECHANISM, seeds, np.stack([report.values for report in mine]))))
    return found


def as_bytes(pairs: list[tuple[Any, Report]]) -> list[tuple[Any, bytes]]:
    return [(key, report.to_bytes()) for key, report in pairs]


@pytest.mark.parametrize(
    ("form", "options"),
    [(list, []), *((form, ["--direct_runner_bundle_repeat=2"]) for form in (list, batched, as_bytes))],
)
def test_means_are_those_of_one_loop(
    form: Callable[[list[Any]], list[Any]], options: list[str], tmp_path: Path
) -> None:
    found, _ = run(
        lambda pipeline: pipeline | beam.Create(form(elements())) | MeanPerKey(MECHANISM), tmp_path, *options
    )
    assert {key for key, _ in found} == set(KEYS)
    for key, server in found:
        assert server == loops()[key]
        assert server.mean().tobytes() == loops()[key].mean().tobytes()


@given(
    order=st.permutations(range(len(VECTORS))),
    flush=st.sampled_from([1, 1 << 27]),
    bundle=st.integers(1, len(VECTORS)),
)
def test_any_order_and_bundling_gives_the_same_bits(order: list[int], flush: int, bundle: int) -> None:
    """Of the step that adds up reports; `merge_group` adds up what it emits."""
    step, window = means.SumBundles(MECHANISM, flush_bytes=flush), GlobalWindow()
    parts: dict[Any, list[Any]] = {}
    for start in range(0, len(order), bundle):
        step.start_bundle()
        emitted = [part for i in order[start : start + bundle] for part in step.process(elements()[i], window)]
        for part in (*emitted, *step.finish_bundle()):
            key, total = part.value
            parts.setdefault(key, []).append(total)
    assert dict(pair for group in parts.items() for pair in merge_group(group)) == loops()


def test_windows_are_kept_apart(tmp_path: Path) -> None:
    stamped = [TimestampedValue((key, report), 10 * (i < 16)) for i, (key, report) in enumerate(elements())]
    found, _ = run(
        lambda pipeline: pipeline | beam.Create(stamped) | beam.WindowInto(FixedWindows(5)) | MeanPerKey(MECHANISM),
        tmp_path,
    )
    assert sorted(server.count for _, server in found) == [4, 4, 4, 4, 6, 6, 6, 6]


@pytest.mark.parametrize(
    ("element", "problem"),
    [
        (lambda: ("north", PrivHS(dim=20, epsilon=4.0).randomize(VECTORS[0])), "cannot be added"),
        (lambda: ("north", b"nonsense"), "not the first bytes of a report"),
        (lambda: ("north", VECTORS[0]), "Report, Reports or bytes"),
        (lambda: (1.5, reports()[0]), "text, bytes or integers"),
        (lambda: reports()[0], "pairs"),
    ],
)
def test_invalid_elements_end_the_job(element: Callable[[], Any], problem: str, tmp_path: Path) -> None:
    with pytest.raises(Exception, match=problem):
        run(lambda pipeline: pipeline | beam.Create([element()]) | MeanPerKey(MECHANISM), tmp_path)


def test_whoever_sends_reports_cannot_end_the_job_where_malformed_ones_are_dropped(tmp_path: Path) -> None:
    stranger = PrivHS(dim=20, epsilon=4.0)
    hostile: list[tuple[Any, Any]] = [
        ("north", stranger.randomize(VECTORS[0])),
        ("north", stranger.randomize_many(VECTORS[:3])),
        ("north", b"nonsense"),
        ("south", reports()[0].to_bytes()[:-1]),
        ("nobody", b""),
    ]
    found, counters = run(
        lambda pipeline: pipeline | beam.Create(hostile + elements()) | MeanPerKey(MECHANISM, drop_malformed=True),
        tmp_path,
    )
    assert dict(found) == loops()
    assert counters == {"reports_dropped": 7}
    with pytest.raises(Exception, match="Report, Reports or bytes"):
        run(
            lambda pipeline: pipeline | beam.Create([("north", 7)]) | MeanPerKey(MECHANISM, drop_malformed=True),
            tmp_path,
        )


def poisoned(report: Report) -> Report:
    return Report(MECHANISM, report.seed, 50 * report.values)


def test_reports_longer_than_honest_ones_end_the_job_or_are_left_out(tmp_path: Path) -> None:
    """Of a batch the others are kept."""
    false = poisoned(reports()[0])
    batch = Reports(
        MECHANISM, np.array([false.seed, 4], dtype=np.uint64), np.stack([false.values, reports()[1].values])
    )
    for element in (false, batch, false.to_bytes()):
        with pytest.raises(Exception, match="dishonest"):
            run(
                lambda pipeline, one=("north", element): pipeline | beam.Create([one]) | MeanPerKey(MECHANISM), tmp_path
            )
    sent = [("north", false), ("south", batch), ("south", false.to_bytes()), ("north", false.to_bytes())]
    found, counters = run(
        lambda pipeline: pipeline | beam.Create(sent) | MeanPerKey(MECHANISM, drop_malformed=True), tmp_path
    )
    expected = MeanAggregator(MECHANISM)
    expected.add(Report(MECHANISM, 4, reports()[1].values))
    assert dict(found) == {"south": expected}
    assert counters == {"reports_dropped": 4}


def test_damaged_bytes_are_named_by_the_error_of_their_own(tmp_path: Path) -> None:
    """Beam rebuilds a worker's exception from its arguments, or makes a RuntimeError of it."""
    element = "north", reports()[0].to_bytes()[:-1]
    with pytest.raises(WireFormatError) as caught:
        run(lambda pipeline: pipeline | beam.Create([element]) | MeanPerKey(MECHANISM), tmp_path)
    assert "Add up bundles" in str(caught.value)
    assert caught.value.problem
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own
    assert (str(again), again.where) == (str(caught.value), caught.value.where)


def test_beam_has_nothing_to_warn_of(caplog: pytest.LogCaptureFixture) -> None:
    pipeline = beam.Pipeline(runner="FnApiRunner")
    _ = pipeline | beam.Create([("north", b"")]) | MeanPerKey(PrivHS(dim=3, epsilon=1.0))
    assert "Using yield and return" not in caplog.text


def test_a_batch_of_nobody_makes_no_key(tmp_path: Path) -> None:
    nobody = MECHANISM.randomize_many(np.empty((0, 20)))
    sent = [("north", nobody), ("south", reports()[0]), ("south", nobody)]
    found, _ = run(lambda pipeline: pipeline | beam.Create(sent) | MeanPerKey(MECHANISM), tmp_path)
    assert [(key, server.count) for key, server in found] == [("south", 1)]


def test_the_coder_is_the_exchange_format() -> None:
    server, coder = loops()["north"], beam.coders.registry.get_coder(MeanAggregator)
    assert isinstance(coder, MeanAggregatorCoder)
    assert coder.is_deterministic()
    assert coder.encode(server) == server.to_bytes()
    assert coder.decode(coder.encode(server)) == server
    assert coder.to_type_hint() is MeanAggregator


def test_the_transform_shows_the_mechanism_and_takes_no_other() -> None:
    shown = DisplayData.create_from(MeanPerKey(MECHANISM)).items
    assert Mechanism.from_json(next(item.value for item in shown if item.key == "mechanism")) == MECHANISM
    with pytest.raises(TypeError, match="must be a Mechanism"):
        MeanPerKey("proj-unit")  # type: ignore[arg-type]
