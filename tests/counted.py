"""Releases whose units were counted: customers of one length, in sketch space."""

from collections.abc import Callable

import pyarrow as pa

import streamsketch as ss

PROJECTION = ss.SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=7, resolution="1/4096")
NEIGHBOURS = ss.SketchL2(1, unit="customer", max_keys=1)
AGREEMENT = ss.Agreement(
    PROJECTION,
    index="item",
    value="sold",
    unit="customer",
    neighbours=NEIGHBOURS,
    clip="equal",
    counting=ss.privacy.Counting(1024),
)


def customers(count: int, items: tuple[int, ...]) -> ss.Sketch:
    """Return the sketch of customers who all buy the same."""
    return bounded(AGREEMENT, count, items)


def bounded(agreement: ss.Agreement, count: int, items: tuple[int, ...]) -> ss.Sketch:
    """Return such a sketch under another agreement on columns of these names."""
    rows = {
        "item": [item for _ in range(count) for item in items],
        "sold": [1] * (count * len(items)),
        "customer": [str(customer) for customer in range(count) for _ in items],
    }
    found = ss.bound(pa.table(rows), agreement)
    assert isinstance(found, ss.Sketch)
    return found


def counted(count: int, items: tuple[int, ...]) -> ss.PrivateSketch:
    """Return a release of such customers: the number of units is ± 8."""
    return customers(count, items).release(epsilon=2.0, delta=1e-6, neighbours=NEIGHBOURS)


def hidden(draw: Callable[[], ss.PrivateSketch]) -> ss.PrivateSketch:
    """Return the first release whose number of units is within two standard errors of 0: of few units, most are."""
    draws = (draw() for _ in range(20))
    return next(release for release in draws if release.units.value <= 2 * release.units.standard_error)


def shops() -> dict[str, ss.PrivateSketch]:
    """Return four: the first two sell alike, the third sells other things, the last is said to have no customers."""
    sizes = {"north": (300, (1, 2)), "south": (900, (1, 2)), "east": (250, (3,))}
    return {name: counted(*shop) for name, shop in sizes.items()} | {"kiosk": hidden(lambda: counted(2, (3,)))}
