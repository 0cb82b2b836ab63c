from .batches import ReleaseBatches
from .releases import release, releases_frame
from .sketches import KeyedSketches, sketch_per_key

__all__ = ["KeyedSketches", "ReleaseBatches", "release", "releases_frame", "sketch_per_key"]
