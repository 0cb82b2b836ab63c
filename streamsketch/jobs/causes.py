"""Reasons why a stream may stand still: the state of its job on Flink, and of its topic's partitions in Kafka."""

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

from streamsketch.errors import InvalidInputError

_SECONDS = 5.0  # in which Flink must answer
_LARGEST = 1 << 22  # largest answer, in bytes


Findings: TypeAlias = tuple[list[str], dict[str, float | Mapping[int, float]]]
"""Problems, in sentences, and numbers by the names of their metrics, one each or one for each partition."""


class Cause(Protocol):
    """Something besides the sink that a watch checks; your own class needs this method.

    Examples
    --------
    >>> import shutil
    >>> class FreeSpace:
    ...     def look(self, now, stale_after):
    ...         free = shutil.disk_usage("/").free
    ...         return ["the disk is full"] if free == 0 else [], {"disk_free_bytes": float(free)}
    >>> problems, numbers = FreeSpace().look(now=0.0, stale_after=300.0)
    """

    def look(self, now: float, stale_after: float) -> Findings:
        """Return problems, in sentences, and numbers by the names of their metrics, or by metric and partition.

        Parameters
        ----------
        now
            The time, in seconds after 1970.
        stale_after
            How long a problem is reported, in seconds.
        """


class FlinkJob:
    """The state, restarts and checkpoints of a job on Flink, from the job manager's REST interface.

    Parameters
    ----------
    url
        Address of the job manager's REST interface, such as ``http://127.0.0.1:8081``.
    job
        The job's id, as in the event ``submitted``; None for the only job that has not ended.

    Raises
    ------
    InvalidInputError
        If ``url`` is not an HTTP address.

    Examples
    --------
    Nothing answers at this address, so that is the problem, and there are no numbers:

    >>> FlinkJob("http://127.0.0.1:1").look(now=0.0, stale_after=300.0)
    (['Flink does not answer: URLError'], {})
    """

    def __init__(self, url: str, job: str | None = None) -> None:
        if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
            raise InvalidInputError(
                f"the address of Flink's REST interface must be a URL such as http://127.0.0.1:8081, got {url!a:.80}"
            )
        self._url, self._job = url.rstrip("/"), job
        self._restarts: list[tuple[float, int]] = []

    def look(self, now: float, stale_after: float) -> Findings:
        """Return problems of the job, or that its interface does not answer."""
        try:
            return self._look(now, stale_after)
        except (OSError, ValueError, KeyError, TypeError) as error:
            return [f"Flink does not answer: {type(error).__name__}"], {}

    def _look(self, now: float, stale_after: float) -> Findings:
        jobs = {entry["jid"]: entry["state"] for entry in self._get("/jobs/overview")["jobs"]}
        living = [job for job, state in jobs.items() if state not in ("CANCELED", "FAILED", "FINISHED")]
        job = self._job or (living[0] if len(living) == 1 else None)
        if job is None:
            return [f"Flink has {len(living)} jobs that have not ended; name the stream's job"], {}
        state = jobs.get(job)
        if state is None:
            return ["Flink does not know the job"], {}
        checkpoints = self._get(f"/jobs/{job}/checkpoints")
        (restarts, *_) = [int(metric["value"]) for metric in self._get(f"/jobs/{job}/metrics?get=numRestarts")] or [0]
        wrong = [] if state == "RUNNING" else [f"the job is {state}"]
        kept = [(time, count) for time, count in self._restarts if now - time <= stale_after]
        self._restarts = [*kept, (now, restarts)]
        if recent := restarts - self._restarts[0][1]:
            wrong.append(f"the job was restarted {recent} times in {now - self._restarts[0][0]:.0f} s")
        latest = {kind: checkpoints["latest"].get(kind) for kind in ("completed", "failed")}
        times = {kind: checkpoint["trigger_timestamp"] / 1000 for kind, checkpoint in latest.items() if checkpoint}
        failed = checkpoints["counts"]["failed"]
        if times.get("failed", 0) > times.get("completed", 0):
            wrong.append(f"the last checkpoint failed ({failed} in all)")
        numbers: dict[str, float | Mapping[int, float]] = {"job_restarts": restarts, "checkpoints_failed": failed}
        if "completed" in times:
            numbers["checkpoint_age_seconds"] = age = now - times["completed"]
            if age > stale_after:
                wrong.append(f"no checkpoint was completed for {age:.0f} s")
        return wrong, numbers

    def _get(self, path: str) -> Any:
        with urllib.request.urlopen(self._url + path, timeout=_SECONDS) as answer:  # noqa: S310 - HTTP alone
            return json.loads(answer.read(_LARGEST))
