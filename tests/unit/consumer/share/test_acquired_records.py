"""The states of acquired records, and the acknowledgements that they make (Q2, Q3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.consumer.share.acquired_records import AcquiredRecords
from penstock.model.acknowledgement import AckBatch, AcknowledgeType, AcquiredRange

GAP, ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType


def acquired(*ranges, count=1):
    return AcquiredRecords([AcquiredRange(first, last, count) for first, last in ranges])


def offsets_of(batches):
    """The type of each offset that is acknowledged. Each may be named once."""
    found = {}
    for first, last, types in batches:
        assert len(types) in (1, last - first + 1)
        for offset in range(first, last + 1):
            assert offset not in found
            found[offset] = types[0] if len(types) == 1 else types[offset - first]
    return found


def test_Q3_a_batch_of_one_type_is_one_range():
    records = acquired((10, 509))
    assert records.acknowledge_range(10, 510, ACCEPT)
    assert records.take() == [AckBatch(10, 509, [ACCEPT])]
    assert records.are_settled
    assert records.take() == []


def test_Q3_offsets_that_were_not_acquired_are_never_acknowledged():
    records = acquired((10, 12), (20, 21))
    assert records.acknowledge_range(10, 22, REJECT)
    assert offsets_of(records.take()) == dict.fromkeys((10, 11, 12, 20, 21), REJECT)


def test_Q3_few_other_types_are_ranges_and_many_are_an_array():
    records = acquired((0, 99))
    records.acknowledge_range(0, 100, ACCEPT)
    records.acknowledge((50,), RELEASE)
    assert records.take() == [AckBatch(0, 49, [ACCEPT]), AckBatch(50, 50, [RELEASE]), AckBatch(51, 99, [ACCEPT])]
    records = acquired((0, 99))
    records.acknowledge(range(0, 100, 2), ACCEPT)
    records.acknowledge(range(1, 100, 2), REJECT)
    assert records.take() == [AckBatch(0, 99, [ACCEPT, REJECT] * 50)]


def test_Q3_offsets_without_a_record_are_gaps():
    records = acquired((0, 9))
    records.settle_absent(0, 8, [0, 3, 7], GAP)
    assert offsets_of(records.take()) == dict.fromkeys((1, 2, 4, 5, 6), GAP)
    assert [offset for offset in range(10) if records.are_all_open(offset, offset + 1)] == [0, 3, 7, 8, 9]


def test_Q2_an_acknowledgement_can_change_until_it_is_sent():
    records = acquired((0, 4))
    assert records.acknowledge((1,), ACCEPT)
    assert records.acknowledge((1,), RELEASE)
    assert records.take() == [AckBatch(1, 1, [RELEASE])]
    assert not records.acknowledge((1,), ACCEPT)
    assert not records.acknowledge_range(0, 5, ACCEPT)
    assert not records.acknowledge((0, 1), ACCEPT), "all of them, or none"
    assert records.take() == []


def test_Q2_records_that_are_not_acquired_cannot_be_acknowledged():
    records = acquired((5, 6), (9, 9))
    assert not any(records.acknowledge((offset,), ACCEPT) for offset in (4, 7, 8, 10))


def test_implicit_acceptance_leaves_what_the_user_has_decided():
    records = acquired((0, 4))
    records.acknowledge((1,), RELEASE)
    records.settle(0, 3, ACCEPT)
    assert offsets_of(records.take()) == {0: ACCEPT, 1: RELEASE, 2: ACCEPT}
    assert records.last_open(5) == 4
    assert records.last_open(3) is None


def test_Q3_a_renewed_record_stays_acquired():
    records = acquired((0, 4))
    records.acknowledge((1, 2), RENEW)
    records.acknowledge((2, 4), RENEW)
    records.acknowledge((4,), ACCEPT)
    assert records.has_renewals
    assert records.take() == [AckBatch(1, 2, [RENEW]), AckBatch(4, 4, [ACCEPT])]
    assert not records.has_unsent
    assert records.acknowledge((1, 2), ACCEPT)


def test_acknowledgements_that_were_not_carried_out_are_sent_again():
    records = acquired((0, 99))
    records.acknowledge(range(0, 50, 2), ACCEPT)
    records.acknowledge(range(1, 50, 2), REJECT)
    records.acknowledge_range(60, 70, RELEASE)
    records.acknowledge((80,), RENEW)
    sent = records.take()
    assert not records.has_unsent
    records.give_back(sent)
    assert records.take() == sent


def test_Q4_nothing_of_lost_locks_is_acknowledged():
    records = acquired((0, 9))
    records.acknowledge((1,), ACCEPT)
    records.acknowledge((2,), RENEW)
    records.lose()
    assert records.are_settled
    assert records.take() == []
    assert not records.acknowledge((5,), ACCEPT)
    records = acquired((0, 9))
    records.lose(5)
    assert records.acknowledge((4,), ACCEPT)
    assert not records.acknowledge((5,), ACCEPT)


def test_delivery_counts_are_those_of_the_ranges():
    records = AcquiredRecords([AcquiredRange(0, 4, 1), AcquiredRange(5, 5, 3), AcquiredRange(8, 9, 1)])
    assert records.delivery_count is None
    assert [records.delivery_count_at(offset) for offset in (0, 4, 5, 8, 9)] == [1, 1, 3, 1, 1]
    assert acquired((0, 4), (6, 7), count=2).delivery_count == 2


@st.composite
def histories(draw):
    """Acquired ranges, and steps: a range of offsets with a type, or None for a request."""
    edges = sorted(draw(st.sets(st.integers(0, 60), min_size=2, max_size=12)))
    ranges = [(first, last - 1) for first, last in zip(edges[::2], edges[1::2], strict=False)]
    kinds = st.sampled_from([ACCEPT, RELEASE, REJECT, RENEW])
    step = st.one_of(st.none(), st.tuples(st.integers(0, 60), st.integers(0, 12), kinds, st.booleans()))
    return ranges, draw(st.lists(step, max_size=20))


@given(histories())
def test_Q3_each_record_is_acknowledged_once_with_the_last_type_before_it_was_sent(history):
    ranges, steps = history
    records = acquired(*ranges)
    expected = {offset: None for first, last in ranges for offset in range(first, last + 1)}
    sent = {}

    def take():
        batches = records.take()
        assert batches == sorted(batches)
        for offset, kind in offsets_of(batches).items():
            if kind == RENEW:
                assert expected[offset] is None
            else:
                assert offset not in sent
                sent[offset] = kind

    for step in steps:
        if step is None:
            take()
            assert sent == {offset: kind for offset, kind in expected.items() if kind is not None}
            continue
        begin, size, kind, by_range = step
        wanted = [offset for offset in range(begin, begin + size) if offset in expected]
        possible = not any(offset in sent for offset in wanted)
        done = records.acknowledge_range(begin, begin + size, kind) if by_range else records.acknowledge(wanted, kind)
        assert done == possible
        if done and kind is not RENEW:
            expected.update(dict.fromkeys(wanted, kind))
    take()
    assert sent == {offset: kind for offset, kind in expected.items() if kind is not None}
    assert records.are_settled == (None not in expected.values())


@pytest.mark.parametrize("count", [1, 2, 15, 16, 17])
def test_Q3_a_run_of_two_types_has_every_offset(count):
    records = acquired((0, count))
    records.acknowledge_range(0, count + 1, ACCEPT)
    records.acknowledge((count // 2,), REJECT)
    assert offsets_of(records.take()) == {
        offset: REJECT if offset == count // 2 else ACCEPT for offset in range(count + 1)
    }
