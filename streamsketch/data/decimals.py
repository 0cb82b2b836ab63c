"""Numbers in text as exact decimals, read by Arrow where it reads them right."""

import contextlib
from decimal import Context, Decimal

import numpy as np

from streamsketch.core.libraries import pa, pc
from streamsketch.data.columns import bytes_of_texts

DIGITS = 38
"""Decimal digits of a decimal of 128 bits."""

_LEAST, _LARGEST = ord("-"), ord("9")  # between which are a point, a slash, which Arrow refuses, and the digits
_ZEROS_BEFORE, _ZEROS_BEHIND = r"^(-?)0+([0-9])", r"(\.[0-9]*?0)0+$"


def decimals_of(texts: "pa.Array", places: int) -> "pa.Array":
    """Return plain decimal numbers in text as decimals of 128 bits; null stays null.

    Zeros at both ends do not matter, however many they are. Arrow (all versions up to 25) looks beyond its table of
    powers of ten for a text with 39 places more than its type, so that it reads another number, or ends the process;
    and it does not notice all numbers that are too large. So it sees no such text.

    Parameters
    ----------
    texts
        Text, not in a dictionary.
    places
        The number of decimal places of the type, 1 to 38.

    Raises
    ------
    pyarrow.ArrowInvalid
        For other text, more places that are not 0, or more digits than the type holds.

    Examples
    --------
    >>> decimals_of(pa.array(["+1.50", "-.5", "007", "2." + "0" * 1000, None]), 2).to_pylist()
    [Decimal('1.50'), Decimal('-0.50'), Decimal('7.00'), Decimal('2.00'), None]
    """
    kind = pa.decimal128(DIGITS, places)
    if _are_short(texts, DIGITS - places):
        with contextlib.suppress(pa.ArrowInvalid):
            return texts.cast(kind)
    form = rf"^[+-]?(0*[0-9]{{1,{DIGITS - places}}}(\.[0-9]{{0,{places}}}0*)?|0*\.[0-9]{{1,{places}}}0*)$"
    if not pc.all(pc.match_substring_regex(texts, form), min_count=0).as_py():
        raise pa.ArrowInvalid(f"not a decimal number of {places} places")
    texts = pc.replace_substring_regex(texts, r"^\+", "")
    if (pc.max(pc.binary_length(texts)).as_py() or 0) > DIGITS:
        texts = pc.replace_substring_regex(texts, _ZEROS_BEFORE, r"\1\2")
        texts = pc.replace_substring_regex(texts, _ZEROS_BEHIND, r"\1")
    return texts.cast(kind)


def _are_short(texts: "pa.Array", most: int) -> bool:
    """Return whether texts are of digits, points and minuses alone, of so few characters each.

    Arrow reads these right, or refuses them, in a third of the time that looking at them by a pattern takes.
    """
    joined = bytes_of_texts(texts)
    if joined is None or not joined[0].size:
        return False
    used, ends = joined
    return bool(np.diff(ends).max() <= most and used.min() >= _LEAST and used.max() <= _LARGEST)


def exact_decimal(number: Decimal, places: int) -> Decimal:
    """Return a number without zeros at its end, if it is one that `decimals_of` returns with so many places.

    Raises
    ------
    ArithmeticError
        For any other number.

    Examples
    --------
    >>> exact_decimal(Decimal("1.50e3"), 2), exact_decimal(Decimal("-0.0"), 2)
    (Decimal('1.5E+3'), Decimal('0'))
    """
    if not number.is_finite():
        raise ArithmeticError
    if not number:
        return Decimal(0)
    if not -places <= number.adjusted() < DIGITS - places:  # before it is written without its exponent
        raise ArithmeticError
    shortest = number.normalize(Context(prec=len(number.as_tuple().digits)))
    if int(shortest.as_tuple().exponent) < -places:
        raise ArithmeticError
    return shortest
