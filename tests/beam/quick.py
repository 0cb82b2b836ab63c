"""Beam asks the same questions thousands of times while it builds a pipeline: here it remembers the answers.

What it finds in the signatures of a transform's methods, in the states and timers that they name, and in the flags of a
job, depends on nothing else; finding it again took two thirds of the time of a small pipeline. No behaviour is changed.
"""

import argparse
import functools
import types
import weakref
from collections.abc import Sequence
from typing import Any

from apache_beam.options import pipeline_options
from apache_beam.transforms import core, userstate


def remember() -> None:
    """Let Beam inspect each function and each step once, and parse each list of flags once for a class of options."""
    core.get_function_args_defaults = _inspected_once(core.get_function_args_defaults)
    userstate.get_dofn_specs = _specified_once(userstate.get_dofn_specs)
    pipeline_options.PipelineOptions.view_as = _parsed_once(pipeline_options.PipelineOptions.view_as)


def _inspected_once(inspect: Any) -> Any:
    found: weakref.WeakKeyDictionary[Any, tuple[list[str], list[Any]]] = weakref.WeakKeyDictionary()

    def arguments(function: Any) -> tuple[list[str], list[Any]]:
        if not isinstance(function, types.MethodType) or not isinstance(function.__func__, types.FunctionType):
            return inspect(function)
        if function.__func__ not in found:
            found[function.__func__] = inspect(function)
        names, defaults = found[function.__func__]
        return list(names), list(defaults)

    return arguments


def _specified_once(specify: Any) -> Any:
    found: weakref.WeakKeyDictionary[Any, tuple[set[Any], set[Any]]] = weakref.WeakKeyDictionary()

    def states_and_timers(step: core.DoFn) -> tuple[set[Any], set[Any]]:
        try:
            if step not in found:
                found[step] = specify(step)
        except TypeError:  # it has no hash
            return specify(step)
        states, timers = found[step]
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
