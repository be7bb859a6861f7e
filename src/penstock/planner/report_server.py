"""The planner's ear: takes the reports of a stream's tasks (`reports.py`) and keeps account of them.

`ReportServer` is a socket and a thread of its own in the planner's process; `ReportLedger` is what has been told. The
thread writes to the ledger, the planner's one reads it.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import secrets
import selectors
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.model.offset_range import OffsetRange
from penstock.model.task_report import LARGEST_MESSAGE, ReportAddress, TaskReport, acknowledgement, read
from penstock.model.topic_partition import Offsets, TopicPartition

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 5.0
"""How long somebody who connects may take to say something."""

MOST_CONNECTIONS = 256
"""Held at once; the oldest is closed for one more. A report takes a millisecond, so only strangers stay so long."""

WARNING_SECONDS = 60.0
"""Between two warnings that connections cannot be accepted, which is tried ten times a second."""

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class ReportCounts:
    """Sums of what tasks have met."""

    malformed: int = 0
    dropped: int = 0
    dead_letters: int = 0
    skipped: int = 0
    late: int = 0
    lost_ranges: int = 0

    @classmethod
    def of(cls, reports: Collection[TaskReport]) -> ReportCounts:
        """The counts of one batch, with one report for each of its ranges."""
        return cls(
            sum(each.malformed for each in reports),
            sum(each.dropped for each in reports),
            sum(each.dead_letters for each in reports),
            sum(each.skipped for each in reports),
            sum(each.late for each in reports),
            _lost_ranges(reports),
        )

    def __add__(self, other: ReportCounts) -> ReportCounts:
        return ReportCounts(
            self.malformed + other.malformed,
            self.dropped + other.dropped,
            self.dead_letters + other.dead_letters,
            self.skipped + other.skipped,
            self.late + other.late,
            self.lost_ranges + other.lost_ranges,
        )


def _lost_ranges(reports: Iterable[TaskReport]) -> int:
    """How many stretches of logs were lost. Tasks that share a partition may each find a part of the same one."""
    count = 0
    last: tuple[TopicPartition, int] | None = None
    for tp, (start, stop) in sorted((each.topic_partition, each.lost) for each in reports if each.lost is not None):
        if last is None or last[0] != tp or start > last[1]:
            count += 1
        last = tp, stop
    return count


class ReportLedger:
    """What the tasks of a query have told since it started.

    Only ranges of the batch at hand are listened to, and of several reports of one range the last counts: tasks are run
    again, run twice at once (speculation), and a batch may be read more than once (foreachBatch). Three things stay
    that were told of once: an end, for a second reading may have stopped before it; the most dead letters, for an
    attempt reports those that it wrote itself, and a second one finds them written; and a loss, for the rows of either
    attempt may be the ones that count.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._expected: frozenset[tuple[TopicPartition, int, int]] = frozenset()
        self._told: dict[tuple[TopicPartition, int, int], TaskReport] = {}
        self._settled = ReportCounts()
        self._ends: dict[TopicPartition, int] = {}
        self._news: set[TopicPartition] = set()
        """Partitions of which something was told since event times were last taken."""

    def expect(self, ranges: Iterable[OffsetRange]) -> None:
        """The tasks of a batch are about to start; those of the one before are done. Called by the planner's thread."""
        expected = frozenset((each.topic_partition, each.start, each.stop) for each in ranges)
        with self._lock:
            if expected == self._expected:
                return  # Spark has asked again for the same batch
            self._settled, self._told, self._expected, self._news = self._sum(), {}, expected, set()

    def take(self, report: TaskReport) -> None:
        """Called by the listener's thread."""
        tp = report.topic_partition
        with self._lock:
            if (key := (tp, report.start, report.stop)) not in self._expected:
                log.info("a task of an earlier batch reports [%d, %d) of %s: too late", report.start, report.stop, tp)
                return
            before = self._told.get(key)
            if report.lost is not None and (before is None or before.lost is None):
                log.warning(
                    "a task found that offsets %d to %d of %s are gone: going on without them, because "
                    "failOnDataLoss is false",
                    *report.lost,
                    tp,
                )
            if before is not None:
                report = _merged(before, report)
            self._told[key] = report
            self._news.add(tp)
            if report.ended_at is not None:
                self._ends[tp] = min(report.ended_at, self._ends.get(tp, report.ended_at))

    def counts(self) -> ReportCounts:
        """Sums since the query started. Any thread."""
        with self._lock:
            return self._sum()

    def take_ends(self) -> Offsets:
        """The partitions that have ended since this was last asked, and the offsets of the records that ended them.
        Called by the planner's thread, between two batches."""
        with self._lock:
            ends, self._ends = self._ends, {}
            return ends

    def take_event_times(self) -> dict[TopicPartition, tuple[int, int | None, bool]]:
        """How far the event time of the batch expected last has come, in partitions of which there is news since this
        was last asked: where its last range stops, the highest event time in its ranges, and whether every one of them
        has reported. Called by the planner's thread."""
        with self._lock:
            news, self._news = self._news, set()
            if not news:
                return {}
            ranges: dict[TopicPartition, list[tuple[TopicPartition, int, int]]] = {tp: [] for tp in news}
            for key in self._expected:
                if key[0] in news:
                    ranges[key[0]].append(key)
            return {tp: self._event_time(mine) for tp, mine in ranges.items()}

    def _event_time(self, ranges: Sequence[tuple[TopicPartition, int, int]]) -> tuple[int, int | None, bool]:
        told = [self._told[key] for key in ranges if key in self._told]
        times = [report.event_time for report in told if report.event_time is not None]
        return max(stop for _, _, stop in ranges), max(times, default=None), len(told) == len(ranges)

    def _sum(self) -> ReportCounts:
        return self._settled + ReportCounts.of(self._told.values())


