"""The example of the page about steps can be interrupted."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from pages import ROOT


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT to be sent")
def test_the_example_can_be_interrupted_and_keeps_what_there_is() -> None:
    with subprocess.Popen(  # noqa: S603 - our own script
        [sys.executable, str(ROOT / "examples" / "small_agent.py"), "0.2"],
        stdout=subprocess.PIPE, text=True,
    ) as agent:  # fmt: skip
        assert agent.stdout is not None
        while "read_file(" not in agent.stdout.readline():  # from here on it takes seconds
            assert agent.poll() is None
        agent.send_signal(signal.SIGINT)
        rest, _ = agent.communicate(timeout=60)
    assert agent.returncode == 0
    _, _, record = rest.partition("canceled; on record:\n")
    assert record.startswith("1. Let me look at your list.")
    assert "[interrupt]" in record.splitlines()[-1]
