"""A fixture that stands between a client and a broker and does to the bytes what a network can do."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

Mangle = Callable[[bytes], bytes | None]


class Proxy:
    """Forwards one address. `mangle` sees what the broker sends, piece by piece; None cuts the connection."""

    def __init__(self, host: str, port: int, mangle: Mangle) -> None:
        self._target = (host, port)
        self._mangle = mangle
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self._open: list[socket.socket] = [self._server]
        self._threads: list[threading.Thread] = []
        self._run(self._accept)

    def close(self) -> None:
        for each in self._open:
            with_shutdown(each)
        for thread in self._threads:
            thread.join(60)

    def _run(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, name="test-proxy", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            broker = socket.create_connection(self._target, 60)
            broker.settimeout(None)  # that was for connecting: who has nothing to say for a while is not cut off
            self._open += [client, broker]
            self._run(self._forward, client, broker, lambda piece: piece)
            self._run(self._forward, broker, client, self._mangle)

    def _forward(self, source: socket.socket, target: socket.socket, mangle: Mangle) -> None:
        try:
            while (piece := source.recv(65536)) and (mangled := mangle(piece)) is not None:
                target.sendall(mangled)
        except OSError:
            pass
        finally:
            with_shutdown(source)
            with_shutdown(target)


def with_shutdown(each: socket.socket) -> None:
    with contextlib.suppress(OSError):  # not connected (any more)
        each.shutdown(socket.SHUT_RDWR)
    each.close()


@pytest.fixture
def proxy(kafka) -> Iterator[Callable[[Mangle], Proxy]]:
    """`proxy(mangle).port` leads to the broker, through `mangle`."""
    made: list[Proxy] = []

    def make(mangle: Mangle) -> Proxy:
        host, port = kafka.bootstrap_servers.split(":")
        made.append(Proxy(host, int(port), mangle))
        return made[-1]

    yield make
    for each in made:
        each.close()
