"""Errors for an argument of a wrong type: what was passed, and what to pass instead."""

import io
import os
from collections.abc import Iterator, Mapping
from typing import Any

_BY_NAME = {
    ("streamsketch", "Agreement"): "agreement",
    ("streamsketch", "Projection"): "projection",
    ("streamsketch", "Sketch"): "sketch",
    ("streamsketch", "SketchTable"): "table",
    ("streamsketch", "PrivateSketch"): "release",
    ("streamsketch", "PrivateTable"): "table",
    ("streamsketch", "History"): "history",
    ("streamsketch", "SignSketch"): "signs",
    ("streamsketch", "SignTable"): "signs",
    ("streamsketch", "Guarantee"): "guarantee",
    ("pyarrow", "Dataset"): "dataset",
    ("pyarrow", "Scanner"): "scanner",
    ("numpy", "ndarray"): "array",
    ("pandas", "Series"): "series",
    ("polars", "Series"): "series",
}
_BY_TYPE: tuple[tuple[str, Any], ...] = (
    ("path", os.PathLike),
    ("bytes", bytes | bytearray | memoryview),
    ("dict", Mapping),
    ("list", list | tuple | set | frozenset | range),
    ("file", io.IOBase),  # which is an iterator, too
    ("iterator", Iterator),
)

Remedies = Mapping[str, str]
"""What to do instead, by what was passed (`nature_of`). ``"else"`` is for everything that is not named."""

