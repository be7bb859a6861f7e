"""The acknowledgements that one request carries, and what its answer means for them (Q4). No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Self

from penstock.consumer.share.share_chunk import ShareChunk
from penstock.errors import BrokerError
from penstock.model.acknowledgement import AckBatch, SharedPartition
from penstock.wire.api.error_codes import CODES, error_name

INVALID_RECORD_STATE = CODES["INVALID_RECORD_STATE"]

REFUSED_HINT = (
    "the locks had ended before the acknowledgement arrived, so the broker delivers the records again. Process faster, "
    "lower max.poll.records, renew locks, or raise the group's share.record.lock.duration.ms"
)


class ShareAcknowledgements:
    """Taken from chunks to be sent. One of `answered`, `send_again` and `fail` is called for each. For one thread."""

    __slots__ = ("_taken",)

    def __init__(self, taken: Mapping[SharedPartition, list[tuple[ShareChunk, list[AckBatch]]]]) -> None:
        self._taken = taken

    @classmethod
    def take(cls, chunks: Iterable[ShareChunk]) -> Self:
        """The acknowledgements to send now. The broker carries out those of a partition together or not at all, so a
        chunk whose acknowledgements it has refused goes alone."""
        taken: dict[SharedPartition, list[tuple[ShareChunk, list[AckBatch]]]] = {}
        for chunk in chunks:
            key = chunk.partition.key
            if key in taken and (chunk.alone or taken[key][0][0].alone):
                continue
            with chunk.lock:
                if not chunk.lost and (batches := chunk.take()):
                    taken.setdefault(key, []).append((chunk, batches))
        return cls(taken)

    def __bool__(self) -> bool:
        return bool(self._taken)

    def batches(self) -> dict[SharedPartition, list[AckBatch]]:
        """By partition, in the order of offsets."""
        return {key: sorted(batch for _, batches in each for batch in batches) for key, each in self._taken.items()}

    def answered(self, errors: Mapping[SharedPartition, int]) -> None:
        """The broker has answered, with an error code for each partition; 0 for those that are not named."""
        for key, listed in self._taken.items():
            code = errors.get(key, 0)
            for chunk, batches in listed:
                with chunk.lock:
                    if code == 0:
                        chunk.answered(None)
                    elif code == INVALID_RECORD_STATE and len(listed) > 1:
                        chunk.unanswered(batches, alone=True)
                    else:
                        chunk.answered(_refusal(chunk, code))

    def send_again(self) -> None:
        """The broker has not looked at them: it does not know the session."""
        for listed in self._taken.values():
            for chunk, batches in listed:
                with chunk.lock:
                    chunk.unanswered(batches)

    def fail(self, error: BaseException) -> None:
        """The broker has not answered, or refuses the request: they may have been carried out or not."""
        for listed in self._taken.values():
            for chunk, _ in listed:
                with chunk.lock:
                    chunk.answered(BrokerError(f"acknowledgements of {chunk.partition.tp} may be lost: {error}"))


def _refusal(chunk: ShareChunk, code: int) -> BrokerError:
    hint = REFUSED_HINT if code == INVALID_RECORD_STATE else "the broker delivers the records again"
    return BrokerError(f"acknowledgements of {chunk.partition.tp}: {error_name(code)}: {hint}")
