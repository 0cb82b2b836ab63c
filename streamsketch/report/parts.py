"""Parts that every section of the page uses."""

from collections.abc import Sequence


def table(left: Sequence[str], right: Sequence[str], bodies: str, caption: str) -> str:
    """Return a table that scrolls by itself: columns of names, columns of numbers, rows as HTML."""
    heads = "".join(f'<th scope="col" class="name">{name}</th>' for name in left)
    heads += "".join(f'<th scope="col">{name}</th>' for name in right)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{caption}"><table class="plain">'
        f"<caption>{caption}</caption><thead><tr>{heads}</tr></thead>{bodies}</table></div>"
    )


def row(name: str, numbers: Sequence[str]) -> str:
    """Return a row: a name and numbers, all of them HTML."""
    cells = "".join(f"<td>{number}</td>" for number in numbers)
    return f'<tr><th scope="row" class="name">{name}</th>{cells}</tr>'
