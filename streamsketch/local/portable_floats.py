"""Numbers that must be identical on every machine, independent of the C library and of a minimiser's last digits.

Servers on different machines must compute the same totals from the same reports. So contributions use only IEEE sums,
products, quotients and square roots, and numbers rounded far more coarsely than libraries differ.
"""

import math

_PORTABLE_BITS = 32
_SHIFTED = 24.0  # from here on the series below errs by less than 1e-16
_SERIES = (-1 / 8, 1 / 128, 5 / 1024, -21 / 32768, -399 / 262144, 869 / 4194304, 39325 / 33554432, -334477 / 2147483648)
"""Coefficients of Γ(x+½)/(Γ(x)√x) in 1/x, from the first power on: dyadic, so exact."""

ROOT_PI = 1.7724538509055159


def round_portably(value: float) -> float:
    """Return a positive number rounded to 32 significant bits, 10^5 times as coarse as libraries differ.

    Two machines still differ if the number is next to the midpoint of two such values, in about one of 10^5 cases.
    """
    mantissa, exponent = math.frexp(value)
    return math.ldexp(round(math.ldexp(mantissa, _PORTABLE_BITS)), exponent - _PORTABLE_BITS)


def power_below(value: float) -> int:
    """Return the exponent of the largest power of two up to ``value``, after `round_portably`.

    So a value that is a power of two except for rounding has the same exponent on every machine.
    """
    return math.frexp(round_portably(value))[1] - 1


def gamma_ratio(x: float) -> float:
    """Return Γ(x + ½)/Γ(x) for a positive multiple of ½ to about 1e-15, with the same bits on every machine.

    The recurrence Γ(x+½)/Γ(x) = x/(x+½) · Γ(x+3/2)/Γ(x+1) raises x to 24, where the asymptotic series is used (DLMF
    5.11.13). A difference of logarithms would lose eight digits at x = 10^7.
    """
    factor = 1.0
    while x < _SHIFTED:
        factor *= x / (x + 0.5)
        x += 1.0
    series = 0.0
    for coefficient in reversed(_SERIES):
        series = (series + coefficient) / x
    return factor * math.sqrt(x) * (1.0 + series)
