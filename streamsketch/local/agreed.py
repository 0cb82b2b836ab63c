"""Numbers that every machine must compute alike: no C library's last bit, no minimiser's last digits.

Servers on different machines add up the same reports to the same totals. What a report adds may therefore follow from
IEEE sums, products, quotients and square roots alone, or from a number that was rounded far more coarsely than
libraries differ.
"""

import math

_AGREED_BITS = 32
_SHIFTED = 24.0  # from here on the series below leaves less than 1e-16
_SERIES = (
    -1 / 8,
    1 / 128,
    5 / 1024,
    -21 / 32768,
    -399 / 262144,
    869 / 4194304,
    39325 / 33554432,
    -334477 / 2147483648,
)
"""Of Γ(x+½)/(Γ(x)√x) in 1/x, from the first power on: dyadic, so exact."""

ROOT_PI = 1.7724538509055159


def agreed(value: float) -> float:
    """Return a positive number rounded to 32 significant bits: 10^5 times as coarse as what libraries differ by.

    Two machines still differ where the number falls next to the middle between two such values: one in some 10^5.
    """
    mantissa, exponent = math.frexp(value)
    return math.ldexp(round(math.ldexp(mantissa, _AGREED_BITS)), exponent - _AGREED_BITS)


def power_below(value: float) -> int:
    """Return the exponent of the greatest power of two at most ``value``, which is `agreed` first.

    So a value that is a power of two, but for rounding, has that power's exponent on every machine.
    """
    return math.frexp(agreed(value))[1] - 1


def gamma_ratio(x: float) -> float:
    """Return Γ(x + ½)/Γ(x) of a positive multiple of ½ to some 1e-15, the same bits everywhere.

    By Γ(x+½)/Γ(x) = x/(x+½) · Γ(x+3/2)/Γ(x+1) up to 24, and the asymptotic series there (DLMF 5.11.13). A difference of
    logarithms would lose eight digits at x = 10^7.
    """
    factor = 1.0
    while x < _SHIFTED:
        factor *= x / (x + 0.5)
        x += 1.0
    series = 0.0
    for coefficient in reversed(_SERIES):
        series = (series + coefficient) / x
    return factor * math.sqrt(x) * (1.0 + series)
