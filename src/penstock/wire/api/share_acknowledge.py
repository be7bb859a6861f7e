"""The ShareAcknowledge API: acknowledges acquired records of a share group without a fetch (KIP-932)."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from penstock.model.acknowledgement import AckBatch, SharedPartition
from penstock.wire.api.message import (
    Api,
    EncodedRequest,
    Structure,
    array,
    boolean,
    int16,
    int32,
    int64,
    nullable_text,
    numbers,
    structure,
    text,
    topic_id,
)

KNOWS_RENEWALS = 2
"""From this version of ShareFetch and ShareAcknowledge on a lock can be renewed (KIP-1222): Kafka 4.2."""


Acknowledgements: TypeAlias = Mapping[SharedPartition, Sequence[AckBatch]]

ACK_BATCHES = array("acknowledgement_batches", int64("first_offset"), int64("last_offset"), numbers("types", "b"))
CURRENT_LEADER = structure("current_leader", int32("leader_id"), int32("leader_epoch"))
NODE_ENDPOINTS = array("node_endpoints", int32("node_id"), text("host"), int32("port"), nullable_text("rack"))

SHARE_ACKNOWLEDGE = Api(
    "ShareAcknowledge",
    79,
    lowest=1,
    highest=2,
    flexible=0,
    request_body=Structure(
        nullable_text("group_id"),
        nullable_text("member_id"),
        int32("share_session_epoch"),
        boolean("is_renew_ack", since=KNOWS_RENEWALS, default=False),
        array("topics", topic_id("topic_id", since=0), array("partitions", int32("partition_index"), ACK_BATCHES)),
    ),
    response_body=Structure(
        int32("throttle_time_ms"),
        int16("error_code"),
        nullable_text("error_message"),
        int32("acquisition_lock_timeout_ms", since=KNOWS_RENEWALS, default=0),
        array(
            "responses",
            topic_id("topic_id", since=0),
            array(
                "partitions",
                int32("partition_index"),
                int16("error_code"),
                nullable_text("error_message"),
                CURRENT_LEADER,
            ),
        ),
        NODE_ENDPOINTS,
    ),
)
"""Version 0 was the early access of Kafka 4.0. Kafka 4.1 does not take it."""


@dataclass(frozen=True, slots=True)
class AcknowledgeAnswer:
    throttle: float
    error_code: int
    lock_seconds: float
    """How long an acquired record is locked; 0 if the version does not say."""
    errors: Mapping[SharedPartition, int]
    """The error code of each partition that was acknowledged; 0 without an error."""


def acknowledge_request(
    version: int, group: str, member_id: str, epoch: int, acks: Acknowledgements, *, renews: bool = False
) -> EncodedRequest:
    """`renews`: whether one of the acknowledgements is RENEW."""
    return SHARE_ACKNOWLEDGE.request(
        version,
        group_id=group,
        member_id=member_id,
        share_session_epoch=epoch,
        is_renew_ack=renews,
        topics=by_topic(acks, acks),
    )


def by_topic(partitions: Iterable[SharedPartition], acks: Acknowledgements) -> list[dict[str, Any]]:
    """These partitions as a field of a request, each with its acknowledgements."""
    topics: dict[uuid.UUID, list[dict[str, Any]]] = {}
    for each in partitions:
        batches = [
            {"first_offset": first, "last_offset": last, "types": types} for first, last, types in acks.get(each, ())
        ]
        topics.setdefault(each.topic_id, []).append(
            {"partition_index": each.partition, "acknowledgement_batches": batches}
        )
    return [{"topic_id": topic, "partitions": listed} for topic, listed in topics.items()]


def acknowledge_answer(response: Any) -> AcknowledgeAnswer:
    """The decoded response as a value."""
    errors = {
        SharedPartition(topic.topic_id, each.partition_index): each.error_code
        for topic in response.responses
        for each in topic.partitions
        if topic.topic_id is not None
    }
    return AcknowledgeAnswer(
        response.throttle_time_ms / 1000, response.error_code, response.acquisition_lock_timeout_ms / 1000, errors
    )
