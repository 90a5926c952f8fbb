"""A proxy before PostgreSQL that cuts connections: the answer to a statement is lost, or nobody knows if it came."""

import asyncio
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Literal, TypeAlias

from tests.server.postgres_server import Postgres

Moment: TypeAlias = Literal["forwarded", "answered"]
"""A statement is forwarded, and the connection cut at once; or when the whole answer, after the commit, is here."""

MOMENTS: tuple[Moment, ...] = ("forwarded", "answered")
READY = b"Z\x00\x00\x00\x05"
"""The message by which the server ends an answer; the last byte, which says in what state it is, follows."""


@dataclass(eq=False)
class Cut:
    """The next message in which these bytes are is the last one of its connection."""

    moment: Moment
    having: bytes
    done: Event = field(default_factory=Event)


class Proxy:
    """It listens at a socket of its own, and passes on what it hears."""

    def __init__(self, folder: Path, target: Postgres) -> None:
        """Pass on to this server."""
        self._folder, self._target = folder, target
        self._cuts: list[Cut] = []
        self._is_open = True
        self.writers: set[asyncio.StreamWriter] = set()
        """Of all connections that there ever were."""

    def url(self, url: str) -> str:
        """Return the address of a database by way of the proxy."""
        return url.replace(f"host={self._target.folder}", f"host={self._folder}")

    def cut(self, moment: Moment, having: bytes = b"") -> Cut:
        """Cut the connection of the next message in which these bytes are."""
        cut = Cut(moment, having)
        self._cuts.append(cut)
        return cut

    def forget(self, cut: Cut) -> None:
        """Do not cut that any more."""
        with suppress(ValueError):
            self._cuts.remove(cut)

    def shut(self) -> None:
        """Take no new connections."""
        self._is_open = False

    def open(self) -> None:
        """Take them again."""
        self._is_open = True

    async def serve(self) -> asyncio.Server:
        """Begin to listen."""
        return await asyncio.start_unix_server(self._pass_on, self._folder / ".s.PGSQL.5432")

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.add(writer)
        with closing(writer), suppress(OSError):
            if self._is_open:
                from_server, to_server = await asyncio.open_unix_connection(self._target.folder / ".s.PGSQL.5432")
                with closing(to_server):
                    await self._pass_on_between(reader, writer, from_server, to_server)

    async def _pass_on_between(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        from_server: asyncio.StreamReader,
        to_server: asyncio.StreamWriter,
    ) -> None:
        is_cut = asyncio.Event()
        answering = asyncio.create_task(_answer(from_server, writer, is_cut))
        try:
            while data := await reader.read(1 << 20):
                if self._cuts and self._cuts[0].having in data:
                    cut = self._cuts.pop(0)
                    is_cut.set()
                    to_server.write(data)
                    await to_server.drain()
                    if cut.moment == "answered":
                        await asyncio.wait_for(answering, 10)
                    cut.done.set()
                    return
                to_server.write(data)
        finally:
            answering.cancel()


async def _answer(from_server: asyncio.StreamReader, writer: asyncio.StreamWriter, is_cut: asyncio.Event) -> None:
    """Pass on what the server says; once it is cut, return when the answer is complete."""
    last = b""
    with suppress(OSError):
        while data := await from_server.read(1 << 16):
            last = (last + data)[-len(READY) - 1 :]
            if not is_cut.is_set():
                writer.write(data)
            elif last.startswith(READY):
                return
    writer.close()  # the server is gone


@contextmanager
def cutting(target: Postgres) -> Iterator[Proxy]:
    """Run a proxy for as long as the block lasts, in a thread of its own."""
    with tempfile.TemporaryDirectory(prefix="ldpbandits-cut-") as folder, ThreadPoolExecutor(1) as thread:
        proxy = Proxy(Path(folder), target)
        ready, loop = Event(), asyncio.new_event_loop()
        ended = asyncio.Event()

        async def run() -> None:
            server = await proxy.serve()
            ready.set()
            await ended.wait()
            server.close()
            for writer in proxy.writers:
                writer.close()
            await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}), return_exceptions=True)

        running = thread.submit(loop.run_until_complete, run())
        assert ready.wait(10)
        try:
            yield proxy
        finally:
            loop.call_soon_threadsafe(ended.set)
            running.result(10)
            loop.close()
