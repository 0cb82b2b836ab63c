"""Faults that tests must notice: each is put into a copy of the library, and the tests that guard it are run.

A file of this folder has the faults of one folder of the library. A fault is a text of a source file, its replacement,
and the tests of which at least one must fail. `python -m tests.faults` (`make faults`) tries them all.
"""
