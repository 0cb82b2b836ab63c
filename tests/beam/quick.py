"""Beam asks the same questions thousands of times while it builds a pipeline: here it remembers the answers.

What it finds in the signatures and the source of a transform's methods, in the states and timers that they name, and in
the flags of a job, depends on nothing else; finding it again took two thirds of the time of a small pipeline. It also
measures what nobody reads here: where each type hint was given, and how long each step of a bundle takes, in a thread
for each, and how large each side input is that it caches, by a walk over all modules. No result of a pipeline and no
decision to refuse one is changed.
"""

import argparse
import bz2
import concurrent.futures
import functools
import sys
import threading
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Self

from apache_beam.internal import cloudpickle_pickler
from apache_beam.options import pipeline_options
from apache_beam.runners.worker import bundle_processor, statecache, statesampler
from apache_beam.transforms import core, userstate
from apache_beam.typehints import decorators

_MOST = 2048


def remember() -> None:
    """Let Beam inspect each function and each step once, and parse each list of flags once for a class of options."""
    core.get_function_args_defaults = _inspected_once(core.get_function_args_defaults)
    core._check_fn_use_yield_and_return = _of_function(core._check_fn_use_yield_and_return)
    userstate.get_dofn_specs = _specified_once(userstate.get_dofn_specs)
    pipeline_options.PipelineOptions.view_as = _parsed_once(pipeline_options.PipelineOptions.view_as)
    pipeline_options.PipelineOptions._visible_option_list = _visible
    pipeline_options.PipelineOptions.get_all_options = _listed_once(pipeline_options.PipelineOptions.get_all_options)
    hints = decorators.IOTypeHints
    hints.from_callable = staticmethod(_of_function(hints.from_callable))
    hints._make_origin = classmethod(lambda *_, **__: [])
    statecache.get_deep_size = lambda *_: 1 << 10  # of the cache's 100 MB
    sys.modules.setdefault("IPython", None)  # type: ignore[arg-type] - so that nobody looks for it at each transform
    # each stage would start a thread to build its steps, and wait for it
    bundle_processor.concurrent = types.SimpleNamespace(
        futures=types.SimpleNamespace(ThreadPoolExecutor=_AtOnce, TimeoutError=concurrent.futures.TimeoutError)
    )
    statesampler.StateSampler.start, statesampler.StateSampler.stop = _start, _stop
    # of the size that Beam asks for, it would clear eight megabytes for every few bytes
    compressed = functools.lru_cache(_MOST)(functools.partial(bz2.compress, compresslevel=1))
    cloudpickle_pickler.bz2 = types.SimpleNamespace(
        compress=lambda data, **_: compressed(data), decompress=functools.lru_cache(_MOST)(bz2.decompress)
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


_names: dict[frozenset[str], list[str]] = {}


def _visible(options: Any) -> list[str]:
    """Sort the names of each set of options once."""
    names = frozenset(vars(options._visible_options))
    if names not in _names:
        _names[names] = sorted(name for name in names if name[0] != "_")
    return _names[names]


def _listed_once(list_all: Any) -> Any:
    """Parse each list of flags once for each set of classes of options, and each set of what was set besides."""
    found: dict[Any, dict[str, Any]] = {}

    def listed(options: Any, drop_default: bool = False, add_extra_args_fn: Any = None, **how: Any) -> dict[str, Any]:  # noqa: FBT001, FBT002 - Beam's own
        known = len(pipeline_options.PipelineOptions.__subclasses__())
        own = repr((type(options), options._flags, options._all_options, drop_default, how, known))
        if add_extra_args_fn is not None or how.get("current_only"):
            return list_all(options, drop_default, add_extra_args_fn, **how)
        if own not in found:
            found[own] = list_all(options, drop_default, **how)
        return dict(found[own])

    return listed


class _AtOnce:
    """An executor for one call, which runs it in the thread that asks."""

    def __init__(self, **_: Any) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def submit(self, call: Callable[..., Any], *arguments: Any) -> Any:
        found = call(*arguments)
        return types.SimpleNamespace(result=lambda **_: found)


def _start(sampler: Any) -> None:
    sampler.tracked_thread = threading.current_thread()
    statesampler.set_current_tracker(sampler)
    sampler.started = True


def _stop(sampler: Any) -> None:
    statesampler.set_current_tracker(None)
    sampler.finished = True
