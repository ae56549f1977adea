"""The asyncio driver: one fresh task per run, and the scheduler in front of it.

scheduler.py     Scheduler: what people call
driver.py        performs what the table orders, on the loop
run.py           a run with its task; how a task ended, read without believing it
handle.py        RunHandle and Ticket: what a submitter holds
turn.py          a run in the host's own task
subscription.py  events, as an async iterator
teardown.py      a loop that is torn down closes what nobody has closed
"""

from sessionsched.aio.handle import RunHandle, Ticket
from sessionsched.aio.scheduler import Scheduler
from sessionsched.aio.subscription import Subscription
from sessionsched.aio.turn import Turn

__all__ = ["RunHandle", "Scheduler", "Subscription", "Ticket", "Turn"]
