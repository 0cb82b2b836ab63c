"""The papers' figures: a folder for each paper, a module for each figure or group of them.

Each module has a ``run(effort, data)`` that returns a `Study`.
"""
