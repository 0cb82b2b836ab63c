"""Import every mechanism, so that each registers itself for JSON and the wire."""

from streamsketch.local import compressed, gaussian, priv_unit_g, proj_unit
from streamsketch.local.baselines import priv_hs, priv_unit, sqkr

__all__ = ["compressed", "gaussian", "priv_hs", "priv_unit", "priv_unit_g", "proj_unit", "sqkr"]