def _merged(before: TaskReport, report: TaskReport) -> TaskReport:
    """A report, with what an earlier one of the same range has told once and for all."""
    lost = [each for each in (before.lost, report.lost) if each is not None]
    return replace(
        report,
        dead_letters=max(before.dead_letters, report.dead_letters),
        lost_start=min((start for start, _ in lost), default=None),
        lost_stop=max((stop for _, stop in lost), default=None),
    )


class ReportServer:
    """Listens for reports until it is closed. Whatever else comes in at the port is closed without an answer."""

    def __init__(self, take: Callable[[TaskReport], None], hosts: Sequence[str]) -> None:
        """`take` is called by the listening thread. `hosts`: by what addresses tasks reach this machine; if there is
        only one, such as that of loopback, nobody can connect by another."""
        token = secrets.token_hex(16)
        self._take = take
        self._socket = _bound(hosts)
        self._socket.setblocking(False)
        self.address = ReportAddress(tuple(hosts), self._socket.getsockname()[1], token)
        self._wake, self._woken = socket.socketpair()
        self._closing = False
        self._has_warned = False
        self._warn_from = 0.0
        self._callers: dict[socket.socket, _Caller] = {}
        self._thread = threading.Thread(target=self._run, name="penstock-reports", daemon=True)
        self._thread.start()

    def close(self, timeout: float = 5.0) -> None:
        """Called by the planner's thread, once or more."""
        if self._closing:
            return
        self._closing = True
        self._wake.close()  # which the thread sees as the end of what it reads there
        self._thread.join(timeout)

    # --- the listening thread -----------------------------------------------------------------------------------------

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            try:
                while not self._closing:
                    for key, _ in selector.select(self._patience()):
                        if key.fileobj is self._socket:
                            self._accept(selector)
                        elif isinstance(key.data, _Caller):
                            self._hear(key.data, selector)
                    now = time.monotonic()
                    for caller in [each for each in self._callers.values() if each.deadline <= now]:
                        self._hang_up(caller, selector)
            except Exception:  # the query goes on without counts, and somebody should know why
                log.exception("reports of tasks are not listened to any more")
            finally:
                for caller in list(self._callers.values()):
                    self._hang_up(caller, selector)
                self._socket.close()
                self._woken.close()

    def _patience(self) -> float | None:
        """Seconds until somebody has been silent for too long."""
        first = next(iter(self._callers.values()), None)  # they come in the order of their deadlines
        return None if first is None else max(0.0, first.deadline - time.monotonic())

    def _accept(self, selector: selectors.BaseSelector) -> None:
        try:
            connection, _ = self._socket.accept()
        except OSError as error:
            if not isinstance(error, BlockingIOError | ConnectionError):
                if time.monotonic() >= self._warn_from:
                    self._warn_from = time.monotonic() + WARNING_SECONDS
                    log.warning("a task that wants to report cannot be heard: %s", error)
                time.sleep(0.1)  # out of files, perhaps, and it would be asked for again at once
            return
        if len(self._callers) >= MOST_CONNECTIONS:
            self._hang_up(next(iter(self._callers.values())), selector)
        connection.setblocking(False)
        caller = self._callers[connection] = _Caller(connection, time.monotonic() + PATIENCE_SECONDS)
        selector.register(connection, selectors.EVENT_READ, caller)

    def _hear(self, caller: _Caller, selector: selectors.BaseSelector) -> None:
        if caller.connection not in self._callers:
            return  # hung up on in this same round
        try:
            received = caller.connection.recv(LARGEST_MESSAGE)
            caller.heard += received
            if not caller.heard.endswith(b"\n"):
                if received and len(caller.heard) < LARGEST_MESSAGE:
                    return  # there is more to come
                raise ValueError(f"{len(caller.heard)} bytes without an end")
            self._take(read(bytes(caller.heard), self.address.token))
            # Sent at once: a new connection has room for a line.
            caller.connection.send(acknowledgement(bytes(caller.heard), self.address.token))
        except BlockingIOError:
            return
        except (OSError, ValueError) as error:
            if not self._has_warned:
                self._has_warned = True
                log.warning(
                    "somebody who is no task of this query, or a broken one, spoke to port %d, where tasks "
                    "report (%s). Told of once",
                    self.address.port,
                    error,
                )
        self._hang_up(caller, selector)

    def _hang_up(self, caller: _Caller, selector: selectors.BaseSelector) -> None:
        self._callers.pop(caller.connection, None)
        selector.unregister(caller.connection)
        caller.connection.close()


