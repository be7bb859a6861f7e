"""The next record in a chunk: what batch headers say, and what they leave open."""

from __future__ import annotations

import pytest

from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.fetch import FetchedPartition
from penstock.wire.lookup.next_records import NOTHING_LEFT, NextRecord, next_record
from support.configs import client_config
from support.simulated_cluster import batch_header

TP = TopicPartition("t", 0)
CONFIG = client_config(bootstrap=(("h", 1),))
CONTROL, LOG_APPEND = 0x20, 0x08


def look(offset, *batches, end=100, log_start=0, cut=0):
    records = b"".join(batches)
    chunk = memoryview(records[: len(records) - cut])
    return next_record(TP, FetchedPartition("t", 0, 0, end, end, [], -1, chunk, log_start), offset, CONFIG)


def test_the_first_record_of_a_batch_has_the_first_timestamp():
    assert look(10, batch_header(10, 1000, 3000, count=5)) == NextRecord(True, 1000)


def test_records_that_share_a_timestamp_need_no_decoding():
    assert look(12, batch_header(10, 1000, 1000, count=5)) == NextRecord(True, 1000)
    assert look(12, batch_header(10, 1000, 3000, count=5, attributes=LOG_APPEND)) == NextRecord(True, 3000)


def test_inside_of_a_batch_that_is_cut_short_the_time_is_between_its_bounds():
    # The header claims more bytes than the chunk has.
    longer = bytearray(batch_header(10, 1000, 5000, count=5))
    longer[8:12] = (500).to_bytes(4, "big")
    assert look(12, bytes(longer)) == NextRecord(True, 3000, is_exact=False)


def test_a_batch_that_cannot_be_decoded_is_estimated():
    assert look(11, batch_header(10, 1000, 5000, count=5)) == NextRecord(True, 2000, is_exact=False)


def test_markers_and_emptied_batches_are_passed_over():
    marker = batch_header(10, 500, 500, attributes=CONTROL)
    emptied = batch_header(11, 600, 600, count=1)[:-4] + bytes(4)
    assert look(10, marker, emptied, batch_header(12, 700, 700)) == NextRecord(True, 700)


def test_nothing_is_left_behind_the_last_marker():
    assert look(99, batch_header(99, 500, 500, attributes=CONTROL), end=100) == NOTHING_LEFT
    assert look(99, batch_header(99, 500, 500, attributes=CONTROL), end=101) is None, "another chunk may have records"


def test_deleted_records_of_a_batch_do_not_count():
    assert look(10, batch_header(8, 1000, 1000, count=5), log_start=11) == NextRecord(True, 1000)


@pytest.mark.parametrize("cut", range(1, 61))
def test_a_header_that_is_cut_short_says_nothing(cut):
    assert look(10, batch_header(10, 1000, 1000), cut=cut) is None
