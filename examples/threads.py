"""The same on threads: handlers are plain, blocking functions that look at the cancel themselves.

A child process is killed at once when its run is canceled (`on_cancel`); a loop waits with
`wait_canceled` where it would sleep; and `raise_if_canceled` leaves the handler between two steps.
"""

import subprocess
import sys
import threading

from sessionsched import RunCanceled, ThreadRun, ThreadScheduler

STARTED = threading.Event()


def agent(run: ThreadRun[str]) -> str:
    if run.prompt == "run the build":
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
            run.on_cancel(child.kill)
            STARTED.set()
            child.wait()
    run.raise_if_canceled()
    while run.prompt == "watch the log":
        STARTED.set()
        if run.wait_canceled(timeout=0.01):
            return "watched until somebody said stop"
    return f"answer to {run.prompt!r}"


def main() -> None:
    with ThreadScheduler(agent, threads=4) as scheduler:
        for prompt in ("run the build", "watch the log"):
            STARTED.clear()
            handle = scheduler.submit("chat", prompt)
            STARTED.wait()
            scheduler.cancel("chat")
            outcome = handle.outcome()
            print(f"{prompt}: {outcome.status}, result {outcome.result!r}")

        handles = [scheduler.submit(f"chat-{number}", "hello") for number in range(1000)]
        print("1000 chats on 4 threads:", {handle.result() for handle in handles})

        try:
            with scheduler.turn("chat", "by hand") as run:  # in this very thread
                scheduler.cancel("chat")
                run.raise_if_canceled()
        except RunCanceled as canceled:
            print("a turn:", canceled.cause)


if __name__ == "__main__":
    main()
