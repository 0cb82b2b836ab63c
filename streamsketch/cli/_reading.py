"""Sketch files by name, as commands read them."""

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

import streamsketch as ss
from streamsketch import storage
from streamsketch.agreement.same import check_same
from streamsketch.cli._keys import public_keys
from streamsketch.cli._options import option
from streamsketch.cli._saying import say
from streamsketch.cli._showing import join_names
from streamsketch.data.windows import key_and_window, window_time
from streamsketch.estimation.blocks import AnySketch
from streamsketch.once.slots import key_of_file
from streamsketch.release.checking.release import check_release, mismatch
from streamsketch.release.published import check_independent
from streamsketch.storage.first_bytes import SUFFIX, is_raw
from streamsketch.wire.registry import kind_of

if TYPE_CHECKING:
    from streamsketch.signs.sketch import Signs

SKETCH, SIGNS, TABLE = ".sketch", ".signs", ".parquet"

_MOST_WARNINGS = 5  # of one file
_SIGNS = {
    "SignSketch": "sign sketch",
    "SignTable": "table of sign sketches",
    "IndividualSignSketch": "individual sign sketch",
}
_NAMES = _SIGNS | {"PrivateSketch": "private sketch", "PrivateTable": "table of private sketches"}

Files = Annotated[
    list[Path],
    typer.Argument(help="Files .sketch or .signs, or .parquet tables of them.", metavar="FILE", show_default=False),
]
WindowFiles = Annotated[
    list[Path],
    typer.Argument(help="Folders with the .sketch files or .parquet tables of windows, or such files.", metavar="DIR"),
]
Force = Annotated[bool, option("Output", "", "Replace the output file if it is there.", "--force")]
Raw = Annotated[
    bool, option("Input", "", "Accept raw sketches too. The output is then as secret as they are.", "--raw")
]
FollowedAgreement = Annotated[
    Path | None,
    option(
        "Input",
        "FILE",
        "Agreement by which the streams were sketched, a JSON file. It names the columns of items, and their types; or "
        "the features of the cells.",
        "--agreement",
    ),
]


def load_sketches(
    paths: list[Path], *, least: int, command: str, raw: bool | None = None, signer: list[Path] | None = None
) -> dict[str, AnySketch]:
    """Return the sketches of files by short names: a file's stem, or a table's key.

    Raises
    ------
    InvalidInputError
        For fewer than ``least`` sketches, files named twice, or raw sketches unless ``raw`` allows them; None says that
        the command takes none.
    IncompatibleProjectionsError
        If their projections differ.
    DependentNoiseError
        If two of them share the noise of a release.
    SignatureError
        If one of ``signer`` must have signed, and did not.
    """
    return load_files(paths, least=least, command=command, raw=raw, signer=signer)[0]


def load_files(
    paths: list[Path], *, least: int, command: str, raw: bool | None = None, signer: list[Path] | None = None
) -> tuple[dict[str, AnySketch], dict[str, Any]]:
    """Return the sketches of files by short names, and what each file holds, by its path; as `load_sketches`."""
    files: dict[str, Any] = {}

    def read(path: Path) -> dict[Any, AnySketch]:
        files[str(path)] = _sketches_of(path, signer, raw=raw)
        return _by_key(files[str(path)])

    sketches = _by_name(paths, read, least, command)
    releases = {name: sketch for name, sketch in sketches.items() if isinstance(sketch, ss.PrivateSketch)}
    names: dict[bytes, str] = {}
    for name, release in releases.items():
        for release_id in release.release_ids:
            first = names.setdefault(release_id, name)
            if first != name:
                with name_in_errors(first, name):
                    check_independent([releases[first], release])
    return sketches, files


def files_in(places: list[Path]) -> tuple[list[Path], list[str]]:
    """Return the releases in folders and their folders of windows, or files themselves, and the names of raw files.

    Only Parquet files that contain sketches are used: a job's folder has other Parquet files, too.
    """
    paths: list[Path] = []
    secret: list[str] = []
    for place in places:
        if not place.is_dir():
            paths.append(place)
            continue
        inside = sorted(place.iterdir())
        for folder in (path for path in inside if path.is_dir() and window_time(path.name) is not None):
            paths += sorted(folder.glob("*.sketch"))
        paths += [path for path in inside if path.is_file() and (path.suffix == ".sketch" or _is_table(path))]
        secret += [path.name for path in inside if path.suffix == SUFFIX]
    return paths, secret


