"""Release sketches from Spark once, on the driver."""

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from streamsketch.accounting.ledger import Ledger, check_ledger
from streamsketch.agreement.agreement import Agreement
from streamsketch.core.documents import TableKey
from streamsketch.errors import InvalidInputError
from streamsketch.release.agreed_publisher import publisher_of
from streamsketch.release.published_table import PublishedTable
from streamsketch.release.publishers import Publisher, check_for_tables
from streamsketch.sketching.bounding.units import SECRET_BYTES
from streamsketch.spark.sketches import KeyedSketches, Work
from streamsketch.spark.windows import check_windows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def release(
    sketches: "KeyedSketches | DataFrame",
    publisher: Publisher[Any] | Agreement,
    *,
    public_keys: Iterable[TableKey] | None = None,
    keys_are_public: bool = False,
    assert_bounds: bool = False,
    again: bool = False,
    ledger: Ledger | None = None,
    dataset: str | None = None,
) -> Any:
    """Run the job and return one release of the keys of a data frame.

    The exact sketches are sent to the driver, the ledger is charged, and then noise is drawn once. The result is the
    release itself and not a data frame, because each action on a column of noise, and each retried task, would draw new
    noise. If the job fails, nothing is charged or drawn.

    The release as a whole is (ε, δ)-differentially private; see `SketchTable.release`. Every call is a further release,
    which is charged. A second call with the same ``sketches`` does not read the data frame again, and the ledger
    recognises that its data are the same.

    Parameters
    ----------
    sketches
        The output of `sketch_per_key`; or, with an agreement, a data frame.
    publisher
        An agreement with terms, which says all that is published: the release is then that of
        ``agreement.release(rows)``, and of windows that are releases a dict of them by name. Or a mechanism, such as
        ``AdditiveNoise(epsilon=1.0, neighbours=agreement.neighbours)`` or one of `streamsketch.signs`.
    public_keys, keys_are_public, assert_bounds, again
        As in `SketchTable.release`; ``public_keys`` are by default those of `sketch_per_key`.
    ledger, dataset
        As in `SketchTable.release`. The budget is checked before the job runs and charged once it has ended.

    Returns
    -------
    PrivateTable or dict
        The release; other publishers return their own type of table. For an agreement with windows that are releases, a
        release of each window by its name, None where no key is published.

    Raises
    ------
    TypeError
        If sketches or publisher have another type, or the publisher's guarantee does not hold for tables.
    InvalidInputError
        As in `SketchTable.release` and `KeyedSketches.table`.
    LedgerError
        If the release exceeds the remaining budget of the data set. Nothing is charged then.

    Examples
    --------
    >>> import pytest
    >>> sql = pytest.importorskip("pyspark.sql", reason="Spark has an environment of its own (make test-spark)")
    >>> from streamsketch import L1, SJLT, Agreement
    >>> from streamsketch.release import AdditiveNoise
    >>> from streamsketch.spark import release, sketch_per_key
    >>> agreement = Agreement.of(SJLT(sketch_dim=64, sparsity=4, seed=7), key="shop", index="item", value="sold")
    >>> spark = sql.SparkSession.builder.master("local[2]").getOrCreate()
    >>> sales = spark.createDataFrame([("north", "tea", 3), ("south", "jam", 2)], ["shop", "item", "sold"])
    >>> noise = AdditiveNoise(epsilon=1.0, neighbours=L1(3, unit="sale"))
    >>> list(release(sketch_per_key(sales, agreement), noise, public_keys=["north", "east"]))
    ['east', 'north']
    """
    check_ledger(ledger)
    if isinstance(publisher, Agreement):
        if public_keys is not None or keys_are_public or assert_bounds:
            raise InvalidInputError("the agreement says which keys are published, and for whom: leave out the rest")
        return _release_frame(sketches, publisher, again=again, ledger=ledger, dataset=dataset)
    if not isinstance(sketches, KeyedSketches):
        raise TypeError(f"sketches must be the output of sketch_per_key, got a {type(sketches).__name__}")
    publish: Any = checked_publisher(publisher, sketches)
    if public_keys is None and not keys_are_public:
        public_keys = sketches.public_keys
    if (public_keys is not None) == keys_are_public:
        raise InvalidInputError(
            "which keys have data is private; pass exactly one of public_keys (the keys to release, chosen without "
            "looking at the data) and keys_are_public=True"
        )
    planned = publish.calibrated(sketches.projection).guarantee_for(sketches, assert_bounds=assert_bounds)
    if ledger is not None:  # which would refuse it after the job
        ledger.check(dataset, planned, projection=sketches.projection)
    released: PublishedTable[Any] = publish.release_table(
        sketches.table(),
        public_keys=public_keys,
        keys_are_public=keys_are_public,
        assert_bounds=assert_bounds,
        again=again,
        ledger=ledger,
        dataset=dataset,
    )
    return released


def _release_frame(df: Any, agreement: Agreement, *, again: bool, ledger: Ledger | None, dataset: str | None) -> Any:
    """Return the release of a data frame as its agreement says, as ``agreement.release(rows)`` does of rows."""
    if isinstance(df, KeyedSketches):
        raise TypeError("an agreement releases a data frame, which it bounds itself; got the output of sketch_per_key")
    publisher = publisher_of(agreement)
    check_windows(agreement)
    if agreement.key is None:
        raise InvalidInputError(
            "Spark releases keys, and the agreement has no key column: agree on one (key=…), or use "
            "agreement.release(rows) in one process"
        )
    by_windows = agreement.windows_are_releases
    published: Any = agreement.keys if by_windows else agreement.published_keys
    listed = published if isinstance(published, tuple) and agreement.unit is not None else None
    work = Work(agreement, public_keys=listed, by_windows=by_windows)
    sketches = work.sketches(df, os.urandom(SECRET_BYTES))
    planned = publisher.calibrated(agreement.projection).guarantee_for(sketches)
    if ledger is not None:  # which would refuse it after the job
        ledger.check(dataset, planned, projection=agreement.projection)
    exact: Any = sketches.windows() if by_windows else sketches.table()
    return agreement.release(exact, ledger=ledger, dataset=dataset, again=again)


def checked_publisher(publisher: Publisher[Any], data: Any) -> Publisher[Any]:
    """Return a publisher of tables, which counts units as the agreement of the data states, if they are counted."""
    check_for_tables(publisher)
    return publisher.counted_as(data.bounds, data.agreement)


def releases_frame(spark: "SparkSession", table: PublishedTable[Any]) -> "DataFrame":
    """Return a release as a Spark data frame: a row for each key, with the bytes of its release and its guarantee.

    The bytes are public and the same for each action. `PrivateSketch.from_bytes` reads those of a row.

    Parameters
    ----------
    spark
        The session.
    table
        The output of `release`, or any other table of releases.

    Examples
    --------
    >>> import pytest
    >>> sql = pytest.importorskip("pyspark.sql", reason="Spark has an environment of its own (make test-spark)")
    >>> from streamsketch import L1, SJLT
    >>> table = SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=7).table()
    >>> table.update(["north", "south"], [17, 18])
    >>> released = table.release(epsilon=1.0, neighbours=L1(1), public_keys=["north", "south"])
    >>> spark = sql.SparkSession.builder.master("local[2]").getOrCreate()
    >>> releases_frame(spark, released).columns
    ['key', 'sketch', 'epsilon', 'delta', 'unit', 'mechanism', 'conditions']
    """
    return spark.createDataFrame(table.to_arrow())
