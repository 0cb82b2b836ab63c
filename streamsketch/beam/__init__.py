"""Apache Beam transforms: sketches, releases and distances of data that does not fit one machine.

The merged sketches have the same bits as one loop over the data, on any runner, with any bundling and any
retries; releases carry noise that is drawn once (THEORY.md 4.2).
"""

try:
    import apache_beam  # noqa: F401
except ImportError as missing:
    raise ImportError("streamsketch.beam needs Apache Beam: pip install 'streamsketch[beam]'") from missing

from streamsketch.beam.bounding import BoundContributions
from streamsketch.beam.coders import (
    MeanAggregatorCoder,
    PrivateSketchCoder,
    SignSketchCoder,
    SketchCoder,
    register_coders,
)
from streamsketch.beam.distances import DistancesTo, PairwiseDistances
from streamsketch.beam.means import MeanPerKey
from streamsketch.beam.nearest import NearestNeighbours
from streamsketch.beam.nearest_signs import NearestSigns
from streamsketch.beam.reading import ReadColumns, read_batches
from streamsketch.beam.releasing import ReleasePerKey
from streamsketch.beam.results import comparison_schema
from streamsketch.beam.runs import FinishRun, configure_run, run_secret
from streamsketch.beam.selection import SelectKeys
from streamsketch.beam.signs import ReleaseSignsPerKey
from streamsketch.beam.sketching import MergeSketches, SketchPerKey
from streamsketch.beam.tables import WriteTable
from streamsketch.beam.windows import SlidingWindowSums, TumblingWindows

register_coders()

__all__ = [
    "BoundContributions",
    "DistancesTo",
    "FinishRun",
    "MeanAggregatorCoder",
    "MeanPerKey",
    "MergeSketches",
    "NearestNeighbours",
    "NearestSigns",
    "PairwiseDistances",
    "PrivateSketchCoder",
    "ReadColumns",
    "ReleasePerKey",
    "ReleaseSignsPerKey",
    "SelectKeys",
    "SignSketchCoder",
    "SketchCoder",
    "SketchPerKey",
    "SlidingWindowSums",
    "TumblingWindows",
    "WriteTable",
    "comparison_schema",
    "configure_run",
    "read_batches",
    "run_secret",
]
