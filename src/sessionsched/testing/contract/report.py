"""What a check found, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import field, frozen

if TYPE_CHECKING:
    from sessionsched.testing.contract.story import Story

__all__ = ["Report"]


@frozen
class Report:
    """What a check found."""

    name: str
    #: The sentences that were judged, and those that were not, with the features that they need.
    judged: list[str]
    skipped: dict[str, str]
    #: How many stories were tried.
    examples: int
    seconds: float = field(eq=False)
    #: The story that goes wrong; None: there was none.
    story: Story | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return self.story is None

    def __str__(self) -> str:
        left_out = [f"{name} (needs {needs})" for name, needs in self.skipped.items()]
        figures = f"{self.name}: {self.examples:,} stories, {self.seconds:.1f} s"
        lists = [
            f"judged: {', '.join(self.judged)}",
            f"skipped: {', '.join(left_out) or 'nothing'}",
        ]
        if self.story is None:
            return "\n".join([f"{figures}: every sentence held", *lists])
        return "\n".join(
            [f"{figures}: {self.story.sentence} is broken", str(self.story), "", *lists]
        )
