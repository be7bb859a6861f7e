"""The APIs of transactions: producer ids, and what belongs to a transaction."""

from __future__ import annotations

from penstock.wire.api.message import (
    Api,
    Structure,
    array,
    boolean,
    int16,
    int32,
    int64,
    nullable_text,
    numbers,
    text,
)

BUMPING_END = 5
"""From this version on, EndTxn bumps the epoch and returns it (KIP-890): the next transaction has an epoch of its own.
The broker takes the version of the request for the version of the client's transactions."""

LAST_ADDED_OFFSETS = 4
"""Up to this version of TxnOffsetCommit, AddOffsetsToTxn comes before it. Later ones add the group by themselves."""

INIT_PRODUCER_ID = Api(
    "InitProducerId",
    22,
    lowest=0,
    highest=5,  # later versions are for two-phase commits
    flexible=2,
    request_body=Structure(
        nullable_text("transactional_id"),
        int32("transaction_timeout_ms"),
        int64("producer_id", since=3, default=-1),
        int16("producer_epoch", since=3, default=-1),
    ),
    response_body=Structure(
        int32("throttle_time_ms"), int16("error_code"), int64("producer_id"), int16("producer_epoch")
    ),
)

ADD_PARTITIONS_TO_TXN = Api(
    "AddPartitionsToTxn",
    24,
    lowest=0,
    highest=3,  # later versions are spoken between brokers
    flexible=3,
    request_body=Structure(
        text("transactional_id"),
        int64("producer_id"),
        int16("producer_epoch"),
        array("topics", text("name"), numbers("partitions")),
    ),
    response_body=Structure(
        int32("throttle_time_ms"),
        array(
            "topics",
            text("name"),
            array("partitions", int32("partition_index"), int16("error_code")),
        ),
    ),
)

ADD_OFFSETS_TO_TXN = Api(
    "AddOffsetsToTxn",
    25,
    lowest=0,
    highest=4,
    flexible=3,
    request_body=Structure(text("transactional_id"), int64("producer_id"), int16("producer_epoch"), text("group_id")),
    response_body=Structure(int32("throttle_time_ms"), int16("error_code")),
)

TXN_OFFSET_COMMIT = Api(
    "TxnOffsetCommit",
    28,
    lowest=0,
    highest=5,
    flexible=3,
    request_body=Structure(
        text("transactional_id"),
        text("group_id"),
        int64("producer_id"),
        int16("producer_epoch"),
        int32("generation_id", since=3, default=-1),
        text("member_id", since=3, default=""),
        nullable_text("group_instance_id", since=3),
        array(
            "topics",
            text("name"),
            array(
                "partitions",
                int32("partition_index"),
                int64("committed_offset"),
                int32("committed_leader_epoch", since=2, default=-1),
                nullable_text("committed_metadata"),
            ),
        ),
    ),
    response_body=Structure(
        int32("throttle_time_ms"),
        array("topics", text("name"), array("partitions", int32("partition_index"), int16("error_code"))),
    ),
)

END_TXN = Api(
    "EndTxn",
    26,
    lowest=0,
    highest=5,
    flexible=3,
    request_body=Structure(
        text("transactional_id"), int64("producer_id"), int16("producer_epoch"), boolean("committed")
    ),
    response_body=Structure(
        int32("throttle_time_ms"),
        int16("error_code"),
        int64("producer_id", since=BUMPING_END, default=-1),
        int16("producer_epoch", since=BUMPING_END, default=-1),
    ),
)
