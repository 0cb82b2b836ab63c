"""Processes of this machine that decode messages and read their rows, ahead of the one that adds them."""

import contextlib
import ctypes
import logging
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Sequence
from types import TracebackType
from typing import IO, Any, NamedTuple, Self, cast

from streamsketch.core.concealed import concealed
from streamsketch.data.arrow_messages import unpacked_size
from streamsketch.errors import InvalidInputError
from streamsketch.jobs.decoders import Decoder
from streamsketch.jobs.payloads import DecodedRows, Format, MessageDecoder, Steps
from streamsketch.once.logs import log_event
from streamsketch.streams.open_windows import ReadRows, WindowsOf

_LOG = logging.getLogger(__name__)
_ANSWERS = 2  # of each process, that wait to be added
_PDEATHSIG = 1  # PR_SET_PDEATHSIG of prctl(2)
_MOST = 1 << 26  # bytes of rows that a process returns at once
_PATIENCE = 60.0  # seconds; far longer than messages of some megabytes take
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # which a terminal or systemd sends to all processes


@concealed
class _Task(NamedTuple):
    """What a process reads: whose rows, and how their messages are decoded."""

    windows: WindowsOf
    form: Format | Decoder


class Readers:
    """Other processes that decode messages and read their rows, for `Payloads` (``ahead``): a context manager.

    What they return is what this process would compute of the same messages, which depends on nothing that was added.
    So releases, counts and malformed messages are the same, however many there are. Messages with which one does not
    come to an end, because it was killed or an error was raised, are decoded by this process, which then raises the
    error itself. So are those of a process that does not answer, as it was stopped. Their memory is bounded: each has
    some megabytes of messages, and 64 MB of rows.

    Processes end with the context, and when this process is killed. On Linux the kernel kills them then, also those
    that were stopped (SIGSTOP); and already when the thread ends that entered the context, so let the main thread do
    that. Elsewhere they notice the end of their input, and one that was stopped ends once it continues.

    Parameters
    ----------
    count
        How many processes.
    windows
        Whose rows they read: ``stream.windows.of``, which is secret.
    form
        What decodes messages, as for `Payloads`. Of a function that cannot be pickled, this process alone decodes.
    patience
        Seconds after which messages that a process has not answered are decoded by this one.

    Examples
    --------
    >>> from streamsketch import L1, SJLT, Agreement, Terms
    >>> from streamsketch import Windows as Agreed
    >>> from streamsketch.jobs import Malformed, Message, Payloads, Readers
    >>> from streamsketch.streams import Stream
    >>> from streamsketch.streams.job import Job
    >>> folder = getfixture("tmp_path")
    >>> columns = {"index": "item", "unit": "customer", "neighbours": L1(10, unit="customer")}
    >>> published = {"terms": Terms(epsilon=1), "windows": Agreed(time="at", every="1 hour", first="2026-11-22")}
    >>> agreement = Agreement(SJLT(sketch_dim=64, sparsity=4, seed=7), **columns, **published)
    >>> stream = Stream(agreement, Job(folder=str(folder), delay=0), folder / "sales.raw-stream", strict=True)
    >>> message = Message(0, 0, b'{"item": "tea", "customer": "Ann", "at": "2026-11-22T00:10:00Z"}')
    >>> with Readers(1, stream.windows.of, "json") as readers:
    ...     Payloads(agreement, "at", "json", Malformed(None), readers).add(0, [message], stream.add)
    >>> stream.events
    1
    """

    def __init__(self, count: int, windows: WindowsOf, form: Format | Decoder, *, patience: float = _PATIENCE) -> None:
        self._task, self._count, self._patience = b"", count, patience
        try:
            self._task = pickle.dumps(_Task(windows, form), protocol=pickle.HIGHEST_PROTOCOL)
        except (pickle.PicklingError, AttributeError, TypeError):  # as of a function within another
            self._count = 0
        self._running: list[tuple[subprocess.Popen[bytes], threading.Thread]] = []
        self._asked: queue.SimpleQueue[_Asked | None] = queue.SimpleQueue()
        self._room = threading.Semaphore(_ANSWERS * max(1, count))
        self._alive, self._lock, self._is_closed = 0, threading.Lock(), False
        self._own: _Reader | None = None

    def __enter__(self) -> Self:
        path = os.pathsep.join(filter(None, [*sys.path, os.environ.get("PYTHONPATH")]))
        for _ in range(self._count):
            process = subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-m", __name__, str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # a traceback may hold data
                env=os.environ | {"PYTHONPATH": path},
                start_new_session=True,
            )
            thread = threading.Thread(target=self._talk, args=(process,), name="reader", daemon=True)
            self._running.append((process, thread))
            self._alive += 1
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_closed = True
        for process, _ in self._running:
            process.kill()  # it holds nothing that would be lost
            self._asked.put(None)
            self._room.release()
        for process, thread in self._running:
            thread.join()
            process.wait()
        self._running = []

    @property
    def is_alive(self) -> bool:
        """Whether one of the processes still runs."""
        return self._alive > 0

    @property
    def processes(self) -> list[int]:
        """The ids of the processes."""
        return [process.pid for process, _ in self._running]

    def submit(self, contents: Sequence[bytes]) -> "_Asked":
        """Let a process decode messages."""
        asked = _Asked(contents, self._room, self._patience)
        with self._lock:
            if self.is_alive:
                self._asked.put(asked)
                return asked
        asked.answer(None)
        return asked

    def help(self) -> bool:
        """Decode in this process what none of them has begun; return whether there was something."""
        try:
            asked = self._asked.get_nowait()
        except queue.Empty:
            return False
        if asked is not None:
            self._own = self._own or _Reader(pickle.loads(self._task))  # noqa: S301 - of this process
            asked.answer(self._own.answer(asked.contents))
        return asked is not None

    def _talk(self, process: subprocess.Popen[bytes]) -> None:
        """Send what is asked to a process, and set what it answers, until either ends."""
        source, sink = cast("IO[bytes]", process.stdout), cast("IO[bytes]", process.stdin)
        asked = None
        try:
            _send(sink, self._task)
            while (asked := self._asked.get()) is not None:
                asked.take_room()
                _send(sink, pickle.dumps(asked.contents, protocol=pickle.HIGHEST_PROTOCOL))
                asked.answer(pickle.load(source))  # noqa: S301 - our own process
        except (OSError, EOFError, pickle.UnpicklingError):  # it was killed
            if not self._is_closed:
                text = "a process that decodes messages ended; the others go on without it"
                log_event(_LOG, logging.WARNING, "reader_ended", text=text)
        finally:
            process.kill()
            for pipe in (source, sink):
                with contextlib.suppress(OSError):  # of what was not sent
                    pipe.close()
            self._leave(asked)

    def _leave(self, asked: "_Asked | None") -> None:
        """Leave what was asked to this process, and with the last process all that waits."""
        waiting = [asked]
        with self._lock:
            self._alive -= 1
            while not self._alive and not self._asked.empty():
                waiting.append(self._asked.get())
        for request in waiting:
            if request is not None:
                request.answer(None)


