"""Values of options: read as typer reads them, without Pydantic where they are plain."""

import enum
import inspect
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer
from typer.main import get_command

from streamsketch.cli._values import read_without_pydantic

core = pytest.importorskip("typer._coercion", reason="this typer uses no Pydantic")


class Colour(enum.StrEnum):
    RED = "red"


def parameter(annotation: Any, **option: Any) -> Any:
    """Return the parameter that typer makes of an option of a type."""

    def command(value: Any = None) -> None:
        del value

    annotated = Annotated[annotation, typer.Option(**option)]
    command.__annotations__["value"] = annotated
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter("value", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotated)]
    )
    app = typer.Typer(add_completion=False)
    app.command()(command)
    (found,) = (each for each in get_command(app).params if each.name == "value")
    return found


def outcome(reader: Any, of: Any, value: Any) -> Any:
    try:
        return repr(reader.coerce(value, of, None))
    except typer.BadParameter as error:
        return f"refused: {error.message}"


VALUES = (
    "",
    "a",
    "red",
    "RED",
    "1",
    " 2 ",
    "-3",
    "1.0",
    "1.5",
    "1e3",
    "1_000",
    "inf",
    "nan",
    "0x10",
    "true",
    "²",
    "1" * 30,
)


@pytest.mark.parametrize("annotation", [str, int, float, Path, Colour, Literal["a", "red"], datetime, bool])
@pytest.mark.parametrize("limits", [{}, {"min": 1}])
def test_values_are_those_that_typer_reads(annotation: Any, limits: dict[str, Any]) -> None:
    of = parameter(annotation, **limits)
    expected = core.build_runtime_param(of.type_descriptor)
    read_without_pydantic([of])
    for value in (*VALUES, None):
        assert outcome(of.get_runtime_param(), of, value) == outcome(expected, of, value), (annotation, value)


@pytest.mark.parametrize("annotation", [list[str], list[Path]])
def test_lists_are_those_that_typer_reads(annotation: Any) -> None:
    of = parameter(annotation)
    expected = core.build_runtime_param(of.type_descriptor)
    read_without_pydantic([of])
    for value in ((), ("a",), ["a", "b"], None, "ab"):
        assert outcome(of.get_runtime_param(), of, value) == outcome(expected, of, value), value


def test_a_number_below_its_least_is_refused() -> None:
    of = parameter(int, min=1)
    read_without_pydantic([of])
    assert "refused" in outcome(of.get_runtime_param(), of, "0")


def test_a_file_that_cannot_be_read_is_left_to_typer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of = parameter(Path)
    read_without_pydantic([of])
    monkeypatch.setattr("os.access", lambda *_: False)
    assert "is not readable" in outcome(of.get_runtime_param(), of, str(tmp_path))
    assert outcome(of.get_runtime_param(), of, str(tmp_path / "new")) == repr(tmp_path / "new")
