"""The type of JSON documents."""

from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]
"""An object of JSON: values are text, numbers, booleans, None, and lists and objects of these."""
