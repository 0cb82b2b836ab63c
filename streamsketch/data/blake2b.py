"""Keyed BLAKE2b (RFC 7693) of a whole column of short texts, without a Python object for each."""

import numpy as np
from numpy.typing import NDArray

from streamsketch.core import Ints, Words, kernel, part

_BLOCK = 128
_IV = np.array(
    [
        *(0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1),
        *(0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179),
    ],
    dtype=np.uint64,
)

_ORDERS = np.array(  # of the words of a block, by round; loops compile in a third of the time of twelve rounds
    [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
        [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
        [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
        [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
        [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
        [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
        [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
        [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
        [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
    ],
    dtype=np.uint8,
)


def keyed_state(digest_size: int, key: bytes, person: bytes) -> Words:
    """Return the state of a keyed hash after the block with its key: uint64, (8,).

    Parameters
    ----------
    digest_size
        1 to 64 bytes.
    key
        1 to 64 bytes.
    person
        At most 16 bytes.
    """
    parameters = bytes([digest_size, len(key), 1, 1]) + bytes(44) + person.ljust(16, b"\0")
    state: Words = _IV ^ np.frombuffer(parameters, dtype="<u8").astype(np.uint64)
    compress(state, np.frombuffer(key.ljust(_BLOCK, b"\0"), dtype="<u8").astype(np.uint64), _BLOCK, last=False)
    return state


@part
def mix(a, b, c, d, x, y):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201 - inlined
    """Mix two words of a block into four of the state."""
    a = a + b + x
    d ^= a
    d = (d >> np.uint64(32)) | (d << np.uint64(32))
    c += d
    b ^= c
    b = (b >> np.uint64(24)) | (b << np.uint64(40))
    a = a + b + y
    d ^= a
    d = (d >> np.uint64(16)) | (d << np.uint64(48))
    c += d
    b ^= c
    b = (b >> np.uint64(63)) | (b << np.uint64(1))
    return a, b, c, d


@kernel
def compress(h: Words, m: Words, count: int, last: bool) -> None:  # noqa: FBT001 - Numba compiles no keywords
    """Take a block into the state; ``count`` bytes, at most 2^63, are hashed with it."""
    v14 = ~_IV[6] if last else _IV[6]
    v0, v1, v2, v3, v4, v5, v6, v7 = h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7]
    v8, v9, v10, v11, v12, v13, v15 = _IV[0], _IV[1], _IV[2], _IV[3], _IV[4] ^ np.uint64(count), _IV[5], _IV[7]
    for turn in range(12):
        order = _ORDERS[turn]
        v0, v4, v8, v12 = mix(v0, v4, v8, v12, m[order[0]], m[order[1]])
        v1, v5, v9, v13 = mix(v1, v5, v9, v13, m[order[2]], m[order[3]])
        v2, v6, v10, v14 = mix(v2, v6, v10, v14, m[order[4]], m[order[5]])
        v3, v7, v11, v15 = mix(v3, v7, v11, v15, m[order[6]], m[order[7]])
        v0, v5, v10, v15 = mix(v0, v5, v10, v15, m[order[8]], m[order[9]])
        v1, v6, v11, v12 = mix(v1, v6, v11, v12, m[order[10]], m[order[11]])
        v2, v7, v8, v13 = mix(v2, v7, v8, v13, m[order[12]], m[order[13]])
        v3, v4, v9, v14 = mix(v3, v4, v9, v14, m[order[14]], m[order[15]])
    h[0] ^= v0 ^ v8
    h[1] ^= v1 ^ v9
    h[2] ^= v2 ^ v10
    h[3] ^= v3 ^ v11
    h[4] ^= v4 ^ v12
    h[5] ^= v5 ^ v13
    h[6] ^= v6 ^ v14
    h[7] ^= v7 ^ v15


@kernel
def digest_column(state: Words, tag: int, data: NDArray[np.uint8], stops: Ints, out: Words) -> None:
    """Write the first words of the digest of a tag byte and each text: ``out`` is (n, words).

    Parameters
    ----------
    state
        After the block with the key, by `keyed_state`.
    data, stops
        All texts as one, and the end of each.
    """
    block, h = np.empty(16, dtype=np.uint64), np.empty(8, dtype=np.uint64)
    start = 0
    for i in range(stops.size):
        h[:] = state
        taken, size = 0, stops[i] - start + 1  # of the message, which begins with the tag
        while True:
            block[:] = 0
            stop = min(size, taken + _BLOCK)
            for at in range(taken, stop):
                byte = np.uint64(tag) if at == 0 else np.uint64(data[start + at - 1])
                place = at - taken
                block[place >> 3] |= byte << np.uint64((place & 7) << 3)
            taken = stop
            compress(h, block, _BLOCK + taken, taken == size)
            if taken == size:
                break
        for word in range(out.shape[1]):
            out[i, word] = h[word]
        start = stops[i]
