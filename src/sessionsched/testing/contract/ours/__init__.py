"""Adapters of our own schedulers: they pass, and they show how an adapter is written."""

from sessionsched.testing.contract.ours.aio import SchedulerAdapter
from sessionsched.testing.contract.ours.table import TableAdapter
from sessionsched.testing.contract.ours.threads import ThreadSchedulerAdapter

__all__ = ["SchedulerAdapter", "TableAdapter", "ThreadSchedulerAdapter"]
