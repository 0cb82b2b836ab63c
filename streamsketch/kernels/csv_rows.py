"""Where rows of CSV end, by a strict grammar, of megabytes at once."""

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.jit import kernel

_QUOTE, _RETURN, _NEWLINE = ord('"'), ord("\r"), ord("\n")


@kernel
def strict_rows(data: NDArray[np.uint8], mark: int, multiline: bool) -> int:  # noqa: FBT001 - kernels take no keywords
    """Return where the first row begins that is not strict CSV; the length of the whole rows if all are.

    ``mark`` is the byte between cells. The grammar is that of `data.readers.rows`, whose patterns are its slow twin.
    """
    begin, at = 0, 0
    while at < data.size:
        if data[at] == _QUOTE:
            at += 1
            while at < data.size and (data[at] != _QUOTE or (at + 1 < data.size and data[at + 1] == _QUOTE)):
                if data[at] == _NEWLINE and not multiline:
                    return begin
                at += 2 if data[at] == _QUOTE else 1
            at += 1
        else:
            while at < data.size and data[at] != mark and data[at] != _RETURN and data[at] != _NEWLINE:
                at += 1
        if at < data.size and data[at] == mark:
            at += 1
            continue
        while at < data.size and data[at] == _RETURN:
            at += 1
        if at >= data.size or data[at] != _NEWLINE:
            return begin
        at += 1
        begin = at
    return begin
