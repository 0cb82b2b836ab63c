from .bound import BoundContributions
from .coders import MeanAggregatorCoder, PrivateSketchCoder, SignSketchCoder, SketchCoder, register_coders
from .compare import DistancesTo, PairwiseDistances
from .contribute import ContributePerKey
from .means import MeanPerKey
from .nearest import NearestNeighbours
from .nearest_signs import NearestSigns
from .read import ReadColumns, read_batches
from .release import ReleasePerKey
from .results import comparison_schema
from .runs import FinishRun, configure_run, run_secret
from .select import SelectKeys
from .signs import ReleaseSignsPerKey
from .sketch import MergeSketches, SketchPerKey
from .tables import WriteTable
from .windows import SlidingWindowSums, TumblingWindows

__all__ = [
    "BoundContributions",
    "ContributePerKey",
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
    "register_coders",
    "run_secret",
]
