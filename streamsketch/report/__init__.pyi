from .bounds import picture_of
from .changes import LEAST_TYPICAL, picture_of_changes, picture_of_series
from .choice import measure_of
from .differences import Dictionary, item_text, more_in, picture_of_differences, row_cells
from .federation import Drift, Federation, federation_of
from .federation_page import page_of_federation
from .keys import picture_of_keys
from .page import page_of
from .site_plans import picture_of_sites
from .viewer import viewer_page

__all__ = [
    "LEAST_TYPICAL",
    "Dictionary",
    "Drift",
    "Federation",
    "federation_of",
    "item_text",
    "measure_of",
    "more_in",
    "page_of",
    "page_of_federation",
    "picture_of",
    "picture_of_changes",
    "picture_of_differences",
    "picture_of_keys",
    "picture_of_series",
    "picture_of_sites",
    "row_cells",
    "viewer_page",
]
