"""What handles, tickets and events have in common: they are about a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic

from sessionsched.model import PromptT

if TYPE_CHECKING:
    from sessionsched.model import Run

__all__ = ["AboutARun"]


class AboutARun(Generic[PromptT]):
    """Says which run it is about."""

    __slots__ = ()

    run: Run[PromptT]

    @property
    def session_id(self) -> str:
        """The session that the run belongs to."""
        return self.run.session_id

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.run.run_id

    @property
    def seq(self) -> int:
        """The run's accept sequence."""
        return self.run.seq
