"""Toys under another name, as packages have what their modules define."""

from tests.docs.toys import Kind

__all__ = ["Kind"]
