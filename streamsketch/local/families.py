"""Every mechanism, imported: each registers itself, so that JSON and the wire can name it."""

from streamsketch.local import compressed, gaussian, priv_hs, priv_unit, priv_unit_g, proj_unit, sqkr

__all__ = ["compressed", "gaussian", "priv_hs", "priv_unit", "priv_unit_g", "proj_unit", "sqkr"]
