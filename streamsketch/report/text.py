"""Text of a report: names and promises, safe in a page."""

from html import escape

from streamsketch.estimation import Estimate, Interval, rounded

_LONGEST = 60


def safe(text: object, longest: int = _LONGEST) -> str:
    """Return a stranger's text as HTML that shows it and does nothing else, not even change the writing direction."""
    shown = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in str(text))
    return escape(shown if len(shown) <= longest else shown[: longest - 1] + "…", quote=True) or "(no name)"


def with_error(estimate: Estimate) -> str:
    """Return an estimate with its standard error and interval, as one line of HTML."""
    return f"{safe(estimate)}, 95&nbsp;% interval {interval(estimate)}"


def interval(estimate: Estimate, ends: Interval | None = None) -> str:
    """Return an interval, by default that of 95 %, with the digits that mean something."""
    low, high = (rounded(end, estimate.standard_error) for end in ends or estimate.interval(0.95))
    return f"{low} … {high}"