def load_windows(paths: list[Path], *, signer: list[Path] | None = None) -> dict[str, dict[str, ss.PrivateSketch]]:
    """Return the releases in folders or files that are windows, by key and in time order; say which others there are.

    Raises
    ------
    InvalidInputError
        For one window of a key in two files, and windows of one key with several lengths, if their names show this.
    SignatureError
        If one of ``signer`` must have signed, and did not.
    """
    series: dict[str, dict[tuple[str, int], tuple[str, Path, ss.PrivateSketch]]] = {}
    others: list[str] = []
    files, secret = files_in(paths)
    for path in files:
        for key, release in _by_key(load_published(path, ss.PrivateSketch, ss.PrivateTable, signer=signer)).items():
            name = name_by_window(path, key) or (key_of_file(path.stem) if key is None else str(key))
            split = key_and_window(name)
            if split is None:
                others.append(name)
                continue
            of, window = split
            windows = series.setdefault(of, {})
            form = "time" if "T" in window else "date" if len(window) > len("2024-05") else "month"
            place: Any = form, window_time(window)
            if place in windows:
                raise ss.InvalidInputError(
                    f"{windows[place][1]} and {path} both have the window {window}{_of(of)}; give each once"
                )
            windows[place] = window, path, release
    for of, windows in series.items():
        forms = {form: window for (form, _), (window, _, _) in windows.items()}
        if len(forms) > 1:
            raise ss.InvalidInputError(
                f"the windows{_of(of)} are of several lengths, such as {' and '.join(forms.values())}; give those of "
                f"one length"
            )
    for what, names in (("as secret", secret), ("as their names are not those of windows", others)):
        if names:
            say(f"Left out, {what}: {join_names(names)}.")
    return {
        of: {window: release for _, (window, _, release) in sorted(windows.items(), key=lambda entry: entry[0])}
        for of, windows in series.items()
    }


def _of(key: str) -> str:
    return f" of {key}" if key else ""


def load_signs(paths: list[Path], *, least: int, command: str, signer: list[Path] | None = None) -> "dict[str, Signs]":
    """Return the published signs of files by short names.

    Raises
    ------
    InvalidInputError, IncompatibleProjectionsError
        As `load_sketches`.
    DependentNoiseError
        If one release is there twice.
    """
    signs = _by_name(paths, lambda path: _by_key(load_published(path, signer=signer)), least, command)
    names: dict[bytes, str] = {}
    for name, release in signs.items():
        first = names.setdefault(release.release_id, name)
        if first != name:
            from streamsketch.signs.hamming import check_comparable  # noqa: PLC0415 - for such files alone

            with name_in_errors(first, name):
                check_comparable([signs[first], release])
    return signs


def hold_signs(paths: list[Path]) -> bool:
    """Return whether files hold published signs.

    Raises
    ------
    InvalidInputError
        If some do and others do not: only one kind is compared at a time. If one is an index of signs.
    OSError
        If a file cannot be read.
    """
    for path in paths:
        if _is_index(path):
            raise ss.InvalidInputError(
                f"{path} is an index of signs, which nearest --index searches: give the releases whose neighbours are "
                f"asked for, or those that it was made of"
            )
    signs = {path: holds_signs(path) for path in paths}
    if len(set(signs.values())) > 1:
        with_signs, without = (next(path for path, held in signs.items() if held == kind) for kind in (True, False))
        raise ss.InvalidInputError(
            f"{with_signs} holds published signs and {without} does not: signs are compared with signs, and sketches "
            f"with sketches. Give files of one kind, or publish both streams in one way"
        )
    return any(signs.values())


def _is_index(path: Path) -> bool:
    """Return whether a file is an index of signs; the code for indices is loaded only for such a file."""
    try:
        if kind_of(path) is not None:
            return False
    except ss.errors.WireFormatError:
        return False  # a damaged table
    from streamsketch.signs.index_file import is_index  # noqa: PLC0415 - for such a file

    return is_index(path)


def holds_signs(path: Path) -> bool:
    """Return whether a file holds published signs, or a table of them, by its first bytes and its columns.

    Raises
    ------
    OSError
        If the file cannot be read.
    """
    return _kind_of(path).__name__ in _SIGNS


