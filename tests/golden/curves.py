"""Ed25519, X25519, ChaCha20 and HKDF by their RFCs, in Python's integers: slow, and of public test keys only.

Nothing here takes constant time. RFC 8032, RFC 7748, RFC 8439 and RFC 5869.
"""

import functools
import hashlib
import hmac
from typing import TypeAlias

Point: TypeAlias = tuple[int, int, int, int]
P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
ROOT_OF_MINUS_1 = pow(2, (P - 1) // 4, P)


# --- Ed25519 ------------------------------------------------------------------------------------------------------


def add(a: Point, b: Point) -> Point:
    """Return the sum of two points in extended coordinates."""
    e, f = (a[1] - a[0]) * (b[1] - b[0]) % P, (a[1] + a[0]) * (b[1] + b[0]) % P
    g, h = 2 * a[3] * b[3] * D % P, 2 * a[2] * b[2] % P
    return (f - e) * (h - g) % P, (h + g) * (f + e) % P, (h - g) * (h + g) % P, (f - e) * (f + e) % P


def times(count: int, point: Point) -> Point:
    """Return a multiple of a point."""
    total: Point = (0, 1, 1, 0)
    while count:
        if count & 1:
            total = add(total, point)
        point, count = add(point, point), count >> 1
    return total


def x_of(y: int, sign: int) -> int | None:
    """Return the x of a point on the curve, None if there is none."""
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * ROOT_OF_MINUS_1 % P
    if (x * x - square) % P or (x == 0 and sign):
        return None
    return P - x if x % 2 != sign else x


def packed(point: Point) -> bytes:
    """Return a point as 32 bytes."""
    inverse = pow(point[2], -1, P)
    x, y = point[0] * inverse % P, point[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def unpacked(data: bytes) -> Point | None:
    """Return the point in 32 bytes, None if there is none."""
    y = int.from_bytes(data, "little")
    sign, y = y >> 255, y & (1 << 255) - 1
    x = None if y >= P else x_of(y, sign)
    return None if x is None else (x, y, 1, x * y % P)


BASE_Y = 4 * pow(5, -1, P) % P
BASE_X = x_of(BASE_Y, 0) or 0
BASE: Point = (BASE_X, BASE_Y, 1, BASE_X * BASE_Y % P)


def secret_of(seed: bytes) -> tuple[int, bytes]:
    """Return the secret number and the prefix of a private key's 32 bytes."""
    digest = hashlib.sha512(seed).digest()
    return clamped(digest[:32]), digest[32:]


def clamped(data: bytes) -> int:
    """Return 32 bytes as a secret number of either curve."""
    return int.from_bytes(data, "little") & (1 << 254) - 8 | 1 << 254


@functools.cache
def public_of(seed: bytes) -> bytes:
    """Return the public key of a private one."""
    return packed(times(secret_of(seed)[0], BASE))


def challenge(*parts: bytes) -> int:
    """Return the hash that a signature answers."""
    return int.from_bytes(hashlib.sha512(b"".join(parts)).digest(), "little") % ORDER


@functools.cache
def sign(seed: bytes, message: bytes) -> bytes:
    """Return a signature."""
    secret, prefix = secret_of(seed)
    nonce = challenge(prefix, message)
    first = packed(times(nonce, BASE))
    answer = (nonce + challenge(first, public_of(seed), message) * secret) % ORDER
    return first + answer.to_bytes(32, "little")


@functools.cache
def is_signed(public: bytes, signature: bytes, message: bytes) -> bool:
    """Return whether a signature is the key's over the message."""
    if len(public) != 32 or len(signature) != 64:
        return False
    key, first, answer = unpacked(public), unpacked(signature[:32]), int.from_bytes(signature[32:], "little")
    if key is None or first is None or answer >= ORDER:
        return False
    other = add(first, times(challenge(signature[:32], public, message), key))
    return packed(times(answer, BASE)) == packed(other)


# --- X25519 -------------------------------------------------------------------------------------------------------


@functools.cache
def shared(private: bytes, public: bytes) -> bytes:
    """Return the secret of a private key and another's public one."""
    scalar, u = clamped(private), int.from_bytes(public, "little") & (1 << 255) - 1
    x2, z2, x3, z3, swapped = 1, 0, u, 1, 0
    for place in range(254, -1, -1):
        bit = scalar >> place & 1
        if swapped != bit:
            x2, z2, x3, z3 = x3, z3, x2, z2
        swapped = bit
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        aa, bb, da, cb = a * a % P, b * b % P, d * a % P, c * b % P
        e = aa - bb
        x3, z3 = (da + cb) ** 2 % P, u * (da - cb) ** 2 % P
        x2, z2 = aa * bb % P, e * (aa + 121665 * e) % P
    if swapped:
        x2, z2 = x3, z3
    return (x2 * pow(z2, -1, P) % P).to_bytes(32, "little")


def agreement_of(private: bytes) -> bytes:
    """Return the public key of a private one."""
    return shared(private, (9).to_bytes(32, "little"))


# --- ChaCha20 and HKDF ---------------------------------------------------------------------------------------------


def hkdf(secret: bytes, salt: bytes, info: bytes) -> bytes:
    """Return 32 bytes of HKDF-SHA256."""
    extracted = hmac.digest(salt, secret, "sha256")
    return hmac.digest(extracted, info + b"\1", "sha256")


def chacha20(key: bytes, size: int) -> bytes:
    """Return the first bytes of the stream, of counter and nonce 0."""
    words = [int.from_bytes(key[at : at + 4], "little") for at in range(0, 32, 4)]
    out = b""
    for counter in range(-(-size // 64)):
        first = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574, *words, counter, 0, 0, 0]
        state = list(first)
        for _ in range(10):
            for a in range(4):
                quarter(state, a, a + 4, a + 8, a + 12)
            for a in range(4):
                quarter(state, a, 4 + (a + 1) % 4, 8 + (a + 2) % 4, 12 + (a + 3) % 4)
        out += b"".join(((x + y) % 2**32).to_bytes(4, "little") for x, y in zip(state, first, strict=True))
    return out[:size]


def quarter(state: list[int], a: int, b: int, c: int, d: int) -> None:
    """Stir four words."""
    for one, other, third, by in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        state[one] = (state[one] + state[other]) % 2**32
        mixed = state[third] ^ state[one]
        state[third] = (mixed << by | mixed >> 32 - by) % 2**32
