"""Files that are written: on the disk before they have a name, and readable by nobody else before that."""

import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import streamsketch as ss
from streamsketch.core.files import append, appending, create_file, replacing, unfinished_in, write_new, write_whole
from streamsketch.data.windows import Tumbling
from streamsketch.once.sinks import WindowFiles
from streamsketch.streams import FileSink, Slot
from tests.core.recorded import KilledError, check_durable, is_private, others_read, recorded

SLOT = Slot("sales", 0, "text", "north")
HOURS = Tumbling(3_600_000_000, 0)


def by_name(path: Path, data: bytes) -> None:
    with replacing(path) as partial:
        partial.write_bytes(data)


WRITERS: dict[str, tuple[Callable[[Path], Path], Callable[[Path, bytes], Any]]] = {
    "write_whole": (lambda folder: folder / "a.sketch", lambda folder, data: write_whole(folder / "a.sketch", data)),
    "write_whole, a secret": (
        lambda folder: folder / "a",
        lambda folder, data: write_whole(folder / "a", data, secret=True),
    ),
    "replacing": (lambda folder: folder / "a.csv", lambda folder, data: by_name(folder / "a.csv", data)),
    "write_new": (lambda folder: folder / "a", lambda folder, data: write_new(folder / "a", data)),
    "write_new, dated": (lambda folder: folder / "a", lambda folder, data: write_new(folder / "a", data, modified=1.0)),
    "create_file": (lambda folder: folder / "b" / "a", lambda folder, data: create_file(folder / "b" / "a", data)),
    "a claim": (lambda folder: folder / "a", lambda folder, data: create_file(folder / "a", data, mode=0o600)),
    "FileSink": (lambda folder: FileSink(folder).path(SLOT), lambda folder, data: FileSink(folder).put(SLOT, data)),
    "WindowFiles": (
        lambda folder: WindowFiles(folder, HOURS, "sketch").path(SLOT),
        lambda folder, data: WindowFiles(folder, HOURS, "sketch").put(SLOT, data),
    ),
}  # fmt: skip
ONCE = [name for name in WRITERS if not name.startswith(("write_whole", "replacing"))]
PUBLISHED = ["FileSink", "WindowFiles"]


@pytest.fixture
def public(tmp_path: Path) -> Path:
    (tmp_path / "public").mkdir()
    return tmp_path / "public"


