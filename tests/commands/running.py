"""The command, through the real executable."""

import subprocess
import sys
from pathlib import Path


def streamsketch(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the installed command with these arguments."""
    command = [str(Path(sys.executable).with_name("streamsketch")), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
