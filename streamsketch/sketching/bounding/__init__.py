"""Contribution bounding: what one privacy unit may add to the sketches of a table."""
