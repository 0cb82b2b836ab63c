"""The viewer: a page on which releases are dropped, built from web/src/page."""

from importlib.resources import files


def viewer_page() -> str:
    """Return the viewer, an HTML page that reads and compares the releases that are dropped on it.

    It makes no requests, which its Content-Security-Policy forbids, and it contains no data.
    """
    return (files("streamsketch.report") / "viewer.html").read_text("utf-8")
