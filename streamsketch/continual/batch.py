"""All windows of a stream at once, by a schedule."""

from collections.abc import Iterable
from typing import Any

from streamsketch.accounting.ledger import Ledger
from streamsketch.errors import InvalidInputError
from streamsketch.release.additive_noise import AdditiveNoise, CalibratedNoise
from streamsketch.release.private_sketch import PrivateSketch
from streamsketch.release.private_table import PrivateTable
from streamsketch.schedules.releaser import Releaser
from streamsketch.sketching.sketch import Sketch
from streamsketch.sketching.table import SketchTable


def release(
    windows: Iterable[Sketch | SketchTable],
    publisher: AdditiveNoise | CalibratedNoise,
    *,
    public_keys: Iterable[object] | None = None,
    keys_are_public: bool = False,
    assert_bounds: bool = False,
    ledger: Ledger | None = None,
    dataset: str | None = None,
) -> list[PrivateSketch | PrivateTable]:
    """Release windows by a schedule: return one row for each window, all under one guarantee.

    Parameters
    ----------
    windows
        Exact sketches or tables of one projection, oldest first, at most as many as the schedule's horizon. A window
        without data is an empty sketch.
    publisher
        `AdditiveNoise` with a schedule.
    public_keys, keys_are_public
        For tables, as in `SketchTable.release`; all windows have the same keys.
    assert_bounds, ledger, dataset
        As in `Sketch.release`, for all windows together, which are charged once.

    Raises
    ------
    TypeError, InvalidInputError, IncompatibleProjectionsError, LedgerError
        As in `Releaser` and `Releaser.add`; for no windows.

    Examples
    --------
    >>> from streamsketch import L1, SJLT, AdditiveNoise
    >>> from streamsketch.continual import Tree, release
    >>> projection = SJLT(sketch_dim=64, sparsity=4, seed=7)
    >>> publish = AdditiveNoise(epsilon=1.0, neighbours=L1(1, unit="sale"), schedule=Tree(horizon=7))
    >>> rows = release([projection.sketch() for _ in range(7)], publish)
    >>> len(rows), rows[6].guarantee.epsilon
    (7, 1.0)
    """
    keys = None if public_keys is None else list(public_keys)
    releaser: Releaser | None = None
    rows: list[PrivateSketch | PrivateTable] = []
    for window in windows:
        if not isinstance(window, Sketch | SketchTable):
            raise TypeError(f"a window is a Sketch or a SketchTable, got a {type(window).__name__}")
        releaser = releaser or Releaser(publisher, window.projection, assert_bounds=assert_bounds)
        options: dict[str, Any] = {"public_keys": keys, "keys_are_public": keys_are_public}
        rows.append(releaser.add(window, **options, ledger=ledger, dataset=dataset))
    if not rows:
        raise InvalidInputError("there is no window to release; pass at least one")
    return rows
