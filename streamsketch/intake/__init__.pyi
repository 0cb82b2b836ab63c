from .columns import salvage
from .events import Events
from .files import RowReader
from .lines import BadLines
from .log import Log
from .messages import Messages
from .rows import Intake

__all__ = ["BadLines", "Events", "Intake", "Log", "Messages", "RowReader", "salvage"]
