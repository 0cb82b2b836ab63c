"""Bytes of other parties: what is invalid is refused in one way, at bounded cost."""
