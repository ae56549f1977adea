"""The W1 work on other libraries: runs that do nothing, ten for each session, every end awaited.

by_hand.py     a queue and a task for each session, as everybody writes it once; and ourselves
on_tasks.py    anyio, aiojobs, taskiq, APScheduler
on_actors.py   pykka, thespian, autogen-core
on_graphs.py   langgraph

Each is used as its own documentation shows, with one run at a time for each session where it can
do that. None of them makes our promises; some make others that we don't.
"""
