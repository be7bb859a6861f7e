"""What the broker's error codes mean to us."""

from __future__ import annotations

import kafka.errors as kafka_errors

from penstock.errors import AuthorizationFailed, BrokerError

OFFSET_OUT_OF_RANGE: int = kafka_errors.OffsetOutOfRangeError.errno
CORRUPT_MESSAGE: int = kafka_errors.CorruptRecordError.errno
UNKNOWN_TOPIC_OR_PARTITION: int = kafka_errors.UnknownTopicOrPartitionError.errno
MESSAGE_TOO_LARGE: int = kafka_errors.MessageSizeTooLargeError.errno
RECORD_LIST_TOO_LARGE: int = kafka_errors.RecordListTooLargeError.errno
INVALID_TOPIC: int = kafka_errors.InvalidTopicError.errno
UNKNOWN_SERVER_ERROR: int = kafka_errors.UnknownError.errno
UNSUPPORTED_VERSION: int = kafka_errors.UnsupportedVersionError.errno

SESSION_ENDED = frozenset(
    error.errno
    for error in (
        kafka_errors.FetchSessionIdNotFoundError,
        kafka_errors.InvalidFetchSessionEpochError,
        kafka_errors.FetchSessionTopicIdError,
    )
)
"""What a broker says of a fetch session that it does not know, or not so."""

NOT_ALLOWED = (
    kafka_errors.TopicAuthorizationFailedError,
    kafka_errors.GroupAuthorizationFailedError,
    kafka_errors.ClusterAuthorizationFailedError,
    kafka_errors.TransactionalIdAuthorizationFailedError,
)


HINTS = {
    kafka_errors.InvalidTimestampError.errno: "the clocks of this machine and of the broker differ by more than the "
    "topic's message.timestamp.after.max.ms or message.timestamp.before.max.ms allows. Set the clock right"
}


class RetriableError(Exception):
    """An answer that is worth asking for again. `error_code` is the broker's, where it gave one."""

    def __init__(self, text: str, error_code: int = 0) -> None:
        super().__init__(text)
        self.error_code = error_code


def check(error_code: int, what: str, *, retries_unknown: bool = True) -> None:
    """Raise what an error code means: RetriableError when asking again may help.

    UNKNOWN_SERVER_ERROR is what a broker says when it does not know better. Like Java's clients, what reads asks again
    and what writes does not (`retries_unknown`): most often the broker will never take that request.
    """
    if error_code == 0:
        return
    error = kafka_errors.for_code(error_code)
    text = f"{what}: {_said(error_code, error)}"
    unknown = error_code == UNKNOWN_SERVER_ERROR and retries_unknown
    if issubclass(error, kafka_errors.RetriableError) or unknown:
        raise RetriableError(text, error_code)
    if issubclass(error, NOT_ALLOWED):
        raise AuthorizationFailed(f"{text}. The broker's ACLs do not allow it for this user")
    hint = HINTS.get(error_code)
    raise BrokerError(f"{text}: {hint}" if hint else text)


def _said(error_code: int, error: type[Exception]) -> str:
    if error_code == UNKNOWN_SERVER_ERROR:
        return "UNKNOWN_SERVER_ERROR: the broker failed in a way that has no name. Its log says why"
    if issubclass(error, kafka_errors.UnknownError):
        return f"error {error_code}, which a newer broker may know and Penstock does not"
    return str(getattr(error, "message", error.__name__))
