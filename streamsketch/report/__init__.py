"""A report of releases as one page."""
