"""Steps that Beam builds in little time are as any other DoFn to it: state, timers, types and results."""

from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms import userstate
from apache_beam.transforms.timeutil import TimeDomain

from streamsketch.beam.run.steps import Each, Step

STATE = userstate.ReadModifyWriteStateSpec("seen", VarIntCoder())
TIMER = userstate.TimerSpec("end", TimeDomain.WATERMARK)


class Base(Step):
    def process(
        self, keyed: tuple[str, int], seen: Any = beam.DoFn.StateParam(STATE), end: Any = beam.DoFn.TimerParam(TIMER)
    ) -> Iterator[int]:
        total = (seen.read() or 0) + keyed[1]
        seen.write(total)
        end.set(0)
        yield total

    @userstate.on_timer(TIMER)
    def ended(self, seen: Any = beam.DoFn.StateParam(STATE)) -> Iterator[int]:
        yield -seen.read()


class Derived(Base):
    def start_bundle(self) -> None:
        pass


@beam.typehints.with_output_types(int)
class Typed(Step):
    def process(self, element: str) -> Iterator[str]:
        yield element


@pytest.mark.parametrize("kind", [Base, Derived])
def test_state_and_timers_are_found(kind: type[Step]) -> None:
    assert userstate.get_dofn_specs(kind()) == ({STATE}, {TIMER})
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        keyed = pipeline | beam.Create([("a", 1), ("a", 2)])
        found = keyed | beam.ParDo(kind()).with_output_types(int)
        assert_that(found | beam.Map(abs), equal_to([1, 3, 3]))


def test_beam_looks_at_no_more_methods_than_a_class_defines() -> None:
    assert [name for name in dir(Derived()) if not name.startswith("_")] == ["ended", "process", "start_bundle"]


def test_types_are_those_declared() -> None:
    assert Typed().get_type_hints().simple_output_type("step") is int
    pipeline = beam.Pipeline(runner="FnApiRunner")
    texts = pipeline | beam.Create(["a"])
    assert (texts | "decorated" >> beam.ParDo(Typed())).element_type is int
    assert (texts | "applied" >> beam.ParDo(Each(_twice)).with_output_types(str)).element_type is str


def test_each_yields_what_a_function_returns() -> None:
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        found = pipeline | beam.Create(["a", "b"]) | beam.ParDo(Each(_twice, "!")).with_output_types(str)
        assert_that(found, equal_to(["a!", "a!", "b!", "b!"]))


def _twice(text: str, end: str = "") -> Iterable[str]:
    return [text + end] * 2
