"""Small things with a race in them each, and the same without it: what a baton must tell apart."""

from __future__ import annotations

import threading
import time
from queue import SimpleQueue


class Account:
    """Two pay at once, and one payment is lost."""

    def __init__(self, *, locked: bool) -> None:
        self.lock = threading.Lock()
        self.locked = locked
        self.balance = 0

    def pay(self) -> None:
        if self.locked:
            with self.lock:
                self.balance += 1
        else:
            before = self.balance
            self.balance = before + 1


class Seat:
    """Two see that it is free, and both take it."""

    def __init__(self, *, right: bool) -> None:
        self.lock = threading.Lock()
        self.right = right
        self.free = True
        self.taken = 0

    def take(self) -> None:
        with self.lock:
            free = self.free
            if self.right:
                self.free = False
        if free:
            with self.lock:
                self.free = False
                self.taken += 1


class Bell:
    """Who looks before it listens may not hear it."""

    def __init__(self, *, right: bool) -> None:
        self.right = right
        self.rung = False
        self.listeners: list[threading.Event] = []

    def ring(self) -> None:
        self.rung = True
        for listener in [*self.listeners]:
            listener.set()

    def wait(self) -> None:
        heard = threading.Event()
        if self.right:
            self.listeners.append(heard)
            if self.rung:
                return
        else:
            if self.rung:
                return
            self.listeners.append(heard)
        heard.wait()


class Pair:
    """Two locks, taken in two orders."""

    def __init__(self, *, ordered: bool) -> None:
        self.one, self.two = threading.Lock(), threading.Lock()
        self.ordered = ordered

    def there(self) -> None:
        with self.one, self.two:
            pass

    def back(self) -> None:
        first, second = (self.one, self.two) if self.ordered else (self.two, self.one)
        with first, second:
            pass


class Post:
    """A thread of its own delivers, until it is told to stop; or gives up after a while."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.letters: SimpleQueue[str | None] = SimpleQueue()
        self.delivered: list[str] = []
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def work(self) -> None:
        while (letter := self.letters.get()) is not None:
            with self.changed:
                self.delivered.append(letter)
                self.changed.notify()

    def send(self, letter: str) -> None:
        self.letters.put(letter)

    def wait_for(self, count: int, timeout: float | None = None) -> bool:
        with self.changed:
            while len(self.delivered) < count:
                if not self.changed.wait(timeout):
                    return False
        return True

    def close(self) -> None:
        self.letters.put(None)
        self.thread.join()


def nap(seconds: float) -> float:
    before = time.monotonic()
    time.sleep(seconds)
    return time.monotonic() - before
