"""Bytes of other parties: what is unsound is refused in one way, at bounded cost."""
