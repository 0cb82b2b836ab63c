"""What holds for every test."""

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # of NumPy, when it is imported: tests run beside each other

import gc
import sys
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import settings

from tests.audit.record import taken
from tests.noise import CHANCE, SALT, fixed_noise
from tests.powered import stay_powered
from tests.workers import BriefReports, exit_at_once, import_in_turn

if TYPE_CHECKING:
    from tests.cli.running import Forks

# No test asserts a time: an example may be the one that compiles a kernel. What finds a fault in hundreds of examples
# finds most in 15, and is run every night with more; a law that needs more to hold at all says how many.
settings.register_profile("any speed", parent=settings.default, deadline=None, max_examples=15)
settings.register_profile("long", parent=settings.default, deadline=None, max_examples=200)
settings.load_profile("any speed")

# What is printed goes neither by the terminal nor by the service that runs the tests.
for name in (
    "COLUMNS",
    "FORCE_COLOR",
    "GITHUB_ACTIONS",
    "LINES",
    "NO_COLOR",
    "PY_COLORS",
    "TTY_COMPATIBLE",
    "TTY_INTERACTIVE",
):
    os.environ.pop(name, None)
os.environ["TERM"] = "xterm"
stay_powered()
# Each process that a test starts would compile the library again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Look for no garbage while all is loaded: there is hardly any, and each look takes longer than the last."""
    config = session.config
    if config.pluginmanager.has_plugin("dsession"):  # other processes load and run the tests
        return (yield)
    gc.disable()
    try:
        from tests.compiled import compile_once  # noqa: PLC0415 - it loads Numba

        compile_once()
        if hasattr(config, "workerinput"):  # one of several processes
            exit_at_once(config)
            folders = [path for path in map(config.invocation_params.dir.joinpath, config.args) if path.is_dir()]
            found = sorted(file for folder in folders for file in folder.rglob("test_*.py"))
            import_in_turn(config, [file for file in found if not _ignored(file, config)])
            if BriefReports.suffice(config):
                config.pluginmanager.register(BriefReports())
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for examples in the docstrings of the library alone: the tests have none, and looking takes its time."""
    return [found for found in (yield) if not isinstance(found, DoctestModule)]


LONGEST = (
    "tests/test_wheel.py",
    "tests/docs/test_readme.py",
    "tests/kernels/test_targets.py",
    "tests/clusters/test_runners.py",
    "tests/benchmarks/test_smoke.py",
    "tests/test_generated.py",
    "tests/test_removal.py",
    "tests/jobs/test_standby.py",
    "tests/jobs/test_readers.py",
)
"""Files with tests of four seconds and more, which begin first: one that came last would leave other cores idle.

The last two wait for processes, and cores that are idle then would be at the end of a run.
"""


ROOT = Path(__file__).parent.parent
TOOLS = (
    "tests/test_wheel.py",
    "tests/benchmarks/",
    "tests/docs/test_architecture.py",
    "tests/docs/test_figures.py",
    "tests/docs/test_gallery.py",
    "tests/docs/test_notebooks.py",
    "tests/docs/test_pages.py",
    "tests/docs/test_readme.py::test_the_figures_for_whole_aircraft_come_out",
    "tests/docs/test_readme.py::test_the_demo_prints_a_table_and_writes_every_result",
    "tests/docs/test_readme.py::test_the_table_of_projections_holds_what_the_library_says",
    "tests/docs/test_reference.py",
    "tests/docs/test_site.py",
    "tests/docs/test_tutorials.py",
    "tests/golden/test_go_reader.py",
    "tests/pipelines/",
    "tests/report/test_choice.py::test_four_hundred_streams_make_a_page_of_a_megabyte",
    "tests/report/test_browser.py",
    "tests/report/test_paper.py",
    "tests/core/test_jit.py",
    "tests/test_reader.py::test_the_reader_is_the_same_package_in_90_mb",
    "tests/kernels/test_targets.py",
    "tests/kernels/test_carryless.py::test_every_code_gives_the_same_bits_without_another_instruction",
)
"""Pages, programs and builds around the library, no laws of it: `make test-tools`, which CI runs, too."""


def _ignored(path: Path, config: pytest.Config) -> bool:
    """Return whether all tests of a file are of tools, and these are not asked for: it is not even imported."""
    if not path.is_relative_to(ROOT) or "not tools" not in config.option.markexpr:
        return False
    return path.relative_to(ROOT).as_posix().startswith(tuple(name for name in TOOLS if "::" not in name))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no file whose tests are all deselected: plots and models would be loaded for none of them."""
    return True if collection_path.is_file() and _ignored(collection_path, config) else None


DRAWN = pytest.StashKey[Mapping[str, object]]()
"""What a test has drawn: empty for one that draws no secret bits."""

ELSEWHERE = {
    "tools": "pages, pictures, demos and builds have a target of their own",
    "long": "larger versions of tests run every night",
}


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the longest tests begin first; mark tools, and what runs on Prism, by a fixture or by a runner's name."""
    for item in items:
        if "prism" in getattr(item, "fixturenames", ()) or "prism" in item.name.partition("[")[2].lower():
            item.add_marker("prism")
        if item.nodeid.startswith(TOOLS):
            item.add_marker("tools")
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over what was loaded, and make small pipelines cheap where a test runs any."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)  # tests leave little garbage, and pipelines make much that is soon gone
    if "apache_beam" in sys.modules:
        from tests.beam.quick import remember  # noqa: PLC0415 - it needs Beam

        remember()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, object, object]:
    """Let what a module of tests releases when it is imported draw the same noise."""
    with fixed_noise(collector.nodeid):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Let a test draw the same noise at each run."""
    with fixed_noise(item.nodeid) as item.stash[DRAWN]:
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Let reports say how often a test that depends on the salt may fail, and what it told the audit."""
    stated = item.get_closest_marker("rejects")
    if SALT and (stated or item.stash[DRAWN]):
        item.user_properties.append(("rejects", stated.args[0] if stated else 1 / CHANCE))
    if (found := taken()) is not None:  # for the audit
        item.user_properties += [("cases", found.cases), *([] if found.margin is None else [("margin", found.margin)])]
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Let what several tests share draw the same noise, whichever of them is first."""
    if fixturedef.scope == "function":
        return (yield)
    with fixed_noise(f"{fixturedef.baseid}::{fixturedef.argname}[{getattr(request, 'param_index', 0)}]"):
        return (yield)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Say what was skipped and why, and what of the whole suite was not chosen, in the last line."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is None:
        return
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in terminal.stats.get("skipped", []))
    left = [f"{reason} ({count})" for reason, count in reasons.most_common()]
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        left += [
            f"{what} (make test-{name})" for name, what in ELSEWHERE.items() if f"not {name}" in config.option.markexpr
        ]
    if left:
        terminal.write_line("Skipped: " + "; ".join(left))


@pytest.fixture(scope="session")
def forks() -> Iterator["Forks"]:
    """Run commands in this process, and in forks of one that starts at the first of them."""
    from tests.cli.running import Forks  # noqa: PLC0415 - it keeps the environment as it finds it

    with Forks() as running:
        yield running