@pytest.mark.parametrize("name", WRITERS)
def test_content_is_on_the_disk_before_its_name_and_that_before_the_end(
    name: str, public: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, write = WRITERS[name]
    with recorded(monkeypatch) as calls:
        write(public, b"content" * 1000)
    check_durable(calls, target(public), b"content" * 1000)
    assert target(public).read_bytes() == b"content" * 1000


@pytest.mark.parametrize("fault", ["fsync", "the folder"])
@pytest.mark.parametrize("name", WRITERS)
def test_the_record_shows_what_is_not_synchronised(
    name: str, fault: str, public: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, write = WRITERS[name]
    with recorded(monkeypatch) as calls:
        write(public, b"content")
    kept = [call for call in calls if call.name != "fsync" or isinstance(call.held, list) != (fault == "the folder")]
    with pytest.raises(AssertionError, match="on the disk"):
        check_durable(kept, target(public), b"content")


@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077, 0o000])
@pytest.mark.parametrize("name", WRITERS)
def test_others_may_read_what_the_umask_leaves_them(name: str, umask: int, public: Path) -> None:
    target, write = WRITERS[name]
    mode = 0o600 if name in {"write_whole, a secret", "a claim"} else 0o644 if name == "FileSink" else 0o666
    before = os.umask(umask)
    try:
        write(public, b"content")
    finally:
        os.umask(before)
    assert target(public).stat().st_mode & 0o777 == mode & ~umask


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_that_is_killed_is_read_by_nobody_and_gone_after_the_next(
    name: str, public: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before each call; then another draw is written. A draw that was not published is read by nobody."""
    target, write = WRITERS[name]
    whole = public.parent
    for at in itertools.count():
        for path in sorted(whole.rglob("*"), reverse=True):
            if path != public:
                path.rmdir() if path.is_dir() else path.unlink()
        with recorded(monkeypatch, killed_at=at) as calls:
            try:
                write(public, b"the first draw")
                break
            except KilledError:
                pass
        is_named = (bool(calls) and calls[-1].name in {"link", "replace"}) or target(public).exists()
        listed = others_read(whole)
        # a file that replaces another one is shared in its own folder just before it has its name
        shared = calls and any(call.name == "chmod" for call in calls) and name not in PUBLISHED
        if not is_named and not shared:
            assert listed == {}
        if name in PUBLISHED:
            files_now = [path for path in public.rglob("*") if path.is_file()]
            assert files_now == ([target(public)] if target(public).exists() else []), "nothing else is in the folder"
        write(public, b"another draw!!")
        if name == "write_whole, a secret":
            continue  # its caller removes what is left, which is a state and not published
        left = [path for path in whole.rglob("*") if path.is_file()]
        # once it is named, another name of the same file may be left
        assert target(public) in left
        assert len({path.stat().st_ino for path in left}) == 1
        expected = {b"the first draw"} if name in ONCE and is_named else {b"another draw!!"}
        assert {path.read_bytes() for path in left} == expected
        if not is_named:
            assert sorted(whole.iterdir()) == [public]
    assert at > 4


@pytest.mark.parametrize("name", ONCE)
def test_a_file_that_is_there_is_looked_at_first(name: str, public: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, write = WRITERS[name]
    write(public, b"the first draw")
    with recorded(monkeypatch) as calls:
        write(public, b"another draw!!")
    assert {call.name for call in calls} <= {"fsync", "open", "mkdir"}
    assert not any(call.held == b"another draw!!" for call in calls)
    assert target(public).read_bytes() == b"the first draw"


def test_a_file_of_a_live_writer_is_left_alone(public: Path) -> None:
    """Also by a writer of the same name, and by one that clears the folder."""
    seen: list[list[str]] = []

    def write_slowly() -> None:
        with replacing(public / "a.sketch") as partial:
            partial.write_bytes(b"slow")
            write_whole(public / "a.sketch", b"quick")
            seen.append(sorted(path.name for path in public.iterdir()))

    write_slowly()
    ((partial, named),) = seen
    assert (partial.startswith(".a.sketch."), named) == (True, "a.sketch")
    assert (public / "a.sketch").read_bytes() == b"slow"


def test_many_writers_of_one_folder_do_not_remove_each_others_files(public: Path) -> None:
    wrong: list[BaseException] = []

    def write(own: int) -> None:
        try:
            for number in range(20):
                assert FileSink(public).put(SLOT._replace(start=number * 10**6, key=str(own)), b"%d" % own) is None
        except BaseException as error:  # noqa: BLE001 - a thread's
            wrong.append(error)

    threads = [threading.Thread(target=write, args=(own,)) for own in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(list(public.rglob("*.sketch"))) == 120
    assert list(public.parent.iterdir()) == [public]


def test_unfinished_files_are_in_the_folder_only_where_they_cannot_be_beside_it(public: Path) -> None:
    beside, within = unfinished_in(public)
    assert beside.parent == public.parent
    beside.write_bytes(b"")  # in the way
    caught: list[Path] = []
    original = os.link

    def link(source: Any, target: Any) -> None:
        caught.append(Path(source))
        assert is_private(Path(source).parent)
        original(source, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "link", link)
        FileSink(public).put(SLOT, b"a release")
    assert [one.parent for one in caught] == [within]
    assert not within.exists()


def test_a_folder_that_others_may_enter_is_closed_to_them(public: Path) -> None:
    beside, _ = unfinished_in(public)
    beside.mkdir(mode=0o777)
    beside.chmod(0o777)
    (beside / ".north.sketch.0a1b2c3d").write_bytes(b"of a killed process")
    FileSink(public).put(SLOT, b"a release")
    assert not beside.exists()


def test_what_earlier_versions_left_in_a_window_is_removed_with_its_claim(public: Path) -> None:
    sink = FileSink(public)
    left = sink.path(SLOT).with_name(".north.sketch.859b9f2f")
    left.parent.mkdir(parents=True)
    left.write_bytes(b"another draw")
    sink.put(SLOT._replace(kind="version", key=""), b"a claim")
    assert not left.exists()


def test_a_process_that_is_killed_holds_no_file(public: Path) -> None:
    """A real one, between writing and linking."""
    script = (
        "import os, sys; from streamsketch.streams import FileSink, Slot; os.link = lambda *_: os._exit(9); "
        f"FileSink(sys.argv[1]).put(Slot{tuple(SLOT)!r}, b'the first draw')"
    )
    ended = subprocess.run([sys.executable, "-c", script, str(public)], check=False)  # noqa: S603 - of this test
    assert ended.returncode == 9
    (left,) = unfinished_in(public)[0].iterdir()
    assert (left.read_bytes(), is_private(left.parent)) == (b"the first draw", True)
    assert list(public.rglob("*.sketch")) == []
    FileSink(public).put(SLOT, b"another draw")
    assert [path.read_bytes() for path in public.parent.rglob("*") if path.is_file()] == [b"another draw"]


@pytest.mark.parametrize("is_hidden", [True, False])
def test_a_process_that_is_killed_after_linking_leaves_nothing_to_the_next_writer(
    *, is_hidden: bool, public: Path
) -> None:
    """A real one, between the two names of the file."""
    path, published = FileSink(public).path(SLOT), public if is_hidden else None
    script = (
        "import os, pathlib, sys; from streamsketch.core.files import create_file; "
        "pathlib.Path.unlink = lambda *_, **__: os._exit(9); _, path, *published = map(pathlib.Path, sys.argv); "
        "create_file(path, b'a release', published=published[0] if published else None)"
    )
    arguments = [str(one) for one in (path, published) if one is not None]
    ended = subprocess.run([sys.executable, "-c", script, *arguments], check=False)  # noqa: S603 - of this test
    assert ended.returncode == 9
    assert len([one for one in public.parent.rglob("*") if one.is_file()]) == 2
    assert not create_file(path, b"another draw", published=published)
    assert [one.read_bytes() for one in public.parent.rglob("*") if one.is_file()] == [b"a release"]
    assert list(public.parent.iterdir()) == [public]


def test_a_release_is_saved_durably(public: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    projection = ss.SJLT(dim=1000, sketch_dim=16, sparsity=4, seed=7)
    released = projection.sketch().release(epsilon=1.0, neighbours=ss.L1(1))
    with recorded(monkeypatch) as calls:
        released.save(public / "a.sketch")
    check_durable(calls, public / "a.sketch", released.to_bytes())


def test_what_is_appended_is_on_the_disk_before_the_end_and_so_is_the_name_of_a_new_file(
    public: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = public / "log"
    held = b""
    for part in (b"first\n", b"second\n"):
        with recorded(monkeypatch) as calls, appending(target) as file:
            append(file, part)
        held += part
        synchronised = [call for call in calls if call.name == "fsync"]
        assert (synchronised[-1].path, synchronised[-1].held) == (str(target.resolve()), held)
        if part == held:
            assert ["log"] in [call.held for call in synchronised if call.path == str(public.resolve())]
    assert is_private(target)
