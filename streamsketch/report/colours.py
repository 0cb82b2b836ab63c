"""Colours of a heat map: scales from near to far, and a picture of them."""

import base64
import math
import struct
import zlib
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamsketch.estimation import By, Estimates

Colour = tuple[int, int, int]
Floats = NDArray[np.float64]

_VIRIDIS = np.array(
    [
        (253, 231, 37),
        (159, 218, 58),
        (74, 193, 109),
        (31, 161, 135),
        (39, 127, 142),
        (54, 92, 141),
        (70, 50, 127),
    ],
    dtype=np.float64,
)
_LEAST = 0.01  # of the cosines are darker than the scale
_NOTHING = (128, 128, 128)


class Scale(NamedTuple):
    """What colours mean: light for near, dark for far."""

    near: float
    far: float
    logarithmic: bool

    def places(self, values: Floats) -> Floats:
        """Return where values lie between near, 0, and far, 1."""
        low, high = sorted((self.near, self.far))
        inside = np.clip(values, low, high)
        if self.logarithmic:
            places: Floats = np.log(inside / self.near) / math.log(self.far / self.near)
        else:
            places = (inside - self.near) / (self.far - self.near)
        return places

    def steps(self) -> list[float]:
        """Return five values from near to far, evenly spaced on the scale."""
        if self.logarithmic:
            return [self.near * (self.far / self.near) ** (step / 4) for step in range(5)]
        return [self.near + (self.far - self.near) * step / 4 for step in range(5)]


def scale_of(estimates: Estimates, by: By) -> Scale:
    """Return a scale for (n, n) estimates: logarithmic for squared distances, linear for the others."""
    apart = ~np.eye(len(estimates.value), dtype=bool)
    values = estimates.value[apart]
    if by == "cosine":
        near = min(1.0, float(values.max()))
        # the least of many cosines shows only noise
        return Scale(near, min(max(-1.0, float(np.quantile(values, _LEAST))), near - 0.1), logarithmic=False)
    if by == "profile":
        near = max(0.0, float(values.min()))
        return Scale(near, max(min(4.0, float(values.max())), near + 0.2), logarithmic=False)
    # colours below the least standard error would show only noise
    low = max(float(estimates.standard_error[apart].min()), float(values.max()) / 1e6, 1e-12)
    return Scale(low, max(float(values.max()), 10 * low), logarithmic=True)


def colours(places: Floats) -> NDArray[np.uint8]:
    """Return colours of places from 0, near, to 1, far: (…, 3)."""
    along = places * (len(_VIRIDIS) - 1)
    left = np.minimum(along.astype(np.intp), len(_VIRIDIS) - 2)
    part = (along - left)[..., None]
    found: NDArray[np.uint8] = np.rint(_VIRIDIS[left] + (_VIRIDIS[left + 1] - _VIRIDIS[left]) * part).astype(np.uint8)
    return found


def colour(place: float) -> Colour:
    """Return the colour of one place."""
    red, green, blue = colours(np.array(place)).tolist()
    return red, green, blue


def luminance(colour: Colour) -> float:
    """Return the relative luminance of a colour (WCAG 2)."""
    linear = [(c / 255 / 12.92) if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def readable_on(colour: Colour) -> str:
    """Return black or white, whichever has a contrast of at least 4.5 on the colour."""
    bright = luminance(colour)
    return "#000" if (bright + 0.05) / 0.05 >= 1.05 / (bright + 0.05) else "#fff"


def picture(places: Floats) -> str:
    """Return (n, n) places as a PNG of one pixel each, base64; the diagonal is grey."""
    pixels = colours(places)
    pixels[np.eye(len(places), dtype=bool)] = _NOTHING
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", *places.shape, 8, 2, 0, 0, 0)  # 8 bits of each of red, green, blue
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b"")]
    file = b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, content) for name, content in chunks)
    return base64.b64encode(file).decode()


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
