from .compare.distances import DistancesTo, PairwiseDistances
from .compare.frequencies import Frequencies, frequency_schema
from .compare.nearest import NearestNeighbours
from .compare.nearest_signs import NearestSigns
from .compare.results import comparison_schema
from .compare.tables import WriteTable
from .intake.bound import BoundContributions
from .intake.read import ReadColumns, read_batches
from .intake.rows import RowsToBatches
from .intake.sketch import MergeSketches, SketchPerKey
from .intake.windows import CalendarWindows, SlidingWindowSums, TumblingWindows
from .release.agreed import Release
from .release.contribute import RoundContribution
from .release.means import MeanPerKey
from .release.release import ReleasePerKey
from .release.select import SelectKeys
from .run.coders import MeanAggregatorCoder, PrivateSketchCoder, SignSketchCoder, SketchCoder, register_coders
from .run.runs import FinishRun, configure_run, run_secret

__all__ = [
    "BoundContributions",
    "CalendarWindows",
    "DistancesTo",
    "FinishRun",
    "Frequencies",
    "MeanAggregatorCoder",
    "MeanPerKey",
    "MergeSketches",
    "NearestNeighbours",
    "NearestSigns",
    "PairwiseDistances",
    "PrivateSketchCoder",
    "ReadColumns",
    "Release",
    "ReleasePerKey",
    "RoundContribution",
    "RowsToBatches",
    "SelectKeys",
    "SignSketchCoder",
    "SketchCoder",
    "SketchPerKey",
    "SlidingWindowSums",
    "TumblingWindows",
    "WriteTable",
    "comparison_schema",
    "configure_run",
    "frequency_schema",
    "read_batches",
    "register_coders",
    "run_secret",
]
