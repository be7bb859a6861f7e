"""A cluster on loopback that has any number of partitions and no records.

It answers what planning asks (ApiVersions, Metadata, ListOffsets, OffsetForLeaderEpoch) with encoded responses, in the
newest versions, so that a client's connections, requests and decoding are those of a real cluster. Partitions have
three replicas, and three node ids share one port. A process of its own: its work is not that of the measured client.

    {"topics": 10, "partitions": 100}    ->  its port
    {"advance": 1000, "by": 10}          ->  records in this many partitions, from the first on
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import threading
import uuid
from typing import Any

from penstock.wire.api.api_versions import API_VERSIONS
from penstock.wire.api.frame import FrameReader, encode_count, encode_text
from penstock.wire.api.list_offsets import LATEST, LIST_OFFSETS
from penstock.wire.api.message import Api
from penstock.wire.api.metadata import METADATA
from penstock.wire.api.offset_for_leader_epoch import OFFSET_FOR_LEADER_EPOCH

APIS = (API_VERSIONS, METADATA, LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH)
NODES = (1, 2, 3)
HOST = "127.0.0.1"
EPOCH = 5
UNKNOWN_TOPIC = 3
PREFIX = "scale-"
FIRST_END = 100_000

_HEADER = struct.Struct(">hhih")
_ASKED = struct.Struct(">iiqx")
_ANSWERED = struct.Struct(">ihqqib")


class SimulatedCluster:
    """Topics and the ends of their logs. Called by the threads of connections; `advance` by the main thread."""

    def __init__(self, topics: int, partitions: int) -> None:
        self._ends = {f"{PREFIX}{number:04}": [FIRST_END] * partitions for number in range(topics)}
        self._port = 0
        self._listed: dict[bytes, bytes] = {}
        """Encoded Metadata responses: encoding 100,000 partitions takes longer than reading them."""
        self._asked: dict[bytes, list[tuple[str, list[tuple[int, bool]]]]] = {}
        """ListOffsets requests as read before."""

    def serve(self) -> int:
        """Listen in a thread; returns the port."""
        listening = socket.create_server((HOST, 0))
        self._port = int(listening.getsockname()[1])
        threading.Thread(target=self._accept, args=(listening,), daemon=True).start()
        return self._port

    def advance(self, partitions: int, by: int) -> None:
        left = partitions
        for name, ends in self._ends.items():
            moved = min(left, len(ends))
            self._ends[name] = [end + by for end in ends[:moved]] + ends[moved:]
            left -= moved

    def _accept(self, listening: socket.socket) -> None:
        while True:
            connection, _ = listening.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._answer_all, args=(connection,), daemon=True).start()

    def _answer_all(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            while size := stream.read(4):
                connection.sendall(self._answer(stream.read(*struct.unpack(">i", size))))

    def _answer(self, frame: bytes) -> bytes:
        key, version, correlation_id, length = _HEADER.unpack_from(frame)
        api = next(api for api in APIS if api.key == key)
        if version != api.highest:
            raise ValueError(f"{api.name} in version {version}: only {api.highest} is simulated")
        body = frame[_HEADER.size + length + 1 :]  # after the client id and no tagged fields
        answer = self._body(api, body)
        header = struct.pack(">i", correlation_id) + (b"\0" if api.tagged_response_header else b"")
        return struct.pack(">i", len(header) + len(answer)) + header + answer

    def _body(self, api: Api, body: bytes) -> bytes:
        if api is LIST_OFFSETS:
            return self._offsets(body)
        if api is METADATA:
            if body not in self._listed:
                self._listed[body] = _encoded(api, self._metadata(body))
            return self._listed[body]
        if api is OFFSET_FOR_LEADER_EPOCH:
            return _encoded(api, self._epoch_ends(body))
        versions = [{"api_key": each.key, "min_version": each.lowest, "max_version": each.highest} for each in APIS]
        return _encoded(api, {"error_code": 0, "api_keys": versions, "throttle_time_ms": 0})

    def _metadata(self, body: bytes) -> dict[str, Any]:
        is_all = body[0] == 0  # a null array
        asked = METADATA.request_body.decode(METADATA.highest, FrameReader(memoryview(body), flexible=True))
        names = list(self._ends) if is_all else [topic.name for topic in asked.topics]
        return {
            "throttle_time_ms": 0,
            "brokers": [{"node_id": node, "host": HOST, "port": self._port, "rack": None} for node in NODES],
            "cluster_id": "simulated",
            "controller_id": NODES[0],
            "topics": [self._topic(name) for name in names],
            "error_code": 0,
        }

    def _topic(self, name: str) -> dict[str, Any]:
        return {
            "error_code": 0 if name in self._ends else UNKNOWN_TOPIC,
            "name": name,
            "topic_id": uuid.uuid5(uuid.NAMESPACE_DNS, name),
            "is_internal": False,
            "partitions": [
                {
                    "error_code": 0,
                    "partition_index": number,
                    "leader_id": NODES[number % len(NODES)],
                    "leader_epoch": EPOCH,
                    "replica_nodes": NODES,
                    "isr_nodes": NODES,
                    "offline_replicas": (),
                }
                for number in range(len(self._ends.get(name, ())))
            ],
            "topic_authorized_operations": -(1 << 31),
        }

    def _offsets(self, body: bytes) -> bytes:
        if body not in self._asked:
            self._asked = {body: _read_offsets_request(body)}
        parts = [struct.pack(">i", 0), encode_count(len(self._asked[body]), True)]
        for name, rows in self._asked[body]:
            ends = self._ends[name]
            parts += encode_text(name, True), encode_count(len(rows), True)
            parts += [_ANSWERED.pack(n, 0, -1, ends[n] if at_end else 0, EPOCH, 0) for n, at_end in rows]
            parts.append(b"\0")
        return b"".join((*parts, b"\0"))

    def _epoch_ends(self, body: bytes) -> dict[str, Any]:
        api = OFFSET_FOR_LEADER_EPOCH
        asked = api.request_body.decode(api.highest, FrameReader(memoryview(body), flexible=True))
        topics = []
        for topic in asked.topics:
            rows = [
                {"error_code": 0, "partition": each.partition, "leader_epoch": EPOCH,
                 "end_offset": self._ends[topic.topic][each.partition]}
                for each in topic.partitions
            ]  # fmt: skip
            topics.append({"topic": topic.topic, "partitions": rows})
        return {"throttle_time_ms": 0, "topics": topics}


def _encoded(api: Api, values: dict[str, Any]) -> bytes:
    return api.response_body.encode(api.highest, True, values)


def _read_offsets_request(body: bytes) -> list[tuple[str, list[tuple[int, bool]]]]:
    """By topic: partition numbers, and whether the end is asked for."""
    reader = FrameReader(memoryview(body), flexible=True)
    reader.take(5)  # replica id and isolation level
    topics = []
    for _ in range(reader.count()):
        name = reader.text()
        rows = reader.take(_ASKED.size * reader.count(_ASKED.size))
        topics.append((name, [(number, time == LATEST) for number, _, time in _ASKED.iter_unpack(rows)]))
        reader.tags()
    return topics


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if "topics" in request:
            cluster = SimulatedCluster(request["topics"], request["partitions"])
            answer: object = cluster.serve()
        else:
            cluster.advance(request["advance"], request["by"])
            answer = True
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