def holds_table(path: Path) -> bool:
    """Return whether a file holds a table of releases; `OSError` if it cannot be read."""
    try:
        return kind_of(path) in (ss.PrivateTable, ss.signs.SignTable)
    except ss.errors.WireFormatError:
        return False  # a damaged table, which is named where it is read


@contextlib.contextmanager
def name_in_errors(first: str, second: str) -> Iterator[None]:
    """Name two releases in the errors that occur if they are used together."""
    try:
        yield
    except (ss.errors.IncompatibleProjectionsError, ss.errors.DependentNoiseError, ss.InvalidInputError) as error:
        raise type(error)(f"{first} and {second}: {error}") from None


Held = TypeVar("Held", bound=Any)


def _by_name(
    paths: list[Path], read: Callable[[Path], Mapping[Any, Held]], least: int, command: str
) -> dict[str, Held]:
    if twice := find_duplicate(paths):
        raise ss.InvalidInputError(f"{twice}; {command} takes each release once")
    entries: list[tuple[Path, Any, Held]] = []
    for path in paths:
        entries += [(path, key, sketch) for key, sketch in read(path).items()]
    if len(entries) < least:
        number = {1: "one sketch", 2: "two sketches"}[least]
        raise ss.InvalidInputError(
            f"{command} needs at least {number} (each key of a table is one), got {len(entries)}"
        )
    short = [path.stem if key is None else str(key) for path, key, _ in entries]
    by_stem = [path.stem if key is None else f"{path.stem}:{key}" for path, key, _ in entries]
    by_window = [name_by_window(path, key) or name for (path, key, _), name in zip(entries, by_stem, strict=True)]
    full = [str(path) if key is None else f"{path}:{key}" for path, key, _ in entries]
    long = next((names for names in (by_window, by_stem) if len(set(names)) == len(names)), full)
    number_of = Counter(short)
    for path, _, sketch in entries[1:]:
        with name_in_errors(str(entries[0][0]), str(path)):
            check_same(entries[0][2], sketch)
    return {short[i] if number_of[short[i]] == 1 else long[i]: sketch for i, (_, _, sketch) in enumerate(entries)}


def name_by_window(path: Path, key: object) -> str | None:
    """Return the name "KEY WINDOW" of a release whose file or folder is named after a window, or None.

    Examples are tables of a stream, ``2024-05.parquet``, and sketches of a stream, ``2024-05-01T13-00-00Z/KEY.sketch``.
    """
    if key is not None and window_time(path.stem) is not None:
        return f"{key} {path.stem}"
    if key is None and window_time(path.parent.name) is not None:
        return f"{key_of_file(path.stem)} {path.parent.name}"
    return None


def _sketches_of(path: Path, signer: list[Path] | None, *, raw: bool | None) -> Any:
    """Return the sketch or the table in a file."""
    if path.suffix != SUFFIX and not is_raw(path):
        return load_published(path, ss.PrivateSketch, ss.PrivateTable, signer=signer)
    if not raw:
        or_raw = "" if raw is None else ", or give --raw to read it all the same, for your eyes only"
        raise ss.InvalidInputError(
            f"{path} is a raw sketch, which is secret, like all that is computed from it. Release it first{or_raw}"
        )
    return load_raw_file(path).state


def _by_key(content: object) -> dict[Any, Any]:
    """Return sketches by key; the key of a sketch outside a table is None."""
    return dict(content) if isinstance(content, Mapping) else {None: content}


def load_published(path: Path, *kinds: type[Any], signer: list[Path] | None = None) -> Any:
    """Return the release in a file; errors name the file.

    Parameters
    ----------
    path
        The file.
    *kinds
        The classes that it may be of; any if none are given.
    signer
        Files of public keys: one of their owners must have signed it. None accepts any file.
    """
    try:
        release = ss.load(path, signer=public_keys(signer))
    except ss.errors.WireFormatError as error:
        if path.is_file() and is_raw(path):
            raise ss.InvalidInputError(f"{path} is a raw sketch, which is secret; release it first") from None
        if (
            path.is_file()
            and path.suffix not in {SKETCH, SIGNS, TABLE}
            and not _is_index(path)
            and kind_of(path) is None
        ):
            remedy = f"To release a table: streamsketch release {path} --agreement FILE"
            raise ss.InvalidInputError(f"{path} is not a release ({SKETCH}, {SIGNS} or {TABLE}). {remedy}") from None
        if error.where == "columns":
            remedy = f"To release its rows: streamsketch release {path} --agreement FILE"
            raise ss.InvalidInputError(f"{path} has not the columns of a table of releases. {remedy}") from None
        expected = _NAMES.get(_kind_of(path).__name__, "release")
        wrong = ss.errors.WireFormatError(error.where, error.problem)  # without the file, which is named here
        raise ss.InvalidInputError(f"{path} is not a valid {expected}: {wrong}") from None
    if kinds and not isinstance(release, kinds):
        wanted, name = _NAMES[kinds[0].__name__], _NAMES[type(release).__name__]
        signs = ": explain, compare and nearest take signs" if type(release).__name__ in _SIGNS else ""
        raise ss.InvalidInputError(f"{path} holds a {name}, not a {wanted}{signs}")
    warn_of_mismatches(path, _by_key(release))
    return release


