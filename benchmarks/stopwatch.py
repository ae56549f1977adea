"""One sample: how long the part took that counts, by the CPU's clock and by the wall's."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from attrs import define, frozen

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

__all__ = ["Sample", "Stopwatch"]


@frozen
class Sample:
    """What one pass took, for all of its runs together."""

    cpu_s: float
    wall_s: float


@define
class Stopwatch:
    """Times what stands in its `with`; entered several times, it adds up."""

    cpu_s: float = 0.0
    wall_s: float = 0.0

    def __enter__(self) -> Self:
        self.wall_s -= time.perf_counter()
        self.cpu_s -= time.process_time()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.cpu_s += time.process_time()
        self.wall_s += time.perf_counter()

    def sample(self) -> Sample:
        """Give what it shows."""
        return Sample(self.cpu_s, self.wall_s)
