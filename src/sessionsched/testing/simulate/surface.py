"""What an event loop offers besides running: tasks, generators, complaints, and what is refused.

Nothing here has a choice; loop.py does.
"""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

__all__ = ["LoopSurface", "NotSimulated"]


class NotSimulated(NotImplementedError):
    """There is no such thing under simulation."""


def _refused(name: str) -> Any:
    def refuse(*_: object, **__: object) -> NoReturn:
        msg = f"no sockets, processes or signals under simulation: loop.{name} is not there"
        raise NotSimulated(msg)

    return refuse


class LoopSurface(asyncio.AbstractEventLoop):
    """The part of a loop that is the same in whatever order it runs."""

    def __init__(self) -> None:
        #: What asyncio would have logged, as it hands that to exception handlers.
        self.complaints: list[dict[str, Any]] = []
        #: Async generators that have begun and are still there, by age.
        self._generators: dict[weakref.ref[AsyncGenerator[Any, Any]], None] = {}
        self._handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None = None
        self._factory: Any = None
        self._debug = self._closed = False

    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    # --- futures and tasks ---

    def create_future(self) -> asyncio.Future[Any]:
        """Make a future."""
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: Any = None, context: Any = None) -> Any:
        """Make a task."""
        if self._factory is None:
            return asyncio.Task(coro, loop=self, name=name, context=context)
        how = {} if context is None else {"context": context}
        task = self._factory(self, coro, **how)
        if name is not None:
            task.set_name(name)
        return task

    def set_task_factory(self, factory: Any) -> None:
        """Make tasks with this; None: as usual."""
        self._factory = factory

    def get_task_factory(self) -> Any:
        """Give what tasks are made with."""
        return self._factory

    # --- async generators ---

    def _begun(self, generator: AsyncGenerator[Any, Any]) -> None:
        self._generators[weakref.ref(generator, self._forget)] = None

    def _forget(self, reference: weakref.ref[AsyncGenerator[Any, Any]]) -> None:
        self._generators.pop(reference, None)

    def _thrown_away(self, generator: AsyncGenerator[Any, Any]) -> None:
        if not self._closed:
            self.call_soon(self.create_task, generator.aclose())

    async def shutdown_asyncgens(self) -> None:
        """Close the async generators that are still open, the oldest first."""
        generators, self._generators = list(self._generators), {}
        for generator in filter(None, (ref() for ref in generators)):
            try:
                await generator.aclose()
            except Exception as error:  # noqa: BLE001 - as asyncio does
                about = {"message": "an async generator failed to close", "exception": error}
                self.call_exception_handler(about | {"asyncgen": generator})

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """There is none."""

    def set_default_executor(self, executor: object) -> None:
        """Let it be: no executor is used."""

    # --- complaints ---

    def set_exception_handler(self, handler: Any) -> None:
        """Have complaints told to this, instead of keeping them."""
        self._handler = handler

    def get_exception_handler(self) -> Any:
        """Give what complaints are told to."""
        return self._handler

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep a complaint."""
        self.complaints.append(context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Complain."""
        if self._handler is None:
            self.default_exception_handler(context)
        else:
            self._handler(self, context)

    def get_debug(self) -> bool:
        """Whether handles know where they were made."""
        return self._debug

    def set_debug(self, enabled: bool) -> None:  # noqa: FBT001 - as asyncio has it
        """Let handles know where they were made."""
        self._debug = enabled

    # --- what is not there ---

    add_reader = _refused("add_reader")
    add_signal_handler = _refused("add_signal_handler")
    add_writer = _refused("add_writer")
    connect_accepted_socket = _refused("connect_accepted_socket")
    connect_read_pipe = _refused("connect_read_pipe")
    connect_write_pipe = _refused("connect_write_pipe")
    create_connection = _refused("create_connection")
    create_datagram_endpoint = _refused("create_datagram_endpoint")
    create_server = _refused("create_server")
    create_unix_connection = _refused("create_unix_connection")
    create_unix_server = _refused("create_unix_server")
    getaddrinfo = _refused("getaddrinfo")
    getnameinfo = _refused("getnameinfo")
    remove_reader = _refused("remove_reader")
    remove_signal_handler = _refused("remove_signal_handler")
    remove_writer = _refused("remove_writer")
    sendfile = _refused("sendfile")
    sock_accept = _refused("sock_accept")
    sock_connect = _refused("sock_connect")
    sock_recv = _refused("sock_recv")
    sock_recv_into = _refused("sock_recv_into")
    sock_recvfrom = _refused("sock_recvfrom")
    sock_recvfrom_into = _refused("sock_recvfrom_into")
    sock_sendall = _refused("sock_sendall")
    sock_sendfile = _refused("sock_sendfile")
    sock_sendto = _refused("sock_sendto")
    start_tls = _refused("start_tls")
    subprocess_exec = _refused("subprocess_exec")
    subprocess_shell = _refused("subprocess_shell")
