"""Processes among which pytest-xdist divides the tests: what each loads, and what it reports."""

import atexit
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from _pytest.outcomes import OutcomeException
from _pytest.pathlib import import_path
from _pytest.runner import runtestprotocol
from _pytest.unraisableexception import gc_collect_iterations_key

from tests.noise import fixed_noise


def import_in_turn(config: pytest.Config, files: Sequence[Path]) -> None:
    """Import the tests' files before pytest does, in another order in each process.

    All processes need all files, and what these import. In one order, each would compile the same modules and rewrite
    the same asserts at the same time, and wait for the same kernels. Of two, one begins at the end, and finds most of
    what it meets after the middle compiled.
    """
    worker = config.workerinput  # type: ignore[attr-defined] # of xdist
    pair, backwards = divmod(int(worker["workerid"].removeprefix("gw")), 2)
    first = len(files) * 2 * pair // worker["workercount"]
    order = (*files[first:], *files[:first])
    for path in reversed(order) if backwards else order:
        try:
            with fixed_noise(path.relative_to(config.rootpath).as_posix()):  # as where pytest collects the file
                import_path(path, mode="importlib", root=config.rootpath, consider_namespace_packages=False)
        except (Exception, OutcomeException):  # noqa: BLE001 - pytest imports it again, and reports what is wrong
            for name in [name for name, module in sys.modules.items() if getattr(module, "__file__", "") == str(path)]:
                del sys.modules[name]


def exit_at_once(config: pytest.Config) -> None:
    """Let this process end after what others registered for its exit, without the search for garbage in all it loaded.

    The search takes seconds. Without it, what `gc.freeze` keeps is not freed, and DuckDB prints what it misses. For
    exceptions in finalizers pytest searches two times instead of ten.
    """
    config.stash[gc_collect_iterations_key] = 1
    own = os.getpid()
    atexit.register(lambda: os._exit(0) if os.getpid() == own else None)  # the first registered is the last called


class BriefReports:
    """Report of a test that passes one phase instead of three.

    The controlling process takes longer to read the reports of most tests than the test takes. It is one of those
    among which the processor is divided.
    """

    @pytest.hookimpl
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """Run a test, and report its call, and its setup and teardown if these did not pass."""
        for report in runtestprotocol(item, log=False, nextitem=nextitem):
            if report.when == "call" or not report.passed:
                report.keywords = {}  # names of all that the test is in, which no reporter reads
                item.ihook.pytest_runtest_logreport(report=report)
        if nextitem is None:
            item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    @staticmethod
    def suffice(config: pytest.Config) -> bool:
        """Return whether no option needs to know of each phase, or of a failure before the test is torn down."""
        option = config.option
        return not (option.verbose > 0 or option.durations is not None or option.xmlpath or option.maxfail)
