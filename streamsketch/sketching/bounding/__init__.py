"""Contribution bounding: limits what one privacy unit adds to the sketches of a table."""
