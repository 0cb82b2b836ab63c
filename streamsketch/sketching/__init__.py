"""Exact, mergeable, secret: sketches of one stream or of one a key, and bounds on what a unit contributes."""
