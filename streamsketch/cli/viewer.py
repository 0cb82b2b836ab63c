"""``streamsketch viewer``: a page that shows releases to those who have a browser and no Python."""

from pathlib import Path
from typing import Annotated

import typer

from streamsketch.cli._reading import new_file
from streamsketch.cli._saying import say
from streamsketch.cli._showing import Json, show_json
from streamsketch.core.files import write_whole
from streamsketch.report.viewer import viewer_page


def viewer(
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write, .html.")],
    as_json: Json = False,
) -> None:
    """Write a page on which others drop releases, to see what `report` shows of them.

    The page reads .sketch files and .parquet tables of releases in the browser, and a dictionary of words, with which
    it shows what differs. Nothing leaves the computer: the page makes no requests, and its Content-Security-Policy
    forbids them. The file is the same for everybody and contains no data.

    $ streamsketch viewer -o viewer.html
    """
    new_file(output, ".html", "the viewer")
    page = viewer_page().encode()
    write_whole(output, page)
    if as_json:
        show_json({"file": str(output), "bytes": len(page)})
    else:
        say(f"{output}: open it in a browser, and drop releases on it.")
