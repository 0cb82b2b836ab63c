"""What processes load once that others fork from: all modules of the library, and the kernels of a small table."""

from types import ModuleType

import streamsketch as ss

for name in ss.__all__:  # loaded when they are first used
    thing = getattr(ss, name)
    if isinstance(thing, ModuleType):
        for inside in getattr(thing, "__all__", []):
            getattr(thing, inside)
table = ss.SJLT(sketch_dim=64, sparsity=4, seed=1).table()
table.update(["a"], ["b"], [1.0])
table["a"].release(epsilon=1.0, neighbours=ss.L1(1)).to_bytes()
