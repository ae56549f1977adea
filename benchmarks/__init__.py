"""What a run costs, in units of what asyncio or a thread pool pays for the same work.

stopwatch.py   one sample: CPU and wall clock of what counts
interleave.py  A, B, A, B: sides of one work, measured in turns in one process
bases.py       what everything is compared with
lines.py, watching.py, crossing.py   the works: runs and cancels, subscribers, threads
works.py       the table of works, with their bars
memory.py      bytes per session and per waiting run, each in a process of its own
growth.py      from a thousand runs to a million
profiling.py   where each microsecond of a run goes
figures.py     a figure with its bar, and how it is shown
page.py, plot.py   docs/performance.md and its pictures
peers/         the same work on other libraries
"""
