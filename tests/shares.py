"""Shares of the tests' files: each process that runs tests collects one, and of the others what it takes over.

By pytest-xdist each process would collect all tests, and be told the numbers of those that it runs. Importing all files
and making their tests takes as long as a tenth of all tests. Here each process knows the names of all tests, from what
the others wrote, and collects another's file when it comes to the first of its tests.
"""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import pytest
from _pytest.warnings import catch_warnings_for_item

from tests.patience import wait_until

FOLDER = "folder_of_shares"
"""By this name the controlling process tells the others where they write the names of their tests."""


class Named(NamedTuple):
    """A test that may not be collected yet."""

    nodeid: str
    file: str


def shares_of(sizes: Sequence[int], count: int) -> list[int]:
    """Return the share of each file: neighbours are together, and all shares about as large."""
    before = accumulate(sizes, initial=0)
    return [count * (2 * start + size) // (2 * sum(sizes)) for start, size in zip(before, sizes, strict=False)]


class Shares:
    """A plugin by which a process collects its share of the files in some folders, which are the same for all.

    A process that takes the place of one that ended has the shares of which nobody has written the names.
    """

    def __init__(self, config: pytest.Config, folders: Iterable[Path]) -> None:
        worker = config.workerinput  # type: ignore[attr-defined] # of xdist
        number, self._count = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
        self._names = Path(worker[FOLDER])
        files = sorted({file for folder in folders for file in folder.rglob("*.py")})
        # the examples in the library are few, and loaded with it
        sizes = [file.stat().st_size if file.name.startswith("test_") else 1 for file in files]
        self._share = dict(zip(files, shares_of(sizes, self._count), strict=True))
        missing = {share for share in range(self._count) if not self._path(share).exists()}
        self._own = {number} if number < self._count else missing
        self._later: dict[str, pytest.Collector] = {}
        self._is_over = False

    def _share_of(self, node: pytest.Item | pytest.File) -> int:
        return self._share.get(node.path, 0)

    def _path(self, share: int) -> Path:
        return self._names / f"{share}.json"

    @pytest.hookimpl(tryfirst=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> pytest.CollectReport | None:
        """Put off what is in a file of another share, until all processes know the names of all tests."""
        if self._is_over or not isinstance(collector, pytest.File) or self._share_of(collector) in self._own:
            return None
        self._later[collector.nodeid] = collector
        return pytest.CollectReport(collector.nodeid, "passed", None, [])

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Write which tests are in the own shares, and read which are in the others."""
        for share in self._own:
            named = [Named(item.nodeid, _file_of(item)) for item in session.items if self._share_of(item) == share]
            written = self._path(share).with_suffix(f".{os.getpid()}")
            written.write_text(json.dumps(named), encoding="utf-8")
            written.rename(self._path(share))
        paths = [self._path(share) for share in range(self._count)]
        wait_until(lambda: all(path.exists() for path in paths), "the names of all tests")
        named = [Named(*pair) for path in paths for pair in json.loads(path.read_text(encoding="utf-8"))]
        self._is_over = True
        session.items = AllItems(session, named, self._later)  # type: ignore[assignment] # as far as xdist uses it


def _file_of(item: pytest.Item) -> str:
    file = item.getparent(pytest.File)  # type: ignore[type-abstract]
    assert file is not None
    return file.nodeid


class AllItems:
    """The tests of all shares. One in a file that was put off is collected when it is asked for."""

    def __init__(self, session: pytest.Session, named: Sequence[Named], later: dict[str, pytest.Collector]) -> None:
        self._session, self._named, self._later = session, named, later
        self._items = {item.nodeid: item for item in session.items}

    def __len__(self) -> int:
        return len(self._named)

    def __iter__(self) -> Iterator[Named]:
        return iter(self._named)

    def __getitem__(self, number: int) -> pytest.Item:
        name, file = self._named[number]
        if name not in self._items and file in self._later:
            config = self._session.config
            collector = self._later.pop(file)
            with catch_warnings_for_item(config, config.hook, "collect", None):
                items = list(self._session.genitems(collector))
                config.hook.pytest_collection_modifyitems(session=self._session, config=config, items=items)
            self._items |= {item.nodeid: item for item in items}
        return self._items[name]
