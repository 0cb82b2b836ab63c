"""The command: through the real executable, or in this process where many runs would take long."""

import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from streamsketch.cli import app


def streamsketch(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the installed command with these arguments."""
    command = [str(Path(sys.executable).with_name("streamsketch")), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603


def refusal(*arguments: object) -> str:
    """Return what the command would say before it ends with status 2; ``main`` catches it, in one place."""
    done = CliRunner().invoke(app, [*map(str, arguments)])
    assert done.output == ""
    return f"{type(done.exception).__name__}: {done.exception}"
