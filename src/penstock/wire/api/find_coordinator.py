"""The FindCoordinator API: which broker coordinates a group or a transactional id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.errors import ProtocolError
from penstock.wire.api.error_codes import check
from penstock.wire.api.message import Api, Structure, array, int8, int16, int32, nullable_text, text, texts
from penstock.wire.api.metadata import Broker
from penstock.wire.transport.connection import Connection

MANY_KEYS = 4
"""From this version on a request has several keys, and its response several coordinators."""

FIND_COORDINATOR = Api(
    "FindCoordinator",
    10,
    lowest=0,
    highest=6,
    flexible=3,
    request_body=Structure(
        text("key", until=MANY_KEYS - 1),
        int8("key_type", since=1),
        texts("coordinator_keys", since=MANY_KEYS),
    ),
    response_body=Structure(
        int32("throttle_time_ms", since=1),
        int16("error_code", until=MANY_KEYS - 1),
        nullable_text("error_message", since=1, until=MANY_KEYS - 1),
        int32("node_id", until=MANY_KEYS - 1),
        text("host", until=MANY_KEYS - 1),
        int32("port", until=MANY_KEYS - 1),
        array(
            "coordinators",
            text("key"),
            int32("node_id"),
            text("host"),
            int32("port"),
            int16("error_code"),
            nullable_text("error_message"),
            since=MANY_KEYS,
        ),
    ),
)

GROUP, TRANSACTION = 0, 1
"""Kinds of keys: a group, or a transactional id."""


def find_coordinator(connection: Connection, name: str, timeout: float, kind: int = GROUP) -> Broker:
    version = connection.version(FIND_COORDINATOR)
    request = FIND_COORDINATOR.request(version, key=name, key_type=kind, coordinator_keys=[name])
    response = connection.call(request, timeout)
    if version >= MANY_KEYS:
        if len(response.coordinators) != 1:
            raise ProtocolError(f"asked for one coordinator, the response has {len(response.coordinators)}")
        response = response.coordinators[0]
    return _checked(response, name, kind)


def find_coordinators(connection: Connection, names: Sequence[str], timeout: float, kind: int) -> dict[str, Broker]:
    """The same for many names. Older brokers are asked for one name after the other."""
    version = connection.version(FIND_COORDINATOR)
    if version < MANY_KEYS:
        return {name: find_coordinator(connection, name, timeout, kind) for name in names}
    response = connection.call(FIND_COORDINATOR.request(version, key_type=kind, coordinator_keys=names), timeout)
    return {each.key: _checked(each, each.key, kind) for each in response.coordinators}


def _checked(answer: Any, name: str, kind: int) -> Broker:
    check(answer.error_code, f"coordinator of {'group' if kind == GROUP else 'transactional id'} {name!r}")
    return Broker(answer.node_id, answer.host, answer.port)
