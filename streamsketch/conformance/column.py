"""Print a column of an `sjlt-block` map as (row, sign) pairs, following WIRE.md, with the standard library only.

Usage: ``python column.py SEED SKETCH_DIM SPARSITY INDEPENDENCE INDEX``.
"""

import sys
from functools import reduce
from hashlib import blake2b


def column(seed: int, k: int, s: int, t: int, index: int) -> list[tuple[int, int]]:
    """Return the rows and signs of the nonzeros of column ``index``."""
    width = (k // s).bit_length()  # log2(k/s) + 1
    words = -(-s // (64 // width))
    per_word = -(-s // words)

    def element(i: int) -> int:
        message, key = b"sjlt-block\0" + i.to_bytes(8, "little"), seed.to_bytes(8, "little")
        return int.from_bytes(blake2b(message, digest_size=8, key=key, person=b"streamsketch.gf2").digest(), "little")

    def times_index(word: int) -> int:
        product = reduce(lambda total, bit: total ^ (word << bit) * (index >> bit & 1), range(60), 0)
        return reduce(
            lambda left, top: left ^ (0x1_0000_0000_0000_001B << top) * (left >> 64 + top & 1),
            range(59, -1, -1),
            product,
        )

    hashed = [reduce(lambda word, i: times_index(word) ^ element(i), range(w * t, w * t + t), 0) for w in range(words)]
    fields = [hashed[r // per_word] >> r % per_word * width & (1 << width) - 1 for r in range(s)]
    return [(r * k // s + field % (k // s), -1 if field >= k // s else 1) for r, field in enumerate(fields)]


if __name__ == "__main__":
    print(column(*map(int, sys.argv[1:])))  # noqa: T201
