"""An agreement and a job from one set of fields, as tests of streams vary them."""

import dataclasses
from typing import Any

import streamsketch as ss
from streamsketch.privacy.schedule_kinds import schedule_of
from streamsketch.streams.job import Job
from streamsketch.streams.policy import StreamPolicy

_WINDOWS = {
    "time": "time", "window": "every", "time_format": "format", "zone": "zone", "start": "first", "last": "last",
    "period": "period", "max_windows": "max_windows",
}  # fmt: skip
_TERMS = ("epsilon", "delta", "mechanism")
_JOB = tuple(field.name for field in dataclasses.fields(Job))
_AGREED = ("public_keys", "clip", "schedule", "neighbours")


def split(agreement: ss.Agreement, **fields: Any) -> tuple[ss.Agreement, Job]:
    """Return an agreement with terms, keys, windows and schedule, and the job.

    Fields are ``time``, ``window``, ``time_format``, ``zone``, ``start``, ``last``, ``period`` and ``max_windows`` of
    windows; ``epsilon``, ``delta`` and ``mechanism``; ``public_keys``, ``schedule``, ``clip``, where ``"none"`` leaves
    out the units, and ``neighbours``; and those of `Job`. What is None is left out.
    """
    if unknown := fields.keys() - {*_WINDOWS, *_TERMS, *_JOB, *_AGREED}:
        raise TypeError(f"unknown fields {sorted(unknown)}")
    stated = {name: value for name, value in fields.items() if value is not None}
    windows = ss.Windows(**{_WINDOWS[name]: value for name, value in stated.items() if name in _WINDOWS})
    changes: dict[str, Any] = {"windows": windows}
    changes["terms"] = ss.Terms(**{name: stated[name] for name in _TERMS if name in stated})
    changes |= {name: stated[name] for name in ("clip", "neighbours") if name in stated}
    if "public_keys" in stated:
        changes["keys"] = stated["public_keys"]
    if "schedule" in stated:
        schedule = stated["schedule"]
        changes["schedule"] = schedule_of(schedule) if isinstance(schedule, dict) else schedule
    if changes.get("clip") == "none":
        changes |= {"clip": None, "unit": None}
    job = Job(**{name: value for name, value in stated.items() if name in _JOB})
    return agreement.replace(**changes), job


def followed(agreement: ss.Agreement, **fields: Any) -> StreamPolicy:
    """Return both together, as engines follow them."""
    return StreamPolicy(*split(agreement, **fields))
