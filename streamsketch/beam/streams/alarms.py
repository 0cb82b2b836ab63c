"""Alarms of sinks that write once, kept for the operator."""

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.transforms.window import IntervalWindow

from streamsketch.beam.run.claims import create_once
from streamsketch.beam.streams.slots import slot_of
from streamsketch.core.documents import TableKey
from streamsketch.once.alarms import REFUSED, Alarm, file_of


def refused_alarm(
    key: TableKey, stream: str, epoch: int | None, window: IntervalWindow = beam.DoFn.WindowParam
) -> Alarm:
    """Return the alarm of a key in a window that the ledger refused to cover.

    Examples
    --------
    >>> alarm = refused_alarm("AA", "flights", 3, IntervalWindow(3600, 7200))
    >>> str(alarm.slot), alarm.result
    ('flights 1970-01-01T01-00-00Z AA', 'refused')
    """
    return Alarm(slot_of(stream, key, window), REFUSED, epoch)


class WriteAlarms(beam.PTransform):
    """Write alarms to files for the operator: ``PCollection[Alarm] → None``.

    The file ``FOLDER/2013-01-01T05-00-00Z KEY.sketch.json`` has mode 0600 and is created once, so the first alarm of a
    slot stays. The names of slots and the number of files are public; the contents are **secret**.

    Parameters
    ----------
    folder
        A folder that all workers share, on a local or mounted file system, gs:// or s3://. Choose one beside the
        claims, not where results are published.

    Examples
    --------
    >>> import apache_beam as beam
    >>> from apache_beam.transforms.window import IntervalWindow
    >>> alarm = refused_alarm("AA", "flights", 3, IntervalWindow(3600, 7200))
    >>> pipeline = beam.Pipeline(runner="FnApiRunner")
    >>> pipeline | beam.Create([alarm]) | WriteAlarms("claims/flights.alarms")
    """

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._folder = folder

    def expand(self, alarms: beam.PCollection) -> None:
        """Apply the transform."""
        alarms | "Keep" >> beam.Map(_keep, self._folder)


def _keep(alarm: Alarm, folder: str) -> None:
    name, content = file_of(alarm)
    create_once(str(FileSystems.join(folder, name)), content)
