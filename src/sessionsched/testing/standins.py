"""What stands in for `threading` under a baton: the same names, and all waiting is the baton's.

Only what the code under test uses is there: Lock, Event, Condition, Thread, SimpleQueue, a clock.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from sessionsched.testing.baton import Baton

__all__ = ["HERE", "BatonThread", "Unwind", "stand_ins"]


class Unwind(BaseException):
    """Takes a thread that still waits out of whatever it waits in, when all is over."""


class Here(threading.local):
    """Which of a baton's threads this is."""

    thread: BatonThread | None = None


HERE = Here()


def stand_ins(baton: Baton) -> dict[str, Any]:
    """Give what modules know by these names."""
    mine = SimpleNamespace(
        Lock=partial(BatonLock, baton),
        Event=partial(BatonEvent, baton),
        Condition=partial(BatonCondition, baton),
        Thread=partial(BatonThread, baton),
        current_thread=lambda: HERE.thread,
        get_ident=lambda: 0 if HERE.thread is None else HERE.thread.ident,
        TIMEOUT_MAX=threading.TIMEOUT_MAX,
    )
    clock = SimpleNamespace(monotonic=lambda: baton.now, sleep=baton.sleep)
    return {"threading": mine, "time": clock, "SimpleQueue": partial(BatonQueue, baton)}


class BatonThread:
    """A thread that runs while it has the baton."""

    def __init__(
        self, baton: Baton, target: Callable[..., object], args: tuple[Any, ...] = (), **_: object
    ) -> None:
        self.baton = baton
        self.ident = baton.next_ident()
        #: Released when it is given the baton.
        self.go = threading.Semaphore(0)
        self.over = False
        #: What it waits for, and until when; None when it could go on.
        self.waits_for: Callable[[], bool] | None = None
        self.until: float | None = None
        #: How many `with lock` it is in.
        self.locks = 0
        self._call = partial(target, *args)
        self._real = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Take part from here on."""
        self.baton.add(self)
        self.begin()
        self.baton.point()

    def join(self, timeout: float | None = None) -> None:
        """Wait until it is over."""
        self.baton.wait_until(lambda: self.over, timeout)

    def is_alive(self) -> bool:
        """Whether it is not over."""
        return not self.over

    @property
    def can_go(self) -> bool:
        """Whether it could use the baton."""
        if self.over or self.waits_for is None:
            return not self.over
        return self.waits_for() or (self.until is not None and self.until <= self.baton.now)

    def where(self) -> str:
        """Say which line it is at."""
        frame: FrameType | None = sys._current_frames().get(self._real.ident or 0)  # noqa: SLF001
        while frame is not None and frame.f_code.co_filename in _OURS:
            frame = frame.f_back
        at = "its end" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
        return f"thread {self.ident} at {at}"

    def begin(self) -> None:
        """Start the real thread, which waits for the baton."""
        self._real.start()

    def _run(self) -> None:
        self.go.acquire()
        HERE.thread = self
        sys.settrace(self.baton.trace)
        try:
            if not self.baton.ended:
                self._call()
        except BaseException as error:  # noqa: BLE001 - whoever called `run` gets it
            self.baton.fail(error)
        finally:
            sys.settrace(None)
        self.over = True
        self.baton.pass_on(self)


class BatonLock:
    """A `threading.Lock` under a baton."""

    def __init__(self, baton: Baton) -> None:
        self._baton = baton
        self._held = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:  # noqa: FBT001, FBT002
        """Take it, if that can be done in that time."""
        limit = None if blocking and timeout < 0 else max(0.0, timeout)
        got = self._baton.wait_until(lambda: not self._held, limit)
        self._held = True
        return got

    def release(self) -> None:
        """Give it back, in whatever thread."""
        if not self._held:
            raise RuntimeError("release unlocked lock")
        self._held = False
        self._baton.point()

    def locked(self) -> bool:
        """Whether anybody has it."""
        return self._held

    def __enter__(self) -> None:
        self.acquire()
        self._count(1)

    def __exit__(self, *_: object) -> None:
        self._count(-1)
        if self._held:  # else all is over, and whoever waits was taken out of it
            self.release()

    @staticmethod
    def _count(change: int) -> None:
        if HERE.thread is not None:
            HERE.thread.locks += change


class BatonEvent:
    """A `threading.Event` under a baton."""

    def __init__(self, baton: Baton) -> None:
        self._baton = baton
        self._set = False

    def is_set(self) -> bool:
        """Whether it is set."""
        return self._set

    def set(self) -> None:
        """Set it."""
        self._set = True
        self._baton.point()

    def clear(self) -> None:
        """Unset it."""
        self._set = False
        self._baton.point()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set. False: it was not, in that time."""
        return self._baton.wait_until(self.is_set, timeout)


class BatonCondition(BatonLock):
    """A `threading.Condition` with a lock of its own, under a baton."""

    def __init__(self, baton: Baton) -> None:
        super().__init__(baton)
        self._waiting: list[object] = []

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until somebody notifies. False: nobody did, in that time."""
        me = object()
        self._waiting.append(me)
        self.release()
        notified = self._baton.wait_until(lambda: me not in self._waiting, timeout)
        self._waiting = [it for it in self._waiting if it is not me]
        self.acquire()
        return notified

    def notify(self, n: int = 1) -> None:
        """Wake those that have waited for longest."""
        del self._waiting[:n]

    def notify_all(self) -> None:
        """Wake everybody."""
        self._waiting.clear()


class BatonQueue:
    """A `queue.SimpleQueue` under a baton."""

    def __init__(self, baton: Baton) -> None:
        self._baton = baton
        self._items: deque[Any] = deque()

    def put(self, item: Any) -> None:
        """Add something."""
        self._items.append(item)
        self._baton.point()

    def get(self) -> Any:
        """Take the oldest, waiting for it if need be."""
        self._baton.wait_until(lambda: bool(self._items))
        return self._items.popleft()


#: Files that say nothing about where the code under test is.
_OURS = (__file__, threading.__file__, __file__.replace("standins", "relay"))
