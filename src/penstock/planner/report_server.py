"""Receives task reports on the driver.

`model/task_report.py` defines the messages, and `report_ledger.py` adds them up.
"""

from __future__ import annotations

import secrets
import selectors
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from penstock.masking import get_logger
from penstock.model.task_report import LARGEST_MESSAGE, ReportAddress, TaskReport, acknowledgement, decode
from penstock.planner.driver_address import listening_socket

log = get_logger(__name__)

MESSAGE_SECONDS = 5.0
"""How long a peer may take from connecting to the end of its message."""

MOST_CONNECTIONS = 256
"""Open at once; one more closes the oldest. A report takes a millisecond, so that only peers that are not tasks of this
query stay so long."""

WARNING_SECONDS = 60.0
"""Between two warnings that connections cannot be accepted, which is tried ten times a second."""


class ReportServer:
    """Receives reports until it is closed. Closes a connection that sends anything else, without an answer."""

    def __init__(
        self, take: Callable[[TaskReport], None], hosts: Sequence[str], *, wants_figures: bool = False
    ) -> None:
        """`take` is called by the server's thread. `hosts`: the addresses by which tasks reach this machine. If it is
        only one, such as loopback, the server listens on that one alone."""
        token = secrets.token_hex(16)
        self._take = take
        self._socket = listening_socket(hosts, MOST_CONNECTIONS)
        self._socket.setblocking(False)
        self.address = ReportAddress(tuple(hosts), self._socket.getsockname()[1], token, wants_figures)
        self._wake, self._woken = socket.socketpair()
        self._closing = False
        self._has_warned = False
        self._warn_from = 0.0
        self._peers: dict[socket.socket, _Peer] = {}
        self._thread = threading.Thread(target=self._run, name="penstock-reports", daemon=True)
        self._thread.start()

    def close(self, timeout: float = 5.0) -> None:
        """Called by the planner's thread, once or more."""
        if self._closing:
            return
        self._closing = True
        self._wake.close()  # the server's thread reads that as the end of the stream
        self._thread.join(timeout)

    # --- the server's thread ------------------------------------------------------------------------------------------

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            try:
                while not self._closing:
                    for key, _ in selector.select(self._seconds_to_deadline()):
                        if key.fileobj is self._socket:
                            self._accept(selector)
                        elif isinstance(key.data, _Peer):
                            self._receive(key.data, selector)
                    now = time.monotonic()
                    for peer in [each for each in self._peers.values() if each.deadline <= now]:
                        self._disconnect(peer, selector)
            except Exception:  # the query goes on without counts
                log.exception("task reports are no longer received")
            finally:
                for peer in list(self._peers.values()):
                    self._disconnect(peer, selector)
                self._socket.close()
                self._woken.close()

    def _seconds_to_deadline(self) -> float | None:
        """Seconds until the next peer is disconnected."""
        first = next(iter(self._peers.values()), None)  # in the order of their deadlines
        return None if first is None else max(0.0, first.deadline - time.monotonic())

    def _accept(self, selector: selectors.BaseSelector) -> None:
        try:
            connection, _ = self._socket.accept()
        except OSError as error:
            if not isinstance(error, BlockingIOError | ConnectionError):
                if time.monotonic() >= self._warn_from:
                    self._warn_from = time.monotonic() + WARNING_SECONDS
                    log.warning("cannot accept the connection of a task that reports: %s", error)
                time.sleep(0.1)  # perhaps out of file descriptors: the selector would return at once
            return
        if len(self._peers) >= MOST_CONNECTIONS:
            self._disconnect(next(iter(self._peers.values())), selector)
        connection.setblocking(False)
        peer = self._peers[connection] = _Peer(connection, time.monotonic() + MESSAGE_SECONDS)
        selector.register(connection, selectors.EVENT_READ, peer)

    def _receive(self, peer: _Peer, selector: selectors.BaseSelector) -> None:
        if peer.connection not in self._peers:
            return  # disconnected in this same round
        try:
            received = peer.connection.recv(LARGEST_MESSAGE)
            peer.received += received
            if not peer.received.endswith(b"\n"):
                if received and len(peer.received) < LARGEST_MESSAGE:
                    return  # there is more to come
                raise ValueError(f"{len(peer.received)} bytes without an end")
            self._take(decode(bytes(peer.received), self.address.token))
            # Does not block: a new connection has room for a line.
            peer.connection.send(acknowledgement(bytes(peer.received), self.address.token))
        except BlockingIOError:
            return
        except (OSError, ValueError) as error:
            if not self._has_warned:
                self._has_warned = True
                log.warning(
                    "port %d, where tasks report, got a message that is not of a task of this query, or is broken "
                    "(%s). Logged once",
                    self.address.port,
                    error,
                )
        self._disconnect(peer, selector)

    def _disconnect(self, peer: _Peer, selector: selectors.BaseSelector) -> None:
        self._peers.pop(peer.connection, None)
        selector.unregister(peer.connection)
        peer.connection.close()


@dataclass(slots=True)
class _Peer:
    """A connection, and what was received on it."""

    connection: socket.socket
    deadline: float
    received: bytearray = field(default_factory=bytearray)
