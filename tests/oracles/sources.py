"""Secret sources whose bytes a test has written down."""


class Given:
    """Given bytes, of which one read gives at most ``most``; it fails at their end."""

    def __init__(self, data: bytes, most: int | None = None) -> None:
        self.data, self.most = data, most
        self.reads: list[int] = []
        self.at = 0

    def read(self, size: int) -> bytes:
        self.reads.append(size)
        taken = self.data[self.at :][: size if self.most is None else min(size, self.most)]
        assert taken or not size, f"no byte is left, of {size} more that are wanted"
        self.at += len(taken)
        return taken