ROWS: Remedies = {
    "path": "read the file first, as by pandas.read_csv(path) or pyarrow.parquet.read_table(path)",
    "json": "parse it first: pyarrow.Table.from_pylist(json.loads(text))",
    "bytes": "read them first, as by pyarrow.csv.read_csv(io.BytesIO(data))",
    "file": "read the file first, as by pandas.read_csv(file) or pyarrow.parquet.read_table(file)",
    "dict": "make a table of columns by pyarrow.table(columns)",
    "list": "make a table of dicts by pyarrow.Table.from_pylist(rows)",
    "iterator": "make a table of dicts by pyarrow.Table.from_pylist(list(rows)), or a reader of Arrow batches by "
    "pyarrow.RecordBatchReader.from_batches(schema, batches)",
    "dataset": "pass its rows, dataset.scanner().to_reader()",
    "scanner": "pass its rows, scanner.to_reader()",
    "array": "name its columns: pandas.DataFrame(array, columns=[…])",
    "series": "it is one column, so make a table of it: series.to_frame()",
    "agreement": "rows come first, then the agreement",
    "sketch": "it is sketched already; update or release it",
    "table": "it is sketched already; update or release it",
    "release": "it is released already; estimators such as streamsketch.cosine read it",
    "else": "pass the rows, such as pandas.read_csv('rows.csv')",
}
LEDGER: Remedies = {
    "path": "open it: streamsketch.Ledger(path)",
    "else": "pass streamsketch.Ledger(path), or leave it out",
}
SUMMARY: Remedies = {"else": "pass streamsketch.bounding.BoundingSummary(), which is then filled, or leave it out"}
FEATURES: Remedies = {
    "dict": "make them: streamsketch.Features({'age': streamsketch.features.Number(0, 110)}, seed=…)",
    "else": "make them by streamsketch.Features(columns, seed=…)",
}
AGREEMENT: Remedies = {
    "path": "load it: streamsketch.Agreement.load(path)",
    "json": "read it: streamsketch.Agreement.from_json(text)",
    "bytes": "read them: streamsketch.Agreement.from_json(data)",
    "dict": "read it: streamsketch.Agreement.from_json(json.dumps(fields))",
    "projection": "name the columns, too: streamsketch.Agreement.of(projection, index=…)",
    "else": "make one by streamsketch.agree(rows, projection, …), or load one by streamsketch.Agreement.load(path)",
}
PROJECTION: Remedies = {
    "path": "read it: streamsketch.projections.Projection.from_json(Path(path).read_text())",
    "json": "read it: streamsketch.projections.Projection.from_json(text)",
    "bytes": "read them: streamsketch.projections.Projection.from_json(data)",
    "dict": "read it: streamsketch.projections.Projection.from_json(json.dumps(fields))",
    "class": "pass an object, such as streamsketch.CountSketch(sketch_dim=1024, seed=7)",
    "else": "pass a map, such as streamsketch.CountSketch(sketch_dim=1024, seed=7)",
}
SKETCH: Remedies = {
    "path": "load it: streamsketch.load(path)",
    "bytes": "read them: streamsketch.PrivateSketch.from_bytes(data)",
    "table": "choose a stream of it by its key, as in table['north']; streamsketch.pairwise(table) compares them all",
    "dict": "choose a stream of it by its key; streamsketch.pairwise(streams) compares them all",
    "list": "choose a stream of it by its place; streamsketch.pairwise(streams) compares them all",
    "signs": "signs are compared by streamsketch.signs.cosine and streamsketch.signs.angle",
    "agreement": "pass what agreement.release(rows) returns",
    "guarantee": "pass the release itself",
    "history": "choose a range of its windows: history.range(start, stop)",
    "else": "sketch rows first, by agreement.release(rows) or projection.sketch(), or load a release by "
    "streamsketch.load(path)",
}
SKETCHES: Remedies = {
    "path": "load it: streamsketch.load(path)",
    "bytes": "read them: streamsketch.PrivateSketch.from_bytes(data)",
    "release": "this is one stream; pass a list of several",
    "sketch": "this is one stream; pass a list of several",
    "history": "its ranges share noise, so compare two of them by history.squared_distance(first, second); pass a "
    "range of each of several histories, history.range(start, stop)",
    "else": "pass a table, a dict of releases by their names, or a list of releases",
}
RELEASE: Remedies = {
    "path": "load it: streamsketch.load(path)",
    "bytes": "read them: streamsketch.PrivateSketch.from_bytes(data)",
    "dict": "pass the releases one by one, *releases.values()",
    "list": "pass the releases one by one, *releases",
    "iterator": "pass the releases one by one, *releases",
    "sketch": "call its release() first",
    "table": "call its release() first",
    "agreement": "pass what agreement.release(rows) returns",
    "else": "pass what agreement.release(rows) or streamsketch.load(path) returns",
}
GUARANTEE: Remedies = {
    "path": "load the release, whose .guarantee it is: streamsketch.load(path)",
    "json": "read it: streamsketch.Guarantee.from_dict(json.loads(text))",
    "dict": "read it: streamsketch.Guarantee.from_dict(fields)",
    "sketch": "call its release() first",
    "else": "pass releases, or their guarantees, in a list",
}
MERGED: Remedies = {
    "path": "a raw sketch is loaded by streamsketch.storage.load_raw(path).state",
    "release": "a published PrivateSketch combines with other PrivateSketches, by release.combine(other)",
    "table": "tables are merged into a SketchTable",
    "list": "merge them one by one",
    "dict": "merge them one by one",
    "iterator": "merge them one by one",
    "else": "add items by sketch.update(items), or sketch rows first, by projection.sketch() or agreement.sketch(rows)",
}
MERGED_TABLE: Remedies = {
    **MERGED,
    "release": "a published PrivateSketch combines with other PrivateSketches, by release.combine(other)",
    "table": "a published PrivateTable combines with other PrivateTables, by table.combine(other)",
    "sketch": "a Sketch has no key; add its cells by table.add_cells, or merge it into a Sketch",
    "else": "add rows by table.update(keys, items), or sketch them first, by projection.table() or "
    "agreement.sketch(rows)",
}
RELEASED: Remedies = {
    "path": "a raw sketch is loaded by streamsketch.storage.load_raw(path).state",
    "release": "it is released already",
    "signs": "it is released already",
    "else": "sketch rows first, by agreement.sketch(rows), or release them by agreement.release(rows)",
}
FACTS: Remedies = {
    "path": "read the file, and take a sample of it: streamsketch.planning.UnitSample.of(table, …)",
    "else": "state what is public, as by streamsketch.planning.TypicalUnit(items=20), or take a public sample by "
    "streamsketch.planning.UnitSample.of(table, …)",
}
FILE: Remedies = {
    "json": "pass the path of a file that holds it, or read the text by from_json of its type",
    "bytes": "pass the path of a file that holds them, or read them by from_bytes of their type, such as "
    "streamsketch.PrivateSketch.from_bytes(data)",
    "file": "pass its path, file.name",
    "list": "load the files one by one",
    "iterator": "load the files one by one",
    "table": "it is loaded already",
    "release": "it is loaded already",
    "agreement": "it is loaded already",
    "else": "pass the path of a file, such as 'north.sketch'",
}
COLUMN: Remedies = {
    "iterator": "pass a list of them, list(values)",
    "dict": "pass a list, list(mapping)",
    "path": "read the column first, as by pandas.read_csv(path)['column']",
    "dataset": "read the column first, dataset.to_table()['column']",
    "scanner": "read the column first, scanner.to_table()['column']",
    "file": "read the column first, as by pandas.read_csv(file)['column']",
    "else": "pass a list of values, or a column of a table, such as frame['item']",
}
NO_ITEMS = frozenset({"iterator", "dict", "dataset", "scanner", "file", "class"})
"""What holds neither an item nor a column of items."""
JSON_TEXT: Remedies = {
    "path": "read the file first: Path(path).read_text()",
    "file": "pass its text, file.read()",
    "dict": "pass it as JSON, json.dumps(fields)",
    "list": "pass one object as JSON, json.dumps(fields)",
    "else": "pass the text, such as Path('agreement.json').read_text()",
}
BYTES: Remedies = {
    "path": "load the file: streamsketch.load(path)",
    "file": "pass its bytes, file.read()",
    "else": "pass bytes, such as Path('north.sketch').read_bytes()",
}


