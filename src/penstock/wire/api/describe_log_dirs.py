"""The DescribeLogDirs API: the bytes that partitions take on a broker's disks."""

from __future__ import annotations

from penstock.model.topic_partition import Offsets, TopicPartition
from penstock.wire.api.error_codes import error_name
from penstock.wire.api.message import Api, Structure, array, boolean, int16, int32, int64, numbers, text
from penstock.wire.transport.connection import Connection, Pending

DESCRIBE_LOG_DIRS = Api(
    "DescribeLogDirs",
    35,
    lowest=1,
    highest=4,
    flexible=2,
    request_body=Structure(array("topics", text("topic"), numbers("partitions"))),
    response_body=Structure(
        int32("throttle_time_ms"),
        int16("error_code", since=3, default=0),
        array(
            "results",
            int16("error_code"),
            text("log_dir"),
            array(
                "topics",
                text("name"),
                array(
                    "partitions",
                    int32("partition_index"),
                    int64("partition_size"),
                    int64("offset_lag"),
                    boolean("is_future_key"),
                ),
            ),
            int64("total_bytes", since=4, default=-1),
            int64("usable_bytes", since=4, default=-1),
        ),
    ),
)


def ask_log_sizes(connection: Connection, timeout: float) -> Pending[tuple[Offsets, set[str]]]:
    """The bytes of all replicas on this broker, and the errors of the broker and its disks.

    A user without the permission Describe on the cluster gets no sizes.
    """
    response = connection.ask(DESCRIBE_LOG_DIRS.request(connection.version(DESCRIBE_LOG_DIRS), topics=None), timeout)

    def read(timeout: float) -> tuple[Offsets, set[str]]:
        answer = response(timeout)
        sizes: Offsets = {}
        errors = {error_name(answer.error_code)} if answer.error_code else set()
        for disk in answer.results:
            if disk.error_code:
                errors.add(error_name(disk.error_code))
            for topic in disk.topics:
                for each in topic.partitions:
                    if not each.is_future_key:  # a copy that is being moved to another disk
                        sizes[TopicPartition(topic.name, each.partition_index)] = each.partition_size
        return sizes, errors

    return read
