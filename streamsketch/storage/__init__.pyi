from .raw_files import load_raw, save_raw
from .releases import release_raw

__all__ = ["load_raw", "release_raw", "save_raw"]
