"""The five codes: which one a processor gets, that no other instruction is used, and that all give the same bits."""

from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest
from llvmlite import ir

from streamsketch import SJLT
from streamsketch.kernels import carryless
from streamsketch.kernels.carryless import AVX2, AVX512, PCLMUL, PLAIN, PMULL, instructions_of
from tests.fewer_features import outputs_of
from tests.oracles import naive, naive_maps

X86, ARM = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"
WIDE = "+sse2,+pclmul,+vpclmulqdq"
CODES = {  # the least features for each
    PLAIN: "+sse2",
    PCLMUL: "+sse2,+pclmul",
    AVX2: f"{WIDE},+avx2",
    AVX512: f"{WIDE},+avx2,+avx512f,+avx512vl",
    f"{AVX512}, vbmi": f"{WIDE},+avx2,+avx512f,+avx512vl,+avx512bw,+avx512vbmi",
}
FORBIDDEN = {
    PLAIN: ["clmul", "ymm", "zmm"],
    PCLMUL: ["vpclmul", "ymm", "zmm"],
    AVX2: ["zmm", "multishift"],
    AVX512: ["multishift"],
    f"{AVX512}, vbmi": [],
}
HOST = carryless.target()

IMPORTS = """
import warnings
import numpy as np
from numba import njit
from streamsketch import SJLT
from streamsketch.kernels.carryless import TILE
from streamsketch.kernels import hashing
from streamsketch.kernels.carryless import instructions
from streamsketch.kernels.pipeline import QUAD, address, hash_and_add
"""
PROGRAM = """
indices, values = np.arange((1 << 60) - 592, 1 << 60), np.arange(592) - 300
kernels = [hashing.add_product]


def whole(projection, straight):
    state = np.zeros(projection.sketch_dim, dtype=np.int64)
    projection.add_to(state, indices, values)
    kernels.append(projection._adders.add_batch)
    return state


def in_tiles(projection, straight):
    # as the kernels of a sketch do, but that every tile is hashed first and added then
    @njit
    def step(keys, coefficients, layout, write, read, rows, values, cells):
        tile, to, by = address(keys, 0), address(write, 0), address(read, 0)
        hash_and_add(tile, coefficients, 0, layout, to, by, straight, rows, address(values, 0), address(cells, 0))

    coefficients, layout, rows, width, rows_per_word = projection._hash_arguments
    assert rows == rows_per_word
    first, second = np.zeros((2, len(layout) * TILE), dtype=np.uint64)
    cells, nothing = np.zeros(rows << width, dtype=np.int64), np.zeros(TILE, dtype=np.int64)
    for start in range(0, indices.size, TILE):
        keys, own = indices[start : start + TILE], values[start : start + TILE]
        step(keys, coefficients, layout, first, second, rows, nothing, cells)
        step(keys, coefficients, layout, second, first, rows, own, cells)
    kernels.append(step)
    cells = cells.reshape(rows, 2, -1)
    return (cells[:, 0] - cells[:, 1]).ravel()


projections = {
    SJLT(dim=1 << 60, sketch_dim=8 << 7, sparsity=8, seed=1): 2 * QUAD,
    SJLT(dim=1 << 60, sketch_dim=7 << 3, sparsity=7, seed=2, independence=5): 0,
}
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for projection, straight in projections.items():
        print((whole if arguments else in_tiles)(projection, straight).tolist())
total = np.arange(5, dtype=np.uint64)
hashing.add_product(total, np.uint64(2**64 - 1), np.arange((1 << 60) - 5, 1 << 60, dtype=np.uint64))
print(total.tolist())
hits = sum(sum(kernel.stats.cache_hits.values()) for kernel in kernels)
code = "" if hits else "".join(text for kernel in kernels for text in kernel.inspect_asm().values())
words = [word for word in ("vpclmul", "clmul", "ymm", "zmm", "multishift") if word in code]
print(instructions(), len(caught), hits, *words, sep="|")
"""


def possible(features: str) -> bool:
    return HOST[0].startswith("x86_64") and set(features.split(",")) <= set(HOST[2].split(","))


