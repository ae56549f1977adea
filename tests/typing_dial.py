"""`sessionsched.dial` as people write it. Only type-checked (`make check`), never run.

`assert_type` says what mypy must find; a `type: ignore` that is not needed is an error too.
"""

from __future__ import annotations

import asyncio
from typing import assert_type

from attrs import frozen

from sessionsched.dial import Closable, Dialed, NoTarget, dial_with_lazy_validation


@frozen
class Machine:
    name: str


class Socket:
    def send(self, text: str) -> None: ...

    async def close(self) -> None: ...


async def dial(machine: Machine) -> Socket:
    return Socket()


async def current(machine: Machine) -> Machine | None:
    return None


async def always(machine: Machine) -> Machine:
    return machine


def in_a_future(machine: Machine) -> asyncio.Future[Socket]:
    return asyncio.Future()


async def unclosable(machine: Machine) -> str:
    return machine.name


async def by_name(machine: Machine) -> str:
    return machine.name


async def calls() -> None:
    machine = Machine("m-1")
    dialed = await dial_with_lazy_validation(machine, dial, current, delay=2.0)
    assert_type(dialed, Dialed[Machine, Socket])
    assert_type(dialed.connection, Socket)
    assert_type(dialed.target, Machine)
    assert_type(dialed.switched, bool)
    dialed.connection.send("hello")
    dialed.switched = True  # type: ignore[misc]

    again = await dial_with_lazy_validation(machine, in_a_future, always, 2)
    assert_type(again, Dialed[Machine, Socket])

    await dial_with_lazy_validation(machine, unclosable, current, 2.0)  # type: ignore[type-var]
    await dial_with_lazy_validation(machine, dial, by_name, 2.0)  # type: ignore[arg-type]


def plain(writer: asyncio.StreamWriter, error: NoTarget) -> None:
    closable: Closable = writer
    closable.close()
    assert_type(error.target, object)
