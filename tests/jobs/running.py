"""The command in this process, which has imported Beam."""

from typing import Any

from streamsketch.cli.app import app


def command(*arguments: Any) -> int:
    """Return the exit status of a command; mistakes are raised."""
    status: int | None = app([str(each) for each in arguments], standalone_mode=False)
    return status or 0
