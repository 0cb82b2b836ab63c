"""Faults that are put back (make faults): each fits the library as it is now, and leaves a copy as it was."""

from pathlib import Path

import pytest

import streamsketch.features.kernels
import streamsketch.schedules.tree  # noqa: F401 - a fault is put into what is imported
from streamsketch.core.numbers import check_int
from streamsketch.errors import InvalidInputError
from tests.faults import forks
from tests.faults.__main__ import put_into, summary
from tests.faults.catalogue import LIBRARY, Fault, faults

FAULTS = faults()


def test_each_fault_can_be_put_into_the_library_as_it_is_now() -> None:
    """A change that moves what a fault replaces moves the fault with it."""
    problems = {f"{fault.file}: {fault.name}": problem for fault in FAULTS if (problem := fault.problem())}
    assert not problems


def test_faults_have_names_of_their_own_and_change_something() -> None:
    assert len({(fault.file, fault.name) for fault in FAULTS}) == len(FAULTS)
    assert all(fault.before != fault.after for fault in FAULTS)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.file}: {fault.name}")
def test_a_faulty_file_is_python(fault: Fault) -> None:
    """A syntax error would be noticed by every test, and show nothing."""
    compile(fault.source.replace(fault.before, fault.after), fault.file, "exec")


def test_a_copy_has_the_fault_for_as_long_as_it_is_tried(tmp_path: Path) -> None:
    fault = FAULTS[0]
    path = tmp_path / "streamsketch" / fault.file
    path.parent.mkdir(parents=True)
    path.write_text(fault.source, encoding="utf-8")
    with put_into(tmp_path, fault):
        assert fault.before not in path.read_text(encoding="utf-8")
    assert path.read_bytes() == (LIBRARY / fault.file).read_bytes()


@pytest.mark.parametrize(
    ("concerns", "noticed", "missed", "status"),
    [("privacy", 99, 1, 1), ("privacy", 100, 0, 0), ("answers", 95, 5, 0), ("answers", 94, 6, 1)],
)
def test_every_fault_of_privacy_must_be_noticed_and_most_others(
    concerns: str, noticed: int, missed: int, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    counts = {("privacy", concerns): {"noticed": noticed, "missed": missed}}
    assert summary(counts) == status
    assert f"{noticed} of 100 were noticed" in capsys.readouterr().out


def fault_of(before: str, after: str, file: str = "core/numbers.py") -> Fault:
    return Fault("a fault", file, before, after, ("tests/core",), "answers")


def test_a_fork_has_the_code_of_the_functions_that_a_fault_changes() -> None:
    """What imported the function has the fault as well; the code is put back, as this is no fork."""
    fault = fault_of("value < least", "value <= least")
    assert list(forks.changed_functions(fault)) == ["check_int"]
    kept = check_int.__code__
    try:
        assert forks.swap(fault)
        with pytest.raises(InvalidInputError):
            check_int(1, "a number", 1)
    finally:
        check_int.__code__ = kept
    assert check_int(1, "a number", 1) == 1


@pytest.mark.parametrize(
    ("before", "after", "file"),
    [
        ("_ROUNDING_VARIANCE = 3  #", "_ROUNDING_VARIANCE = 0  #", "privacy/gaussian.py"),  # a constant
        ('    kind = "tree"\n', '    kind = "trees"\n', "schedules/tree.py"),  # a class
        ("rest[i] -= missing**2", "pass", "features/kernels.py"),  # a kernel
    ],
)
def test_what_is_no_function_of_python_is_left_to_a_copy(before: str, after: str, file: str) -> None:
    assert not forks.swap(fault_of(before, after, file))


def test_tests_that_guard_a_fault_are_found_by_their_names() -> None:
    fault = fault_of("", "x")
    assert forks.guards("tests/core/test_files.py::test_one[x]", fault)
    assert not forks.guards("tests/cores/test_files.py::test_one", fault)
