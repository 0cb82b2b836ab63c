"""Faults put into a running library: all tests are collected once, and each fault is tried in a fork of that process.

A fault that changes functions gets their code swapped, so that every module that imported them has the fault. Others,
which change constants, classes or kernels, are tried in a copy. So is a fault that no test noticed in a fork: what a
module of tests made when it was imported was made without the fault.
"""

import functools
import os
import re
import signal
import sys
import time
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.faults.catalogue import LIBRARY, Fault

CANNOT = 77
"""The status of a fork that cannot have its fault."""

_CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)  # which a fault may end in


def codes_in(source: str, file: str) -> Iterator[tuple[str, types.CodeType]]:
    """Yield the code of each function of a module, and of each method, by its name in the module."""

    def walk(code: types.CodeType, prefix: str) -> Iterator[tuple[str, types.CodeType]]:
        for part in code.co_consts:
            if isinstance(part, types.CodeType):
                name = f"{prefix}{part.co_name}"
                if part.co_flags & 0x2:  # CO_NEWLOCALS: a function, which holds those within it
                    yield name, part
                else:
                    yield from walk(part, f"{name}.")

    return walk(compile(source, file, "exec"), "")


def changed_functions(fault: Fault) -> dict[str, types.CodeType]:
    """Return the code of the functions that a fault changes, by name; none if it changes anything else."""
    file = str(LIBRARY / fault.file)
    faulty = fault.source.replace(fault.before, fault.after)
    before, after = (list(codes_in(source, file)) for source in (fault.source, faulty))
    if [name for name, _ in before] != [name for name, _ in after] or _rest(fault.source) != _rest(faulty):
        return {}
    return {name: new for (name, old), (_, new) in zip(before, after, strict=True) if _text(old) != _text(new)}


def _text(code: types.CodeType) -> tuple[object, ...]:
    """Return what a code does, without the numbers of its lines."""
    constants = tuple(
        _text(part) if isinstance(part, types.CodeType) else (part, type(part)) for part in code.co_consts
    )
    return code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars, code.co_exceptiontable


def _rest(source: str) -> tuple[object, ...]:
    """Return what a module does besides its functions: constants, classes, defaults and decorators."""

    def without(code: types.CodeType) -> tuple[object, ...]:
        constants = tuple(
            (part.co_name if part.co_flags & 0x2 else without(part)) if isinstance(part, types.CodeType) else part
            for part in code.co_consts
        )
        return code.co_code, repr(constants), code.co_names

    return without(compile(source, "", "exec"))


def function_of(found: Any) -> types.FunctionType | None:
    """Return the Python function of what a name is bound to, or None if there is none whose code can be swapped."""
    while not isinstance(found, types.FunctionType) or hasattr(found, "__wrapped__"):
        inner = next(
            (
                getattr(found, name)
                for name in ("__wrapped__", "__func__", "fget", "func")
                if getattr(found, name, None) is not None and not hasattr(found, "py_func")
            ),
            None,
        )
        if inner is None:
            return None
        found = inner
    return found


def swap(fault: Fault) -> bool:
    """Let this process have a fault, and return whether it has it."""
    module = sys.modules.get(
        "streamsketch." + fault.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    )
    codes = changed_functions(fault)
    if module is None or not codes:
        return False
    pairs = []
    for name, code in codes.items():
        holder: Mapping[str, Any] = vars(module)
        *classes, own = name.split(".")
        for part in classes:
            holder = vars(holder[part]) if part in holder else {}
        function = function_of(holder.get(own))
        if function is None or function.__code__.co_freevars != code.co_freevars:
            return False
        pairs.append((function, code))
    for function, code in pairs:
        function.__code__ = code
    return True


class Forks:
    """Tries faults in place of the tests that were collected.

    Parameters
    ----------
    faults
        The faults.
    jobs
        How many forks at once.
    patience
        Seconds after which a fork that hangs has noticed its fault.
    report
        Called with each fault and the status of its fork: 0, no test failed; 1, one did; `CANNOT`; others, neither.
    """

    def __init__(self, faults: list[Fault], jobs: int, patience: float, report: Callable[[Fault, int], None]) -> None:
        self._left, self._jobs, self._patience, self._report = list(faults), jobs, patience, report
        self._running: dict[int, tuple[Fault, float]] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try each fault with the tests that guard it."""
        while self._left or self._running:
            while self._left and len(self._running) < self._jobs:
                fault = self._left.pop(0)
                items = likely_first([item for item in session.items if guards(item.nodeid, fault)], fault)
                self._running[self._begun(session, fault, items)] = fault, time.monotonic() + self._patience
            self._wait()
        return True

    def _begun(self, session: pytest.Session, fault: Fault, items: list[pytest.Item]) -> int:
        if process := os.fork():
            return process
        os.setpgid(0, 0)
        status = CANNOT + 1
        try:
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            status = run(session, items) if items and swap(fault) else CANNOT
        finally:
            os._exit(status)

    def _wait(self) -> None:
        process, status = os.waitpid(-1, os.WNOHANG)
        if process in self._running:
            code = os.waitstatus_to_exitcode(status)
            self._report(self._running.pop(process)[0], 1 if -code in _CRASHES else code)
            return
        for late in [process for process, (_, end) in self._running.items() if time.monotonic() > end]:
            os.killpg(late, signal.SIGKILL)
            os.waitpid(late, 0)
            self._report(self._running.pop(late)[0], 1)
        time.sleep(0.05)


def run(session: pytest.Session, items: list[pytest.Item]) -> int:
    """Run tests until one fails, and return 1 if one did, else 0."""
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed:
            return 1
    return 0


def guards(name: str, fault: Fault) -> bool:
    """Return whether a test, by its name, is one of those that must notice a fault."""
    return any(name.startswith(one) and name[len(one) :][:1] in ("", "/", ":", "[") for one in fault.tests)


def likely_first(items: list[pytest.Item], fault: Fault) -> list[pytest.Item]:
    """Return tests by how many of the names that a fault touches stand in their files, as one ends at a failure."""
    touched = {part.strip("_") for name in changed_functions(fault) for part in name.split(".")}
    touched |= {Path(fault.file).stem, *re.findall(r"[A-Za-z]{6,}", fault.before)}
    return sorted(items, key=lambda item: -sum(name in _text_of(item.path) for name in touched))


@functools.cache
def _text_of(path: Path) -> str:
    return f"{path}\n{path.read_text(encoding='utf-8')}"


@functools.cache
def files_of(tests: tuple[str, ...]) -> tuple[str, ...]:
    """Return arguments of pytest without the names of tests within files."""
    return tuple(dict.fromkeys(test.partition("::")[0] for test in tests))


def tried_in_forks(faults: list[Fault], jobs: int, patience: float, report: Callable[[Fault, int], None]) -> None:
    """Collect the tests of faults, and try each in a fork; where there are none, report that no fault could be had."""
    if not hasattr(os, "fork"):
        for fault in faults:
            report(fault, CANNOT)
        return
    named = sorted({file for fault in faults for file in files_of(fault.tests)})
    inside = [file for file in named if not any(str(one) in named for one in Path(file).parents)]
    options = ["-q", "-n", "0", "-p", "no:cacheprovider", "-m", "not tools and not long"]
    # what hypothesis imported before pytest is not of the tests
    pytest.main(
        [*options, "-W", "ignore::pytest.PytestAssertRewriteWarning", *inside], [Forks(faults, jobs, patience, report)]
    )
