"""The form of all plans as text of 80 columns: what is recommended and guaranteed, what to expect, choices, notes."""

from collections.abc import Iterable

from streamsketch.core.text import filled


def plan_text(headline: str, *sentences: str, tables: Iterable[str] = (), notes: Iterable[str] = ()) -> str:
    """Return a plan as text: blocks with an empty line between them, in which what is empty is left out.

    Parameters
    ----------
    headline
        What is recommended, without "Plan: " and the stop.
    *sentences
        Sentences: the guarantee of a release, what to expect, and whether the goal is reached.
    tables
        Tables with the choices, of lines already.
    notes
        Remarks, each a paragraph of a list.
    """
    remarks = "\n".join(filled(note, first="- ", indent="  ") for note in notes)
    return "\n\n".join(filter(None, [filled(f"Plan: {headline}."), *map(filled, sentences), *tables, remarks]))