def nature_of(value: object) -> str:
    """Return what an object is, as far as remedies for it differ; ``"else"`` if they do not.

    Only its type is looked at, and of text its first character.

    Examples
    --------
    >>> nature_of("rows.csv"), nature_of('{"a": 1}'), nature_of(iter([])), nature_of(None)
    ('path', 'json', 'iterator', 'else')
    """
    if isinstance(value, str):
        return "json" if value.lstrip()[:1] in ("{", "[") else "path"
    if isinstance(value, type):
        return "class"
    for kind in type(value).__mro__:  # of libraries that need not be loaded to name a type
        nature = _BY_NAME.get((kind.__module__.partition(".")[0], kind.__name__))
        if nature is not None:
            return nature
    if hasattr(value, "__arrow_c_stream__"):  # rows, of which readers are iterators, too
        return "else"
    for nature, types in _BY_TYPE:
        if isinstance(value, types):
            return nature
    return "file" if hasattr(value, "read") and hasattr(value, "close") else "else"


def named_type(value: object) -> str:
    """Return what an object is called in messages, with an article; never its value."""
    if value is None:
        return "None"
    return f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"


def wrong_type(needed: str, value: object, remedies: Remedies) -> TypeError:
    """Return the error for a value of a wrong type.

    Parameters
    ----------
    needed
        What is needed, as in "rows must be a data frame".
    value
        What was passed. Only its type is shown.
    remedies
        What to pass instead, by its nature.

    Examples
    --------
    >>> str(wrong_type("agreement must be an Agreement", "agreement.json", AGREEMENT))
    'agreement must be an Agreement, got a str: load it: streamsketch.Agreement.load(path)'
    """
    remedy = remedies.get(nature_of(value), remedies["else"])
    return TypeError(f"{needed}, got {named_type(value)}: {remedy}")


def listed(values: Any, needed: str, remedies: Remedies) -> list[Any]:
    """Return the elements of an iterable; raise `TypeError` for text, bytes, a mapping, a file and what has none."""
    if nature_of(values) in ("path", "json", "bytes", "dict", "file", "class", "dataset", "scanner"):
        raise wrong_type(needed, values, remedies)
    try:
        return list(values)
    except TypeError:
        if isinstance(values, Iterator):  # which failed by itself
            raise
        raise wrong_type(needed, values, remedies) from None


def check_json_text(text: object, what: str) -> None:
    """Raise `TypeError` unless this is text, or bytes that may be text."""
    if not isinstance(text, str | bytes | bytearray):
        raise wrong_type(f"{what} is read from JSON", text, JSON_TEXT)


def check_path(path: object, what: str = "a file is loaded by its path") -> None:
    """Raise `TypeError` unless this may be the path of a file: text that is no JSON, or a path-like object.

    Bytes are refused although the system takes them for paths, and integers, which would be open files.
    """
    if isinstance(path, os.PathLike):
        return
    if not isinstance(path, str) or (nature_of(path) == "json" and not os.path.lexists(path)):
        raise wrong_type(what, path, FILE)
