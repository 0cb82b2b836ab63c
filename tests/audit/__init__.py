"""What the library claims, and what checks it: ``make audit`` runs all of it with fresh randomness, and prints a table.

`claims.toml` has a row for each claim: its theorem, its place in the code, and the tests that check it. They are the
tests of the other folders, so the audit has no copies of them. A test reports how much of what is allowed was left, and
over how many cases, by `tests.audit.record.judged`. The page ``docs/explanation/audit.md`` is made of the same file.
"""
