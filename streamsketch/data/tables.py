"""Tables of other libraries, read batch by batch through Arrow's C stream interface."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from streamsketch.core.libraries import pa
from streamsketch.core.numbers import short
from streamsketch.core.text import named
from streamsketch.core.wrong import ROWS, nature_of, wrong_type
from streamsketch.data.columns import NOT_SHOWN
from streamsketch.data.lenient import lenient_column
from streamsketch.data.readers.opening import spelt_alike
from streamsketch.errors import InvalidInputError

_LAZY_ROWS = 1 << 17
_UNREAD = "the table could not be read completely ({})"


def batches_of(
    rows: Any, columns: Sequence[str], *, lenient: Mapping[str, bool] | None = None
) -> "Iterator[pa.RecordBatch]":
    """Yield columns of a table of any library as Arrow record batches.

    Parameters
    ----------
    rows
        A data frame of pandas or polars, a lazy one of polars, an Arrow table, batch or reader, a relation of DuckDB,
        or anything else with ``__arrow_c_stream__``. A lazy source is never loaded as a whole.
    columns
        Names of the columns, each of which must occur exactly once.
    lenient
        Columns in which objects of pandas may be of any type, as `lenient_column` reads them, and whether each holds
        lists.

    Raises
    ------
    TypeError
        For other objects.
    InvalidInputError
        For columns that are missing or occur twice, or if the other library fails while reading.

    Examples
    --------
    >>> import pyarrow as pa
    >>> [batch.to_pydict() for batch in batches_of(pa.table({"item": ["tea"], "sold": [3]}), ["sold"])]
    [{'sold': [3]}]
    """
    wanted = list(dict.fromkeys(columns))
    if hasattr(rows, "collect_batches"):  # polars' LazyFrame
        yield from lazy_batches(rows, wanted)
        return
    _check_streams(rows)
    try:
        reader = _reader(rows, wanted, lenient or {})
        for batch in reader:
            yield batch.select(wanted)
    except InvalidInputError:
        raise
    except _errors() as error:  # whose text may quote the data
        raise InvalidInputError(_UNREAD.format(type(error).__name__)) from None


def schema_of(rows: Any, columns: Sequence[str]) -> "pa.Schema":
    """Return the names and types of columns of a table; parameters and errors as `batches_of`."""
    if isinstance(rows, pa.Schema):
        schema = rows
    elif not hasattr(rows, "__arrow_c_stream__") and hasattr(rows, "__arrow_c_schema__"):
        schema = pa.schema(rows)
    else:
        _check_streams(rows)
        try:
            schema = _reader(rows, list(dict.fromkeys(columns)), {}).schema
        except InvalidInputError:
            raise
        except _errors() as error:
            raise InvalidInputError(_UNREAD.format(type(error).__name__)) from None
    _check_names(list(columns), schema.names)
    return schema


def _check_streams(rows: Any) -> None:
    if isinstance(rows, type) or not hasattr(rows, "__arrow_c_stream__") or nature_of(rows) == "series":
        raise wrong_type("rows must be a data frame, an Arrow table or a relation", rows, ROWS)


def _reader(rows: Any, wanted: list[str], lenient: Mapping[str, bool]) -> "pa.RecordBatchReader":
    """Return the table as a stream; of a data frame in memory only some columns are converted, as others may fail."""
    library = type(rows).__module__.partition(".")[0]
    if library == "polars" and hasattr(rows, "columns"):
        _check_names(wanted, list(rows.columns))
        rows = rows.select(wanted)
    elif library == "pandas" and hasattr(rows, "iloc"):
        rows = _pandas_columns(rows, wanted, lenient)
    reader = rows.to_reader() if isinstance(rows, pa.Table) else pa.RecordBatchReader.from_stream(rows)
    _check_names(wanted, reader.schema.names)
    return reader


def _pandas_columns(frame: Any, wanted: list[str], lenient: Mapping[str, bool]) -> "pa.Table":
    """Return columns of a data frame of pandas, and levels of its index that have a name, as Arrow reads them."""
    if any(name in wanted for name in frame.index.names):
        frame = frame.reset_index()
    names = [str(name) for name in frame.columns]
    _check_names(wanted, names)
    columns = []
    for name in wanted:
        column = frame.iloc[:, names.index(name)]
        if name in lenient and column.dtype == object:
            columns.append(_objects(column, lists=lenient[name]))
            continue
        try:
            zone = getattr(column.dtype, "tz", None)
            columns.append(pa.array(column, from_pandas=True) if zone is None else _zoned(column, zone))
        except _errors(TypeError):  # whose text quotes a value
            raise InvalidInputError(
                f"the column {name} holds values of mixed types, such as numbers and text; cast it to one type first"
            ) from None
    return pa.table(columns, names=wanted)


def _zoned(column: Any, zone: Any) -> "pa.Array":
    """Return times of a zone as Arrow does; itself, it reads them in a way of which pandas 3.1 warns."""
    times = pa.array(column.dt.tz_convert(None).to_numpy(), from_pandas=True)
    return times.cast(pa.timestamp(times.type.unit, tz=pa.lib.tzinfo_to_string(zone)))


def _objects(column: Any, *, lists: bool) -> "pa.Array":
    """Return objects of any types as features read them, of a type that no single one of them can make unreadable."""
    try:
        array = pa.array(column, from_pandas=True)
    except _errors(TypeError):
        return lenient_column(column.tolist(), lists=lists)
    kind = array.type
    if pa.types.is_string(kind) or pa.types.is_null(kind):
        return array
    if lists:
        plain = pa.types.is_list(kind) and pa.types.is_floating(kind.value_type)
    else:  # not floats, which are no categories
        plain = pa.types.is_integer(kind) or pa.types.is_boolean(kind)
    return array if plain else lenient_column(column.tolist(), lists=lists)


def lazy_batches(rows: Any, columns: list[str], most: int = _LAZY_ROWS) -> "Iterator[pa.RecordBatch]":
    """Yield the columns of a lazy frame of Polars, ``most`` rows at a time."""
    try:
        _check_names(columns, rows.collect_schema().names())
        for frame in rows.select(columns).collect_batches(chunk_size=most, maintain_order=False, lazy=True):
            yield from pa.RecordBatchReader.from_stream(frame)
    except InvalidInputError:
        raise
    except Exception as error:
        if isinstance(error, pa.ArrowException | OSError) or type(error).__module__.startswith("polars"):
            raise InvalidInputError(_UNREAD.format(type(error).__name__)) from None  # its own text may quote the data
        raise


def _check_names(wanted: list[str], names: list[str]) -> None:
    if wrong := [name for name in wanted if names.count(name) != 1]:
        columns = "the column" if len(wrong) == 1 else "each of the columns"
        hint = spelt_alike(wrong, names)
        raise InvalidInputError(f"the table must have {columns} {named(wrong)} exactly once{hint}; {NOT_SHOWN}")


def names_of(index: str | Sequence[str] | None) -> list[str]:
    """Return the names of an index's columns as a list; `InvalidInputError` for none."""
    if not index:
        raise InvalidInputError("name the columns of the index: index='item', or several names for tuples")
    names = [index] if isinstance(index, str) else list(index)
    if odd := next((name for name in names if not isinstance(name, str)), None):
        raise InvalidInputError(f"names of columns must be text, got {short(odd)}; rename the column first")
    return names


def _errors(*others: type[Exception]) -> tuple[type[Exception], ...]:
    """Return what Arrow and other libraries raise for what they cannot read, and ``others``."""
    return (pa.ArrowException, OSError, OverflowError, ValueError, *others)
