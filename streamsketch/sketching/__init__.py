"""Exact, mergeable, secret sketches of one stream or of many by key; ``bounding`` clips what a unit contributes."""
