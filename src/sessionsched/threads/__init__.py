"""The thread driver: handlers are plain functions, and look at `run.canceled` now and then.

scheduler.py     ThreadScheduler: what people call
driver.py        performs what the table orders, on whatever thread is there
run.py           ThreadRun: a run with its thread, and the cancel that it carries
handle.py        ThreadHandle and ThreadTicket: what a submitter holds
turn.py          a run in the host's own thread
subscription.py  events, as an iterator that blocks
pool.py          threads that come when there is something to do
timers.py        one thread for all timers, while there are any
"""

from sessionsched.threads.handle import ThreadHandle, ThreadTicket
from sessionsched.threads.run import ThreadRun
from sessionsched.threads.scheduler import ThreadScheduler
from sessionsched.threads.subscription import ThreadSubscription
from sessionsched.threads.turn import ThreadTurn

__all__ = [
    "ThreadHandle",
    "ThreadRun",
    "ThreadScheduler",
    "ThreadSubscription",
    "ThreadTicket",
    "ThreadTurn",
]
