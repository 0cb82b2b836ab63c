"""Libraries that load late, and without what commands do not use."""

import subprocess
import sys

import pytest

UNUSED = {"pandas", "scipy.linalg", "cffi"}


def printed(code: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    "before", ["", "import pyarrow", "import numba, numpy; numba.njit(lambda x: x)(numpy.ones(1))"]
)
def test_commands_load_arrow_and_numba_without_what_they_do_not_use(before: str) -> None:
    """It holds for rows and kernels, whatever of the two was loaded before; Numba's own first kernel loads BLAS."""
    code = (
        f"{before}\n"
        "import sys\n"
        "before = set(sys.modules)\n"
        "from streamsketch.core.libraries import load_for_commands, pa\n"
        "load_for_commands()\n"
        "pa.array(['tea', 'jam'])\n"
        "import numpy, streamsketch as ss\n"
        "ss.SJLT(dim=1 << 40, sketch_dim=64, sparsity=4, seed=1).sketch().update(numpy.arange(9), 1)\n"
        f"print(sorted({UNUSED} & set(sys.modules) - before))"
    )
    assert printed(code) == ["[]"]


def test_what_commands_do_not_use_can_still_be_imported() -> None:
    """Of those who go on in the same process."""
    code = (
        "from streamsketch.core.libraries import load_for_commands, numba, pa\n"
        "load_for_commands()\n"
        "table = pa.table({'item': ['tea']})\n"
        "numba.njit(lambda x: x)(1)\n"
        "import pandas, scipy.linalg\n"
        "print(list(table.to_pandas().item), scipy.linalg.det([[2]]))\n"
        "print(pa.Table.from_pandas(pandas.DataFrame({'item': ['jam']})).to_pydict()['item'])"
    )
    assert printed(code) == ["['tea'] 2.0", "['jam']"]
