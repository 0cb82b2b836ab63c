"""Data frames: of this process, and on a cluster of Spark where pyspark is installed."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pytest

from tests.spark.cluster import SparkCluster, session
from tests.spark.frames import LocalFrame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FrameOf: TypeAlias = Callable[[pa.Table, int], Any]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    pyspark = pytest.importorskip("pyspark", reason="Spark has an environment of its own (make test-spark)")
    with SparkCluster(Path(pyspark.__file__).parent, tmp_path_factory.mktemp("spark")) as running:
        yield running


@pytest.fixture(scope="session")
def spark(cluster: SparkCluster) -> Iterator["SparkSession"]:
    found = session(cluster.url)
    yield found
    found.stop()


@pytest.fixture(params=["here", "spark"])
def frame_of(request: pytest.FixtureRequest) -> FrameOf:
    """Return what makes a data frame of rows in so many partitions."""
    if request.param == "here":
        return LocalFrame.of
    found: SparkSession = request.getfixturevalue("spark")
    return lambda rows, partitions: found.createDataFrame(rows).repartition(partitions)
