"""LLVM's integers, as functions, so that llvmlite loads with the first kernel that is compiled."""

from typing import Any

from streamsketch.core.libraries import ir


def i8() -> Any:
    """Return the type of a byte."""
    return ir.IntType(8)


def i16() -> Any:
    """Return the type of an integer of 16 bits."""
    return ir.IntType(16)


def i32() -> Any:
    """Return the type of an integer of 32 bits."""
    return ir.IntType(32)


def i64() -> Any:
    """Return the type of a word."""
    return ir.IntType(64)


def i128() -> Any:
    """Return the type of two words."""
    return ir.IntType(128)
