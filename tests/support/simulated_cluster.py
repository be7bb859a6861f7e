"""A cluster simulated at the wire's edge: brokers that answer over TCP, and count requests. No JVM, no disk.

As large as a test wants. Every record is a batch of its own; its timestamp is `time_of(partition, offset)`.
`python -m support.simulated_cluster TOPICS PARTITIONS GROUPS` serves one until its standard input ends.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.api_versions import API_VERSIONS
from penstock.wire.api.consumer_protocol import encode_assignment
from penstock.wire.api.describe_configs import DESCRIBE_CONFIGS
from penstock.wire.api.describe_log_dirs import DESCRIBE_LOG_DIRS
from penstock.wire.api.frame import FrameReader
from penstock.wire.api.group_admin import CONSUMER_GROUP_DESCRIBE, DESCRIBE_GROUPS, LIST_GROUPS
from penstock.wire.api.message import Api, Structure, array, data, int8, int16, int32, int64, numbers, text, topic_id
from penstock.wire.api.metadata import METADATA
from penstock.wire.api.offset_fetch import OFFSET_FETCH

LIST_OFFSETS = Api(
    "ListOffsets",
    2,
    lowest=6,
    highest=6,
    flexible=6,
    request_body=Structure(
        int32("replica_id"),
        int8("isolation"),
        array(
            "topics",
            text("name"),
            array("partitions", int32("partition_index"), int32("leader_epoch"), int64("timestamp")),
        ),
    ),
    response_body=Structure(
        int32("throttle_time_ms"),
        array(
            "topics",
            text("name"),
            array(
                "partitions",
                int32("partition_index"),
                int16("error_code"),
                int64("timestamp"),
                int64("offset"),
                int32("leader_epoch"),
            ),
        ),
    ),
)
FETCH = Api(
    "Fetch",
    1,
    lowest=12,
    highest=13,
    flexible=12,
    request_body=Structure(
        int32("replica_id"),
        int32("max_wait"),
        int32("min_bytes"),
        int32("max_bytes"),
        int8("isolation"),
        int32("session"),
        int32("session_epoch"),
        array(
            "topics",
            topic_id("topic_id", since=13),
            text("topic", until=12),
            array(
                "partitions",
                int32("partition"),
                int32("leader_epoch"),
                int64("offset"),
                int32("fetched_epoch"),
                int64("log_start"),
                int32("max_bytes"),
            ),
        ),
        array("forgotten", topic_id("topic_id", since=13), text("topic", until=12), numbers("partitions")),
        text("rack"),
    ),
    response_body=Structure(
        int32("throttle_time_ms"),
        int16("error_code"),
        int32("session"),
        array(
            "topics",
            topic_id("topic_id", since=13),
            text("topic", until=12),
            array(
                "partitions",
                int32("partition"),
                int16("error_code"),
                int64("high_watermark"),
                int64("last_stable_offset"),
                int64("log_start"),
                array("aborted", int64("producer"), int64("first")),
                int32("preferred_replica"),
                data("records"),
            ),
        ),
    ),
)
APIS = (
    *(API_VERSIONS, METADATA, LIST_OFFSETS, FETCH, LIST_GROUPS, DESCRIBE_GROUPS, CONSUMER_GROUP_DESCRIBE, OFFSET_FETCH),
    *(DESCRIBE_CONFIGS, DESCRIBE_LOG_DIRS),
)
OUT_OF_RANGE = 1
BATCH = struct.Struct(">qiibihiqqqhii")


def batch_header(offset: int, first: int, largest: int, count: int = 1, attributes: int = 0) -> bytes:
    """The header of a record batch, which is all that a monitor needs of it."""
    return BATCH.pack(offset, 49, 0, 2, 0, attributes, count - 1, first, largest, -1, -1, -1, count)


@dataclass
class Group:
    committed: dict[TopicPartition, int]
    kind: str = "classic"
    state: str = "Stable"
    members: int = 1


@dataclass
class SimulatedCluster:
    """Brokers on loopback. Tests change `ends`, `begins` and `groups` between requests."""

    partitions: Mapping[str, int]
    groups: dict[str, Group]
    brokers: int = 3
    time_of: Callable[[TopicPartition, int], int] = lambda tp, offset: offset
    offset_fetch_version: int = OFFSET_FETCH.highest
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    begins: dict[TopicPartition, int] = field(default_factory=dict)
    requests: Counter[str] = field(default_factory=Counter)
    metadata_error: int = 0
    """The error code of all answers to Metadata."""

    def __post_init__(self) -> None:
        self.ids = {name: uuid.uuid5(uuid.NAMESPACE_DNS, name) for name in self.partitions}
        self.names = {number: name for name, number in self.ids.items()}
        for name, count in self.partitions.items():
            for number in range(count):
                self.ends.setdefault(TopicPartition(name, number), 1000)
        self._listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(self.brokers)]
        self.ports = [listener.getsockname()[1] for listener in self._listeners]
        self._open: list[tuple[int, socket.socket]] = []
        for node, listener in enumerate(self._listeners):
            threading.Thread(target=self._accept, args=(node, listener), daemon=True).start()

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        return tuple(("127.0.0.1", port) for port in self.ports)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self.addresses)

    def close(self) -> None:
        for node in range(self.brokers):
            self.stop(node)

    def stop(self, node: int) -> None:
        """This broker refuses connections from now on."""
        for opened in (self._listeners[node], *(accepted for number, accepted in self._open if number == node)):
            with contextlib.suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
            opened.close()

    def __enter__(self) -> SimulatedCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- the wire -----------------------------------------------------------------------------------------------------

    def _accept(self, node: int, listener: socket.socket) -> None:
        while True:
            try:
                accepted, _ = listener.accept()
            except OSError:
                return
            self._open.append((node, accepted))
            threading.Thread(target=self._serve, args=(node, accepted), daemon=True).start()

    def _serve(self, node: int, accepted: socket.socket) -> None:
        try:
            with accepted, accepted.makefile("rb") as stream:
                while len(length := stream.read(4)) == 4:
                    frame = memoryview(stream.read(*struct.unpack(">i", length)))
                    key, version, correlation = struct.unpack_from(">hhi", frame)
                    api = next(api for api in APIS if api.key == key)
                    flexible = version >= api.flexible
                    reader = FrameReader(frame, flexible)
                    reader.at = 10 + struct.unpack_from(">h", frame, 8)[0]
                    reader.tags()
                    asked = api.request_body.decode(version, reader)
                    self.requests[api.name] += 1
                    values = getattr(self, f"_answer_{api.name}")(node, asked)
                    tags = b"\0" if flexible and api.tagged_response_header else b""
                    body = struct.pack(">i", correlation) + tags + api.response_body.encode(version, flexible, values)
                    accepted.sendall(struct.pack(">i", len(body)) + body)
        except OSError:
            return

    # --- answers ------------------------------------------------------------------------------------------------------

    def leader(self, tp: TopicPartition) -> int:
        return tp.partition % self.brokers

    def coordinator(self, group: str) -> int:
        return sum(group.encode()) % self.brokers

    def _answer_ApiVersions(self, node: int, asked: Any) -> Any:
        keys = [
            {
                "api_key": api.key,
                "min_version": api.lowest,
                "max_version": self.offset_fetch_version if api is OFFSET_FETCH else api.highest,
            }
            for api in APIS
        ]
        return {"error_code": 0, "api_keys": keys}

    def _answer_Metadata(self, node: int, asked: Any) -> Any:
        if self.metadata_error:
            nothing = {"throttle_time_ms": 0, "brokers": [], "controller_id": -1, "topics": []}
            return nothing | {"error_code": self.metadata_error}
        return {
            "throttle_time_ms": 0,
            "error_code": 0,
            "brokers": [{"node_id": at, "host": "127.0.0.1", "port": port} for at, port in enumerate(self.ports)],
            "cluster_id": "simulated",
            "controller_id": 0,
            "topics": [
                {
                    "error_code": 0,
                    "name": name,
                    "topic_id": self.ids[name],
                    "is_internal": False,
                    "topic_authorized_operations": 0,
                    "partitions": [
                        {
                            "error_code": 0,
                            "partition_index": number,
                            "leader_id": self.leader(TopicPartition(name, number)),
                            "leader_epoch": 0,
                        }
                        for number in range(count)
                    ],
                }
                for name, count in self.partitions.items()
            ],
        }

    def _answer_ListOffsets(self, node: int, asked: Any) -> Any:
        def offset(tp: TopicPartition, at: int) -> int:
            return self.ends[tp] if at == -1 else self.begins.get(tp, 0)

        return {
            "throttle_time_ms": 0,
            "topics": [
                {
                    "name": topic.name,
                    "partitions": [
                        {
                            "partition_index": each.partition_index,
                            "error_code": 0,
                            "timestamp": -1,
                            "offset": offset(TopicPartition(topic.name, each.partition_index), each.timestamp),
                            "leader_epoch": 0,
                        }
                        for each in topic.partitions
                    ],
                }
                for topic in asked.topics
            ],
        }

    def _answer_Fetch(self, node: int, asked: Any) -> Any:
        def one(name: str, each: Any) -> Any:
            tp = TopicPartition(name, each.partition)
            begin, end = self.begins.get(tp, 0), self.ends[tp]
            is_in_range = begin <= each.offset <= end
            time_of = self.time_of(tp, each.offset)
            return {
                "partition": each.partition,
                "error_code": 0 if is_in_range else OUT_OF_RANGE,
                "high_watermark": end,
                "last_stable_offset": end,
                "log_start": begin,
                "preferred_replica": -1,
                "records": batch_header(each.offset, time_of, time_of) if is_in_range and each.offset < end else b"",
            }

        topics = [
            {
                "topic_id": topic.topic_id,
                "partitions": [one(self.names[topic.topic_id], each) for each in topic.partitions],
            }
            for topic in asked.topics
        ]
        return {"throttle_time_ms": 0, "error_code": 0, "session": 0, "topics": topics}

    def _answer_ListGroups(self, node: int, asked: Any) -> Any:
        return {
            "throttle_time_ms": 0,
            "error_code": 0,
            "groups": [
                {
                    "group_id": name,
                    "protocol_type": "consumer",
                    "group_state": group.state,
                    "group_type": group.kind.capitalize(),
                }
                for name, group in self.groups.items()
                if self.coordinator(name) == node
            ],
        }

    def _members(self, group: Group) -> list[Sequence[TopicPartition]]:
        owned = sorted(group.committed)
        return [owned[at :: group.members] for at in range(group.members)]

    def _answer_DescribeGroups(self, node: int, asked: Any) -> Any:
        described = []
        for name in asked.groups:
            group = self.groups[name]
            members = [
                {
                    "member_id": f"{name}-{at}",
                    "client_id": "client",
                    "client_host": "/10.0.0.1",
                    "member_metadata": b"",
                    "member_assignment": encode_assignment(owned, b""),
                }
                for at, owned in enumerate(self._members(group))
            ]
            described.append(
                {
                    "error_code": 0,
                    "group_id": name,
                    "group_state": group.state,
                    "protocol_type": "consumer",
                    "protocol_data": "range",
                    "members": members,
                    "authorized_operations": 0,
                }
            )
        return {"throttle_time_ms": 0, "groups": described}

    def _answer_ConsumerGroupDescribe(self, node: int, asked: Any) -> Any:
        described = []
        for name in asked.group_ids:
            group, members = self.groups[name], []
            for at, owned in enumerate(self._members(group)):
                topics = [
                    {
                        "topic_id": self.ids[topic],
                        "topic_name": topic,
                        "partitions": [tp.partition for tp in owned if tp.topic == topic],
                    }
                    for topic in sorted({tp.topic for tp in owned})
                ]
                assignment = {"topic_partitions": topics}
                members.append(
                    {
                        "member_id": f"{name}-{at}",
                        "member_epoch": 1,
                        "client_id": "client",
                        "client_host": "/10.0.0.1",
                        "subscribed_topic_names": [],
                        "assignment": assignment,
                        "target_assignment": assignment,
                    }
                )
            described.append(
                {
                    "error_code": 0,
                    "group_id": name,
                    "group_state": group.state,
                    "group_epoch": 1,
                    "assignment_epoch": 1,
                    "assignor_name": "uniform",
                    "members": members,
                    "authorized_operations": 0,
                }
            )
        return {"throttle_time_ms": 0, "groups": described}

    def _answer_OffsetFetch(self, node: int, asked: Any) -> Any:
        def topics(name: str) -> Any:
            by_topic: dict[str, list[Any]] = {}
            for tp, offset in self.groups[name].committed.items():
                row = {"partition_index": tp.partition, "committed_offset": offset, "error_code": 0}
                by_topic.setdefault(tp.topic, []).append(row)
            return [{"name": topic, "partitions": rows} for topic, rows in by_topic.items()]

        names = [each.group_id for each in asked.groups or ()]
        groups = [{"group_id": name, "topics": topics(name), "error_code": 0} for name in names]
        alone = {"topics": [] if names else topics(asked.group_id), "error_code": 0}
        return {"throttle_time_ms": 0, "groups": groups} | alone

    def _answer_DescribeConfigs(self, node: int, asked: Any) -> Any:
        def one(name: str, value: str) -> Any:
            return {"name": name, "value": value, "read_only": False, "config_source": 5, "is_sensitive": False}

        configs = [one("retention.ms", "604800000"), one("retention.bytes", "-1"), one("cleanup.policy", "delete")]
        results = [
            {"error_code": 0, "resource_type": 2, "resource_name": each.resource_name, "configs": configs}
            for each in asked.resources
        ]
        return {"throttle_time_ms": 0, "results": results}

    def _answer_DescribeLogDirs(self, node: int, asked: Any) -> Any:
        topics = [
            {
                "name": name,
                "partitions": [
                    {"partition_index": at, "partition_size": 1 << 20, "offset_lag": 0, "is_future_key": False}
                    for at in range(count)
                    if self.leader(TopicPartition(name, at)) == node
                ],
            }
            for name, count in self.partitions.items()
        ]
        return {"throttle_time_ms": 0, "results": [{"error_code": 0, "log_dir": "/logs", "topics": topics}]}


def large_cluster(topics: int, partitions: int, groups: int, **more: Any) -> SimulatedCluster:
    """Topics `t0` to ... Each group reads one of them, is 100 records behind its end, and has two members."""
    reading = {
        f"g{at}": Group(
            {TopicPartition(f"t{at % topics}", number): 900 for number in range(partitions)},
            kind="consumer" if at % 10 == 0 else "classic",
            members=2,
        )
        for at in range(groups)
    }
    return SimulatedCluster({f"t{at}": partitions for at in range(topics)}, reading, **more)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str]) -> None:
    began = int(time.time() * 1000) - 1_000_000
    with large_cluster(*map(int, arguments), time_of=lambda tp, offset: began + 1000 * offset) as cluster:
        say(cluster.bootstrap)
        while line := sys.stdin.readline():
            if line.strip() == "advance":  # every partition gets 10 records, and every group reads 10
                for tp in cluster.ends:
                    cluster.ends[tp] += 10
                for group in cluster.groups.values():
                    group.committed = {tp: offset + 10 for tp, offset in group.committed.items()}
            say(f"{cluster.requests.total()} {dict(cluster.requests)}")


if __name__ == "__main__":
    main(sys.argv[1:])
