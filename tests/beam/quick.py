"""Beam asks the same questions thousands of times while it builds a pipeline: here it remembers the answers.

What it finds in the signatures and the source of a transform's methods, in the states and timers that they name, and in
the flags of a job, depends on nothing else; finding it again took two thirds of the time of a small pipeline. It also
measures what nobody reads here: where each type hint was given, and how long each step of a bundle takes, in a thread
for each. No result of a pipeline and no decision to refuse one is changed.
"""

import argparse
import bz2
import functools
import threading
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from apache_beam.internal import cloudpickle_pickler
from apache_beam.options import pipeline_options
from apache_beam.runners.worker import statesampler
from apache_beam.transforms import core, userstate
from apache_beam.typehints import decorators

_MOST = 2048


def remember() -> None:
    """Let Beam inspect each function and each step once, and parse each list of flags once for a class of options."""
    core.get_function_args_defaults = _inspected_once(core.get_function_args_defaults)
    core._check_fn_use_yield_and_return = _of_function(core._check_fn_use_yield_and_return)
    userstate.get_dofn_specs = _specified_once(userstate.get_dofn_specs)
    pipeline_options.PipelineOptions.view_as = _parsed_once(pipeline_options.PipelineOptions.view_as)
    hints = decorators.IOTypeHints
    hints.from_callable = staticmethod(_of_function(hints.from_callable))
    hints._make_origin = classmethod(lambda *_, **__: [])
    statesampler.StateSampler.start, statesampler.StateSampler.stop = _start, _stop
    # of the size that Beam asks for, it would clear eight megabytes for every few bytes
    cloudpickle_pickler.bz2 = types.SimpleNamespace(
        compress=lambda data, compresslevel: bz2.compress(data, min(compresslevel, 1)), decompress=bz2.decompress
    )


def _of_function(ask: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Ask about a function once, and once about it as a method."""
    found: dict[tuple[Any, type], Any] = {}

    def answer(function: Any) -> Any:
        plain = function.__func__ if isinstance(function, types.MethodType) else function
        if not isinstance(plain, types.FunctionType):
            return ask(function)
        asked = plain, type(function)
        if asked not in found:
            if len(found) == _MOST:  # each bundle makes functions anew
                found.clear()
            found[asked] = ask(function)
        return found[asked]

    return answer


def _inspected_once(inspect: Any) -> Any:
    once = _of_function(inspect)

    def arguments(function: Any) -> tuple[list[str], list[Any]]:
        names, defaults = once(function)
        return list(names), list(defaults)

    return arguments


def _specified_once(specify: Any) -> Any:
    """Ask about each class of steps once, and about each step that may name states and timers of its own."""
    found: weakref.WeakKeyDictionary[type, tuple[Any, tuple[set[Any], set[Any]]]] = weakref.WeakKeyDictionary()

    def states_and_timers(step: core.DoFn) -> tuple[set[Any], set[Any]]:
        kind = type(step)
        defaults = step._inspect_process()[1] if hasattr(kind, "_inspect_process") else vars(step).values()
        if any(isinstance(one, types.MethodType | core._DoFnParam) for one in defaults):
            return specify(step)
        if kind not in found or found[kind][0] is not kind.process:
            found[kind] = kind.process, specify(step)
        states, timers = found[kind][1]
        return set(states), set(timers)

    return states_and_timers


def _parsed_once(view_as: Any) -> Any:
    @functools.cache
    def parsed(options: type, flags: tuple[str, ...]) -> Any:
        return options(list(flags))

    def fresh(options: type, flags: Sequence[str] | None) -> Any:
        if flags is None:  # those of the process
            return options()
        read = vars(parsed(options, tuple(flags)))["_visible_options"]
        own = {name: list(value) if isinstance(value, list) else value for name, value in vars(read).items()}
        view = object.__new__(options)
        vars(view).update(_flags=flags, _visible_options=argparse.Namespace(**own), _all_options={})
        return view  # to which view_as gives all options of what is viewed

    return lambda options, view: view_as(options, functools.partial(fresh, view))


def _start(sampler: Any) -> None:
    sampler.tracked_thread = threading.current_thread()
    statesampler.set_current_tracker(sampler)
    sampler.started = True


def _stop(sampler: Any) -> None:
    statesampler.set_current_tracker(None)
    sampler.finished = True