class _Caller:
    """Somebody at the other end of a connection."""

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self.connection = connection
        self.deadline = deadline
        self.heard = bytearray()


# --- where executors find this machine --------------------------------------------------------------------------------


def reachable_hosts(brokers: Iterable[tuple[str, int]], environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """By what addresses executors may reach this machine, the likeliest first. Spark does not tell its driver's.

    What the operator told Spark counts alone. Else it is the address from which this machine reaches the brokers, which
    executors reach too. Where that is loopback, everything is on this machine, and nothing listens to the network.
    """
    if (told := environment.get("SPARK_LOCAL_IP")) and not _is_any(told):
        return (told,)
    routes = [address for broker in brokers if (address := _address_towards(*broker)) is not None]
    if routes and all(_is_loopback(address) for address in routes):
        return (routes[0],)
    # Loopback first: tasks on this machine are there at once, and elsewhere it is refused at once.
    named = [name for name in (environment.get("SPARK_LOCAL_HOSTNAME"),) if name]
    own = [address for address in _own_addresses() if not _is_loopback(address)]
    return tuple(dict.fromkeys([LOOPBACK, *(a for a in routes if not _is_loopback(a)), *named, *own]))


def _address_towards(host: str, port: int) -> str | None:
    """This machine's address on the way to another. Nothing is sent: connecting a datagram socket only asks the
    routing table."""
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM):
            with socket.socket(family, kind, protocol) as probe:
                try:
                    probe.connect(address)
                except OSError:
                    continue
                return str(probe.getsockname()[0])
    except OSError:  # a name that does not resolve: the client will say so
        pass
    return None


def _own_addresses() -> list[str]:
    try:
        found = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return [str(address[0]) for *_, address in found]


def _is_any(host: str) -> bool:
    """Whether this means every address of a machine, and so names none."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _bound(hosts: Sequence[str]) -> socket.socket:
    """A listening socket of the one address there is, or of the whole machine."""
    backlog = MOST_CONNECTIONS
    if len(hosts) == 1:
        try:
            family = socket.getaddrinfo(hosts[0], 0, type=socket.SOCK_STREAM)[0][0]
            return socket.create_server((hosts[0], 0), family=family, backlog=backlog)
        except OSError:
            # An address that executors see and this machine has not: it is behind a translation.
            if _is_loopback(hosts[0]):
                raise
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("", 0), family=socket.AF_INET6, backlog=backlog, dualstack_ipv6=True)
        except OSError:  # compiled in, but switched off
            pass
    return socket.create_server(("", 0), backlog=backlog)