def _kind_of(path: Path) -> type[Any]:
    """Return the class of a file's content by its first bytes or its name: errors state what was expected."""
    try:
        kind = kind_of(path)
    except ss.errors.WireFormatError:
        return ss.PrivateTable  # a damaged table is named as such where it is read
    return kind or {SIGNS: ss.signs.SignSketch, TABLE: ss.PrivateTable}.get(path.suffix, ss.PrivateSketch)


def _checked(release: Any) -> Any:
    """Return whether the noise of a release can be what it states."""
    if isinstance(release, ss.PrivateSketch):
        return check_release(release)
    from streamsketch.signs.flip_check import check_signs  # noqa: PLC0415 - which loads the mechanisms of signs

    return check_signs(release)


def warn_of_mismatches(path: Path, releases: Mapping[Any, object]) -> None:
    """Print a sentence on each release that contradicts its statement on its noise."""
    short = 0
    for key, release in releases.items():
        check = _checked(release)
        if check.verdict == "too little":
            short += 1
            if short <= _MOST_WARNINGS:
                say(f"warning: {mismatch(str(path) if key is None else f'{path}, key {key}', check)}")
    if short > _MOST_WARNINGS:
        say(f"warning: so do {short - _MOST_WARNINGS} more of the keys of {path}")


def say_agreement_is_missing(sketch: AnySketch) -> None:
    """Print a note that releases which may be of features need their agreement to be compared as populations."""
    if not isinstance(sketch, ss.PrivateSketch) or sketch.clip not in ("equal", "average"):
        return
    from streamsketch.projections.identity import Identity  # noqa: PLC0415 - which most releases need not load

    if isinstance(sketch.projection, Identity):
        say("If these are sums of features, give --agreement FILE: populations are compared, whatever their sizes.")


def load_raw_file(path: Path, load: Callable[[Path], Any] | None = None) -> Any:
    """Return the content of a raw file, or the result of `read_header`; errors name the file."""
    with naming_raw(path):
        return (load or storage.load_raw)(path)


@contextlib.contextmanager
def naming_raw(path: Path) -> Iterator[None]:
    """Name the raw file in the errors of reading it."""
    try:
        yield
    except ss.errors.WireFormatError as error:
        what = "a release, not a raw sketch" if _is_release(path) else f"not a valid raw sketch: {error}"
        remedy = "" if _is_release(path) or is_raw(path) else f". To sketch a table: streamsketch sketch {path} …"
        raise ss.InvalidInputError(f"{path} is {what}{remedy}") from None


def _is_release(path: Path) -> bool:
    try:
        ss.load(path)
    except (ss.StreamsketchError, OSError):
        return False
    return True


def _is_table(path: Path) -> bool:
    """Return whether a file is a Parquet table with sketches."""
    if path.suffix != TABLE:
        return False
    try:
        return kind_of(path) is ss.PrivateTable
    except ss.errors.WireFormatError:
        return True  # to be named as damaged, not passed over


def find_duplicate(paths: list[Path]) -> str:
    """Return two of the paths that name one file, also through links or relative paths; nothing if there are none."""
    named: dict[tuple[int, int] | Path, Path] = {}
    for path in paths:
        status = path.stat() if path.exists() else path  # a missing file is reported where it is read
        first = named.setdefault((status.st_dev, status.st_ino) if isinstance(status, os.stat_result) else status, path)
        if first is not path:
            return f"{path} is named twice" if first == path else f"{first} and {path} are one file, named twice"
    return ""
