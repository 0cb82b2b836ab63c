"""Values of options and arguments; plain values are read without Pydantic.

Newer versions of typer make a Pydantic validator for each parameter of a command, whether it is given or not. Loading
Pydantic and making the validators takes a fifth of the time of a short command.
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal, get_args, get_origin


def read_without_pydantic(parameters: Iterable[Any]) -> None:
    """Let parameters of a command read plain values themselves, and all others as typer does.

    Typer has no public way to do this. Versions that do not use Pydantic lack the attribute, and are not changed.
    """
    for each in parameters:
        if hasattr(each, "_runtime_param") and not isinstance(each._runtime_param, _Values):  # noqa: SLF001
            each._runtime_param = _Values(each)  # noqa: SLF001


class _Values:
    """Reads the values of one parameter, instead of the converter that typer makes when the command begins."""

    def __init__(self, parameter: Any) -> None:
        self._read = None if parameter.type_descriptor.is_ranged else _reader(parameter.type_descriptor.annotation)

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value of a parameter, as typer calls it; errors are typer's."""
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if self._read is not None:
            try:
                return self._read(value)
            except (TypeError, ValueError):
                pass
        from typer._coercion import build_runtime_param  # noqa: PLC0415 - what typer itself would call

        return build_runtime_param(param.type_descriptor).coerce(value, param=param, ctx=ctx)


def _reader(annotation: Any) -> Callable[[Any], Any] | None:
    """Return a function that reads a plain value of a type, and raises ValueError for others; None for other types."""
    if get_origin(annotation) is list:
        read = _reader(*get_args(annotation))
        return None if read is None else lambda values: _all(read, values)
    if get_origin(annotation) is Literal:
        return lambda value: _one_of(value, get_args(annotation))
    plain: dict[Any, Callable[[Any], Any]] = {str: _text, Path: _path, int: int, float: float}
    return plain.get(annotation)


def _all(read: Callable[[Any], Any], values: Any) -> list[Any]:
    if isinstance(values, str):
        raise TypeError
    return [read(each) for each in values]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _path(value: Any) -> Path:
    path = Path(value)
    if path.exists() and not os.access(path, os.R_OK):
        raise ValueError
    return path


def _one_of(value: Any, choices: tuple[Any, ...]) -> Any:
    if value not in choices:
        raise ValueError
    return value
