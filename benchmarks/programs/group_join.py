"""A group of members in this process that a member in another process joins: the waits of partitions for records.

The new member has a process of its own, so that its start does not hold the interpreter lock of the others. Run with
`member` as the argument, this is that process. Standard library and Penstock only.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from typing import Any

from serving import serve_requests

from penstock import ConsumerConnector

DEADLINE = 60.0
SETTLED = 2.0
"""Seconds of reading before the first window: connections, buffers, and the first records of all partitions."""


class Arrivals:
    """When records arrived, by partition, and who read them. All members' threads call `add`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._offsets: dict[int, int] = {}
        self.skipped = 0
        """Records that did not follow their predecessor: lost, or delivered again."""
        self._begin()

    def _begin(self) -> None:
        self._began = time.perf_counter()
        self._last: dict[int, float] = {}
        self._longest: dict[int, float] = {}
        self._readers: dict[int, set[int]] = {}

    def add(self, member: int, partition: int, offset: int) -> None:
        with self._lock:
            now = time.perf_counter()
            self._wait(partition, now)
            self._last[partition] = now
            self._readers.setdefault(partition, set()).add(member)
            self.skipped += self._offsets.get(partition, offset - 1) != offset - 1
            self._offsets[partition] = offset

    def _wait(self, partition: int, now: float) -> None:
        wait = now - self._last.get(partition, self._began)
        self._longest[partition] = max(wait, self._longest.get(partition, 0.0))

    def readers(self) -> dict[int, set[int]]:
        with self._lock:
            return {partition: set(found) for partition, found in self._readers.items()}

    def window(self, partitions: int) -> tuple[dict[int, float], dict[int, set[int]]]:
        """The longest wait of each partition since the last call, in milliseconds, and its readers."""
        with self._lock:
            now = time.perf_counter()
            for partition in range(partitions):
                self._wait(partition, now)
            longest, readers = self._longest, self._readers
            self._begin()
            return {partition: wait * 1000 for partition, wait in longest.items()}, readers


def connector_of(request: dict[str, Any]) -> ConsumerConnector:
    base = {
        "bootstrap.servers": request["bootstrap"],
        "group.id": request["group"],
        "auto.offset.reset": request["reset"],
    }
    return ConsumerConnector(base | request["config"])


class Members:
    """The members of this process, each with a thread that reads its stream."""

    def __init__(self, request: dict[str, Any], arrivals: Arrivals) -> None:
        self._arrivals = arrivals
        self._wanted = request["partitions"]
        self._errors: list[BaseException] = []
        self.connectors: list[ConsumerConnector] = []
        self._threads: list[threading.Thread] = []
        for number in range(request["members"]):
            connector = connector_of(request)
            self.connectors.append(connector)
            [stream] = connector.create_message_streams({request["topic"]: 1})[request["topic"]]
            thread = threading.Thread(target=self._read, args=(number, stream), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _read(self, number: int, stream: Any) -> None:
        try:
            for message in stream:
                self._arrivals.add(number, message.partition, message.offset)
        except BaseException as error:
            self._errors.append(error)

    def await_shares(self) -> None:
        """Until each member has its fair share, and each partition had a record of its member."""
        share = self._wanted // len(self.connectors)
        deadline = time.monotonic() + DEADLINE
        while True:
            owned = {tp.partition: number for number, each in enumerate(self.connectors) for tp in each.assignment()}
            readers = self._arrivals.readers()
            sizes = [len(each.assignment()) for each in self.connectors]
            if sizes == [share] * len(sizes) and all(
                number in readers.get(partition, ()) for partition, number in owned.items()
            ):
                return
            self.check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"the members have {sizes} partitions")
            time.sleep(0.1)

    def check(self) -> None:
        if self._errors:
            raise self._errors[0]

    def close(self) -> None:
        for connector in self.connectors:
            connector.shutdown()
        for thread in self._threads:
            thread.join(DEADLINE)


class NewMember:
    """The member that joins, in a process that is ready to."""

    def __init__(self) -> None:
        command = [sys.executable, __file__, "member"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._read()

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def join(self, request: dict[str, Any]) -> None:
        self._write(json.dumps(request))

    def assigned(self) -> set[int]:
        """The partitions that it has now, of which it has read records."""
        self._write("assigned")
        return set(json.loads(self._read()))

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(DEADLINE)
        finally:
            self._process.kill()
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()


def be_member() -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    line = sys.stdin.readline()
    if not line:
        return
    request = json.loads(line)
    arrivals = Arrivals()
    members = Members(request | {"members": 1}, arrivals)
    try:
        for _ in sys.stdin:
            members.check()
            owned = {tp.partition for tp in members.connectors[0].assignment()}
            sys.stdout.write(json.dumps(sorted(owned & arrivals.readers().keys())) + "\n")
            sys.stdout.flush()
    finally:
        members.close()


def run(request: dict[str, Any]) -> dict[str, Any]:
    partitions, window = request["partitions"], request["window"]
    arrivals = Arrivals()
    members, another = Members(request, arrivals), NewMember()
    try:
        members.await_shares()
        time.sleep(SETTLED)
        arrivals.window(partitions)
        skipped = arrivals.skipped  # partitions that moved while the members came one after the other do not count

        time.sleep(window)
        quiet, before = arrivals.window(partitions)
        another.join(request)
        time.sleep(window)
        moved = another.assigned()
        joining, after = arrivals.window(partitions)
        # Before the new member leaves: its partitions return, and what it has read of them is not seen here.
        skipped = arrivals.skipped - skipped
        members.check()
    finally:
        another.close()
        members.close()
    stayed = [
        partition
        for partition in range(partitions)
        if partition not in moved and len(before[partition]) == 1 and before[partition] == after.get(partition)
    ]
    return {
        "stayed": len(stayed),
        "moved": len(moved),
        "quiet_ms": max(quiet[partition] for partition in stayed),
        "joining_ms": max(joining[partition] for partition in stayed),
        "skipped": skipped,
    }


if __name__ == "__main__":
    if sys.argv[1:] == ["member"]:
        be_member()
    else:
        serve_requests(run)
