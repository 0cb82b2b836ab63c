"""Machine code that is kept on disk is never that of an older source."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import streamsketch
from streamsketch.core import jit

ROOT = Path(streamsketch.__file__).parent
CALLED = "from streamsketch.core.jit import kernel\n\n\n@kernel\ndef called(x):\n    return x + {}\n"
CALLING = """
from streamsketch.core.jit import kernel
from streamsketch.privacy.exact_coins import called


@kernel
def calling(x):
    return called(x)
"""


def test_every_file_with_kernels_is_in_the_stamp() -> None:
    marks = re.compile(r"^@(kernel|plain_kernel|part|intrinsic)\b|\bkernel\(", re.MULTILINE)
    found = {path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py") if marks.search(path.read_text())}
    emits_code = {"kernels/carryless.py"}  # which intrinsics of other files write out
    assert sorted((found | emits_code) - {"core/jit.py"}) == sorted(jit.SOURCES)


PROGRAM = """
import os, sys
from pathlib import Path

import numba, numpy  # once for all

sys.dont_write_bytecode = True  # or what is written in the same second would be read as it was
called, *added = sys.argv[1:]
for number in added:
    Path("streamsketch/privacy/exact_coins.py").write_text(called.format(number))
    child = os.fork()
    if not child:
        from streamsketch.privacy.flip_sampler import calling
        print(calling(1), dict(calling.stats.cache_hits), flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""


def test_an_edit_reaches_kernels_of_other_files(tmp_path: Path) -> None:
    """Two files of the library's names, one of which calls the other's kernel."""
    package = tmp_path / "streamsketch"
    (package / "privacy").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "privacy" / "__init__.py").touch()
    (package / "core").mkdir()
    (package / "core" / "__init__.py").touch()
    for name in ("jit.py", "kernel_cache.py", "libraries.py"):
        shutil.copy(ROOT / "core" / name, package / "core")
    (package / "privacy" / "flip_sampler.py").write_text(CALLING)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    environment.pop("NUMBA_CACHE_DIR", None)
    command = [sys.executable, "-c", PROGRAM, CALLED, "1", "1", "2"]
    done = subprocess.run(command, env=environment, capture_output=True, check=True, cwd=tmp_path, text=True)  # noqa: S603
    first, again, edited = done.stdout.splitlines()
    assert first == "2 {}"
    assert again == "2 {(int64,): 1}", "kept"
    assert edited == "3 {}", "compiled again"
