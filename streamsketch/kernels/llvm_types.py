"""LLVM's integers, as functions, so that llvmlite loads with the first kernel that is compiled.

Numba and llvmlite publish no types: the names here say what a parameter of an intrinsic is.
"""

from typing import Any, TypeAlias

from streamsketch.core.libraries import ir

Value: TypeAlias = Any
"""What emitted code computes, as ``llvmlite.ir.Value``."""

Builder: TypeAlias = Any
"""What emits code, as ``llvmlite.ir.IRBuilder``."""

LlvmType: TypeAlias = Any
"""A type of values, as ``llvmlite.ir.Type``."""

NumbaType: TypeAlias = Any
"""The type of an argument of an intrinsic, as ``numba.types.Type``."""

Signature: TypeAlias = Any
"""The types of a call, as ``numba.core.typing.templates.Signature``."""

TypingContext: TypeAlias = Any
"""What Numba types calls by, as ``numba.core.typing.Context``."""

Context: TypeAlias = Any
"""What Numba emits code for, as ``numba.core.base.BaseContext``."""

Intrinsic: TypeAlias = tuple[Signature, Any]
"""What an intrinsic returns: its signature, and the function that emits its code."""


def i8() -> LlvmType:
    """Return the type of a byte."""
    return ir.IntType(8)


def i16() -> LlvmType:
    """Return the type of an integer of 16 bits."""
    return ir.IntType(16)


def i32() -> LlvmType:
    """Return the type of an integer of 32 bits."""
    return ir.IntType(32)


def i64() -> LlvmType:
    """Return the type of a word."""
    return ir.IntType(64)


def i128() -> LlvmType:
    """Return the type of two words."""
    return ir.IntType(128)
