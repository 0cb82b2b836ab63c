"""Runs a program whose kernels are compiled for fewer features than this processor has.

Python and what the program imports are loaded once; each list of features has a fork, in which Numba compiles for
these and nothing else.
"""

import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from numba.core import config
from numba.core.registry import cpu_target

ROOT = Path(__file__).parent.parent


def outputs_of(
    imports: str, program: str, rounds: Sequence[Sequence[tuple[str, Sequence[str]]]], cache: Path
) -> list[list[list[str]]]:
    """Return the lines that a program prints, for each list of features and the ``arguments`` that go with it.

    Those of a round run beside each other, and the next round when they have ended. Machine code is kept in ``cache``.
    """
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache)}
    command = [sys.executable, "-m", "tests.fewer_features"]
    given = json.dumps([imports, program, rounds])
    done = subprocess.run(  # noqa: S603
        command, input=given, env=environment, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT
    )
    found: list[list[list[str]]] = json.loads(done.stdout)
    return found


def _serve() -> None:
    imports, program, rounds = json.load(sys.stdin)
    names: dict[str, Any] = {}
    exec(imports, names)  # noqa: S102 - a test's
    json.dump([_round(program, names, calls) for calls in rounds], sys.stdout)


def _round(program: str, names: dict[str, Any], calls: Sequence[tuple[str, Sequence[str]]]) -> list[list[str]]:
    files = [tempfile.TemporaryFile("w+") for _ in calls]  # noqa: SIM115 - they are closed below
    children = [
        _forked(program, names | {"arguments": arguments}, features, file)
        for (features, arguments), file in zip(calls, files, strict=True)
    ]
    for child in children:
        if os.waitpid(child, 0)[1]:
            sys.exit("a fork has failed")
    lines = []
    for file in files:
        with file:
            file.seek(0)
            lines.append(file.read().splitlines())
    return lines


def _forked(program: str, names: dict[str, Any], features: str, file: IO[str]) -> int:
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        os.environ.update(NUMBA_CPU_NAME="x86-64", NUMBA_CPU_FEATURES=features)
        config.reload_config()
        cpu_target.target_context.init()  # which reads them; the parent has compiled nothing
        os.dup2(file.fileno(), 1)
        exec(program, names)  # noqa: S102 - a test's
        sys.stdout.flush()
        status = 0
    except BaseException:  # noqa: BLE001 - as the interpreter would
        traceback.print_exc()
    finally:
        os._exit(status)


if __name__ == "__main__":
    _serve()
