"""A plugin of pytest for the audit, in the process that gathers reports: it writes what came of each test, as JSON."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

REPORT = "STREAMSKETCH_AUDIT_REPORT"
"""The environment variable with the path of the file."""

_found: dict[str, dict[str, Any]] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep the worst outcome of a test's phases, and what it reported."""
    entry = _found.setdefault(report.nodeid, {"outcome": "passed", "seconds": 0.0})
    entry["seconds"] += report.duration
    if report.outcome != "passed":
        entry["outcome"] = report.outcome
    if report.when == "teardown":
        entry |= {name: value for name, value in report.user_properties if name in ("cases", "margin", "rejects")}


def pytest_unconfigure(config: pytest.Config) -> None:
    """Write the file, in the process that has all reports."""
    if not hasattr(config, "workerinput") and REPORT in os.environ:
        Path(os.environ[REPORT]).write_text(json.dumps(_found), encoding="utf-8")
