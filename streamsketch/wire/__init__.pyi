from . import local_reports
from .releases import decode_release, encode_release
from .sign_tables import load_sign_table, save_sign_table
from .signs import decode_signs, encode_signs, is_signs, load_signs
from .tables import column_names, table_of

__all__ = [
    "column_names",
    "decode_release",
    "decode_signs",
    "encode_release",
    "encode_signs",
    "is_signs",
    "load_sign_table",
    "load_signs",
    "local_reports",
    "save_sign_table",
    "table_of",
]