@pytest.mark.parametrize(
    ("names", "whole"),
    [
        ([PLAIN], []),
        pytest.param([*CODES], [], marks=pytest.mark.long),
        pytest.param([*CODES], ["whole kernels"], marks=pytest.mark.long),
    ],
    ids=["plain code", "all codes", "whole kernels"],
)
def test_every_code_gives_the_same_bits_without_another_instruction(
    names: list[str], whole: list[str], tmp_path: Path
) -> None:
    """Code is generated for less than this processor; a shared cache must not hand over what it was not made for."""
    codes = [code for code in names if possible(CODES[code])]
    if not codes:
        pytest.skip("not an x86 processor")
    calls = [(CODES[code], whole) for code in codes]
    found, [again] = outputs_of(IMPORTS, PROGRAM, [calls, calls[-1:]], tmp_path)
    outputs = dict(zip(codes, found, strict=True))
    for code, lines in outputs.items():
        assert lines[:-1] == outputs[PLAIN][:-1], code
        used, warned, hits, *words = lines[-1].split("|")
        assert used == code.split(",")[0]
        assert (warned, hits) == ("1" if code == PLAIN else "0", "0")
        assert not set(words) & set(FORBIDDEN[code]), code
        assert ("clmul" in words) == (code != PLAIN)
    assert again[:-1] == outputs[PLAIN][:-1]
    assert int(again[-1].split("|")[2]) > 0  # what was made for these features is found
    totals = [int(word) for word in outputs[PLAIN][2].strip("[]").split(",")]
    assert totals == [i ^ naive.product(2**64 - 1, 2**60 - 5 + i) for i in range(5)]
    state = np.array([int(cell) for cell in outputs[PLAIN][1].strip("[]").split(",")])
    text = SJLT(dim=1 << 60, sketch_dim=7 << 3, sparsity=7, seed=2, independence=5).to_json()
    events = ((2**60 - 592 + i, i - 300) for i in range(592))
    columns = sum(np.array(naive_maps.column(text, index)) * value for index, value in events)
    assert state.tolist() == columns.tolist()


@pytest.mark.parametrize(("cpu", "features"), [("neoverse-v1", "+aes"), ("cortex-a72", "+aes"), ("apple-m1", "")])
def test_a_step_compiles_to_pmull_on_arm(cpu: str, features: str) -> None:
    """No more than that can be seen on another processor."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    try:
        target = llvm.Target.from_triple(ARM)
    except RuntimeError:
        pytest.skip("this LLVM has no code generator for ARM")
    module = ir.Module()
    module.triple = ARM
    pair = ir.VectorType(ir.IntType(64), 2)
    function = ir.Function(module, ir.FunctionType(pair, [pair] * 3), "step")
    builder = ir.IRBuilder(function.append_basic_block())
    builder.ret(carryless.Emitter(builder, PMULL).step(*function.args))
    machine = target.create_target_machine(cpu=cpu, features=features, opt=3)
    code = machine.emit_assembly(llvm.parse_assembly(str(module))).split()
    assert {"pmull", "pmull2"} <= set(code)
    assert len([word for word in code if word.startswith("bl")]) == 0  # nothing is called


@pytest.mark.parametrize(
    ("triple", "cpu", "features", "code"),
    [
        (X86, "znver4", CODES[AVX512], AVX512),
        (X86, "znver3", CODES[AVX2], AVX2),
        (X86, "znver4", f"{CODES[AVX2]},+avx512f,-avx512vl", AVX2),
        (X86, "icelake-server", f"{WIDE},-avx2", PCLMUL),
        (X86, "skylake", "+sse2,+avx2,+avx512f,+avx512vl,+pclmul,-vpclmulqdq", PCLMUL),
        (X86, "icelake-server", "+sse2,+avx2,-pclmul,+vpclmulqdq", PLAIN),
        (X86, "icelake-server", "", PLAIN),  # what a name alone implies is not relied upon
        (X86, "generic", "", PLAIN),
        ("i686-unknown-linux-gnu", "pentium4", "+sse2,+pclmul", PLAIN),
        (ARM, "neoverse-v1", "+neon,+aes", PMULL),
        (ARM, "cortex-a72", "+neon", PLAIN),
        ("arm64-apple-darwin23.1.0", "apple-m1", "", PMULL),
        ("arm64-apple-darwin23.1.0", "apple-m1", "-aes", PLAIN),
        ("powerpc64le-unknown-linux-gnu", "pwr9", "+vsx", PLAIN),
    ],
)
def test_a_code_is_chosen_by_the_features_that_are_named(triple: str, cpu: str, features: str, code: str) -> None:
    assert instructions_of(triple, cpu, features) == code