@concealed
class _Asked:
    """Messages that a process decodes. There is room for a few answers that were not taken yet."""

    def __init__(self, contents: Sequence[bytes], room: threading.Semaphore, patience: float) -> None:
        self.contents = contents
        self._room, self._has_room, self._patience = room, False, patience
        self._turn = threading.Lock()
        self._answer: Steps | None = None
        self._is_answered = threading.Event()

    @property
    def is_answered(self) -> bool:
        return self._is_answered.is_set()

    def take_room(self) -> None:
        self._room.acquire()
        with self._turn:
            self._has_room = not self.is_answered
        if not self._has_room:  # nobody waits for it any more
            self._room.release()

    def answer(self, steps: Steps | None) -> None:
        """Set the answer; only the first one counts."""
        with self._turn:
            if not self.is_answered:
                self._answer = steps
                self._is_answered.set()

    def result(self) -> Steps | None:
        """Wait for the answer, and return it; None if it takes too long."""
        if not self._is_answered.wait(self._patience):
            self.answer(None)
        answer, self._answer = self._answer, None
        if self._has_room:
            self._has_room = False
            self._room.release()
        return answer


def _send(sink: IO[bytes], data: bytes) -> None:
    sink.write(data)
    sink.flush()


class _Reader:
    """Decodes messages and reads their rows."""

    def __init__(self, task: _Task) -> None:
        self._windows = task.windows.windows()
        self._decoder = MessageDecoder(task.windows.agreement, self._windows.time, task.form)

    def answer(self, contents: Sequence[bytes]) -> Steps | None:
        """Return what is decoded of messages, and what is read of their rows; None if whoever adds them has to do that.

        That is so for errors, warnings, which are for the operator, and more rows than a process should return.
        """
        steps: list[tuple[Any, ReadRows | None]] = []
        size = 0
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                for step in self._decoder.decode(contents):
                    read = None
                    if isinstance(step, DecodedRows):
                        size += unpacked_size(step.batch)
                        if size > _MOST:
                            return None
                        if step.is_valid:
                            with contextlib.suppress(InvalidInputError):  # whoever adds them says which rows are bad
                                read = self._windows.read(step.batch, 1 if step.numbers is None else step.numbers)
                    steps.append((step, read))
            except Exception:  # noqa: BLE001 - whoever adds them comes to it as well, and raises it
                return None
        return steps


def _end_with(parent: int) -> None:
    """Let the kernel kill this process when its parent ends, where it can: a stopped process sees no end of a pipe."""
    if sys.platform != "linux":
        return
    try:
        failed = ctypes.CDLL(None, use_errno=True).prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    except (OSError, AttributeError):  # a C library without it: the end of standard input remains
        return
    if not failed and os.getppid() != parent:  # which ended before the kernel was asked
        os._exit(0)


def main() -> None:
    """Answer what comes on standard input, until it ends or its parent does."""
    _end_with(int(sys.argv[1]))
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)
    with os.fdopen(os.dup(0), "rb") as source, os.fdopen(os.dup(1), "wb") as sink:
        nothing = os.open(os.devnull, os.O_RDWR)  # a function of the user may print
        os.dup2(nothing, 0)
        os.dup2(nothing, 1)
        with contextlib.suppress(EOFError, BrokenPipeError):
            reader = _Reader(pickle.load(source))  # noqa: S301 - of the process that started this one
            while True:
                steps = reader.answer(pickle.load(source))  # noqa: S301
                _send(sink, pickle.dumps(steps, protocol=pickle.HIGHEST_PROTOCOL))


if __name__ == "__main__":
    main()
