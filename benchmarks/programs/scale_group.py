"""A consumer group whose members all run in this process: how long rebalances take, and what a member costs.

The topic has no records. All connectors have the default settings and one stream. Standard library and Penstock only.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Mapping
from typing import Any

from process_figures import resident_mb
from serving import serve_requests

from penstock import ConsumerConnector

DEADLINE = 60.0
IDLE_SECONDS = 5.0


class Group:
    """The partitions that each member has taken in its newest assignment."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._changed = threading.Condition()
        self._assigned: dict[str, frozenset[int]] = {}

    def listener(self, member: str) -> Listener:
        return Listener(self, member)

    def begin(self) -> None:
        with self._changed:
            self._assigned.clear()

    def assigned(self, member: str, partitions: frozenset[int]) -> None:
        with self._changed:
            self._assigned[member] = partitions
            self._changed.notify_all()

    def await_assignment(self, members: int) -> None:
        """Until each member has partitions, and each partition has one member."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._is_settled(members), DEADLINE):
                raise TimeoutError(f"{len(self._assigned)} of {members} members have partitions")

    def _is_settled(self, members: int) -> bool:
        taken = self._assigned.values()
        once = len(frozenset[int]().union(*taken)) == sum(map(len, taken)) == self._partitions
        return once and sum(map(bool, taken)) == members


class Listener:
    def __init__(self, group: Group, member: str) -> None:
        self._group = group
        self._member = member

    def revoked(self, owned: object) -> None:
        pass

    def assigned(self, consumer_id: str, assignment: Mapping[str, Mapping[int, str]]) -> None:
        # With a leader that sends the whole assignment, the others' threads are in it too.
        mine = (partition for topic in assignment.values() for partition, thread in topic.items() if self._owns(thread))
        self._group.assigned(self._member, frozenset(mine))

    def _owns(self, thread: str) -> bool:
        return thread.startswith(f"{self._member}-")


class Watch:
    def __init__(self) -> None:
        self._began, self._used = time.perf_counter(), time.process_time()

    def stop(self, members: int) -> dict[str, float]:
        """Seconds that passed, and milliseconds of processor time per member."""
        seconds, used = time.perf_counter() - self._began, time.process_time() - self._used
        return {"seconds": seconds, "processor_ms": used * 1000 / members}


def run(request: dict[str, Any]) -> dict[str, Any]:
    members, group = request["members"], Group(request["partitions"])
    name = f"scale-{uuid.uuid4()}"
    before_mb = resident_mb()
    connectors: list[ConsumerConnector] = []

    def join() -> None:
        config = {"bootstrap.servers": request["bootstrap"], "group.id": name}
        connector = ConsumerConnector(config)
        connector.set_rebalance_listener(group.listener(connector.consumer_id))
        connectors.append(connector)
        connector.create_message_streams({request["topic"]: 1})

    try:
        answer: dict[str, Any] = {}
        watch = Watch()
        for _ in range(members):
            join()
        group.await_assignment(members)
        answer["all members start"] = watch.stop(members)
        watch = Watch()
        threading.Event().wait(IDLE_SECONDS)
        idle = watch.stop(members)
        answer["idle"] = {"processor_ms_per_second": idle["processor_ms"] / idle["seconds"]}
        answer["memory_mb"] = (resident_mb() - before_mb) / members
        group.begin()
        watch = Watch()
        join()
        group.await_assignment(members + 1)
        answer["one more member joins"] = watch.stop(members + 1)
        group.begin()
        watch = Watch()
        connectors.pop().shutdown()
        group.await_assignment(members)
        answer["one member leaves"] = watch.stop(members)
        return answer
    finally:
        closing = [threading.Thread(target=connector.shutdown) for connector in connectors]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join()


if __name__ == "__main__":
    serve_requests(run)
