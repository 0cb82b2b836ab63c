"""Beam asks the same questions thousands of times while it builds a pipeline: here it remembers the answers.

What it finds in the signatures and the source of a transform's methods, in the states and timers that they name, and in
the flags of a job, depends on nothing else; finding it again took two thirds of the time of a small pipeline. It also
measures what nobody reads here: where each type hint was given, and how long each step of a bundle takes, in a thread
for each, and how large each side input is that it caches, by a walk over all modules. Its `Create` shuffles what it
makes, for workers that are not there. No result of a pipeline and no
decision to refuse one is changed.
"""

import argparse
import bz2
import concurrent.futures
import contextvars
import functools
import sys
import threading
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Self

from apache_beam.internal import cloudpickle_pickler, pickler
from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.options import pipeline_options
from apache_beam.runners.portability.fn_api_runner import fn_runner
from apache_beam.runners.worker import bundle_processor, statecache, statesampler
from apache_beam.transforms import core, ptransform, userstate
from apache_beam.typehints import decorators, trivial_inference

_MOST = 2048
_NAMING = types.MethodType, core._StateDoFnParam, core._TimerDoFnParam


def remember() -> None:
    """Let Beam inspect each function and each step once, and parse each list of flags once for a class of options."""
    core.get_function_args_defaults = _inspected_once(core.get_function_args_defaults)
    core._check_fn_use_yield_and_return = _of_code(core._check_fn_use_yield_and_return)
    core.Create.__init__ = _unshuffled(core.Create.__init__)
    core.Create.infer_output_type = _inferred_once(core.Create.infer_output_type)
    trivial_inference.infer_return_type_func = _of_types(trivial_inference.infer_return_type_func)
    ptransform.pickler = types.SimpleNamespace(**vars(ptransform.pickler) | {"roundtrip": _checked})
    cloudpickle._should_pickle_by_reference = _found_first(cloudpickle._should_pickle_by_reference)
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
    fn_runner.FnApiRunner.run_pipeline = _marked(fn_runner.FnApiRunner.run_pipeline)
    cloudpickle_pickler.bz2 = types.SimpleNamespace(compress=_compressed, decompress=_decompressed)


_here = contextvars.ContextVar("_here", default=False)  # whether all of a pipeline runs in this process
_PLAIN = b"plain "


def _marked(run: Any) -> Any:
    def marked(runner: Any, pipeline: Any, options: Any) -> Any:
        mode = options.view_as(pipeline_options.DirectOptions).direct_running_mode
        token = _here.set(mode == "in_memory")
        try:
            return run(runner, pipeline, options)
        finally:
            _here.reset(token)

    return marked


def _compressed(data: bytes, **_: Any) -> bytes:
    """Leave what no other process reads; of the size that Beam asks for, it would clear megabytes for a few bytes."""
    return _PLAIN + data if _here.get() else bz2.compress(data, compresslevel=1)


def _decompressed(data: bytes) -> bytes:
    return data[len(_PLAIN) :] if data.startswith(_PLAIN) else bz2.decompress(data)


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


def _of_code(ask: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Ask about a function's source once, however often it is defined."""
    answer = functools.lru_cache(_MOST)(ask)
    return lambda function: answer(getattr(function, "__code__", None) or function)


def _of_types(infer: Any) -> Any:
    """Infer once what a function without a closure returns for arguments of given types, not of given values."""
    found: dict[Any, Any] = {}

    def inferred(function: Any, types_: Sequence[Any], debug: bool = False, depth: int = 0) -> Any:  # noqa: FBT001, FBT002 - Beam's own
        if function.__closure__ or debug or any(isinstance(one, trivial_inference.Const) for one in types_):
            return infer(function, types_, debug, depth)
        key = function.__code__, function.__module__, tuple(types_), depth
        if key not in found:
            found[key] = infer(function, types_, debug, depth)
        return found[key]

    return inferred


def _unshuffled(initialise: Any) -> Any:
    """Let `Create` begin a pipeline without a shuffle, which is for several workers."""

    def create(self: core.Create, values: Any, reshuffle: bool = False) -> None:  # noqa: FBT001, FBT002 - Beam's own
        initialise(self, values, reshuffle)

    return create


def _inferred_once(infer: Any) -> Any:
    def inferred(self: core.Create, of: Any) -> Any:
        if "_inferred" not in vars(self):
            self._inferred = infer(self, of)
        return self._inferred

    return inferred


def _checked(given: Any) -> Any:
    """Refuse what cannot be pickled, and copy what has something in it."""
    if given in ((), {}):
        return given
    if isinstance(given, tuple | dict):
        return pickler.roundtrip(given)
    cloudpickle_pickler._dumps(given)
    return given


def _found_first(decide: Any) -> Any:
    """Look for what is in its module under its own name there, before the ways for what is not."""

    def by_reference(thing: Any, name: str | None = None, config: Any = cloudpickle.DEFAULT_CONFIG) -> Any:
        own = getattr(thing, "__qualname__", "") if name is None else name
        module = sys.modules.get(getattr(thing, "__module__", None) or "__main__")
        if (
            cloudpickle._PICKLE_BY_VALUE_MODULES
            or module is None
            or module.__name__ == "__main__"
            or vars(module).get(own, decide) is not thing
        ):
            return decide(thing, name, config)
        return True

    return by_reference


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
        if any(isinstance(one, _NAMING) for one in defaults):
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
