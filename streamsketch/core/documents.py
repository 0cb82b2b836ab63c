"""The types of JSON documents and of keys."""

from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]
"""An object of JSON: values are text, numbers, booleans, None, and lists and objects of these."""

TableKey: TypeAlias = Any
"""A key of a table, as `SketchTable` has them: text, bytes, an integer, a date, None, or another type of Arrow."""
