"""Reads of committed records whose end lies past an open transaction."""

from __future__ import annotations

import logging
import threading
import time
import uuid

import pytest

from fixtures.produce import Rec
from fixtures.stream import HOUR, NOW, records
from penstock.config.source import parse_options
from penstock.errors import DataLoss, OpenTransaction
from penstock.model.narrowing import Narrowing
from penstock.model.offset_range import OffsetRange
from penstock.planner.batch import plan_batch
from support.reading import range_reader

DEADLINE = 60.0


@pytest.fixture
def options(kafka):
    def make(name, **more):
        chosen = {"subscribe": name, "kafka.isolation.level": "read_committed", "kafkaConsumer.pollTimeoutMs": "300"}
        return parse_options(kafka.client_options() | chosen | more)

    return make


def planned(options, narrowing=None):
    ranges = plan_batch(options, *([narrowing] if narrowing else []))
    return {r.partition: (r.start, r.stop) for r in ranges}


@pytest.fixture
def opened(topic, produce, transaction):
    """A topic of two partitions with three records in each; in the first an open transaction of four more, and one
    record after it. Gives its name, the transactional id and how to commit."""
    name, transactional_id = topic(partitions=2), f"payments-{uuid.uuid4().hex}"
    produce(name, records(3) + records(3, partition=1))
    block = transaction(transactional_id)
    send = block.__enter__()
    send(name, records(4))
    produce(name, records(1))
    ended = []

    def commit():
        if not ended:
            ended.append(True)
            block.__exit__(None, None, None)

    yield name, transactional_id, commit
    commit()


@pytest.mark.parametrize("fail", ["true", "false"])
@pytest.mark.parametrize("end", ["offsets", "time"])
def test_F27_an_end_past_an_open_transaction_is_an_error_that_names_it_and_not_data_loss(opened, options, fail, end):
    name, transactional_id, commit = opened
    until = (
        {"endingOffsets": f'{{"{name}": {{"0": 6, "1": 3}}}}'}
        if end == "offsets"
        else {"endingTimestamp": str(NOW + 1)}
    )
    chosen = options(name, failOnDataLoss=fail, **until)
    with pytest.raises(OpenTransaction) as raised:
        plan_batch(chosen)
    said = str(raised.value)
    for words in (
        f"{name}-0",
        "offset 3",
        transactional_id,
        "producer id",
        "0.3 s",
        "kafkaConsumer.pollTimeoutMs",
        *until,
    ):
        assert words in said
    assert f"{name}-1" not in said
    commit()
    (start, stop), second = planned(chosen)[0], planned(chosen)[1]
    assert start == 0
    assert stop in ((6,) if end == "offsets" else (8, 9)), "at the transaction's marker, or after it"
    assert second == (0, 3)


def test_F27_a_read_waits_for_the_transaction(opened, options, caplog):
    name, _, commit = opened
    chosen = options(
        name, endingOffsets=f'{{"{name}": {{"0": 6, "1": 3}}}}', **{"kafkaConsumer.pollTimeoutMs": "60000"}
    )
    found = []
    reading = threading.Thread(target=lambda: found.append(planned(chosen)))
    with caplog.at_level(logging.WARNING):
        reading.start()
        deadline = time.monotonic() + DEADLINE
        while "open transaction" not in caplog.text:
            assert time.monotonic() < deadline, "it does not wait"
            time.sleep(0.01)
        assert found == []
        commit()
        reading.join(DEADLINE)
    assert found == [{0: (0, 6), 1: (0, 3)}]


def test_F27_only_what_is_read_is_waited_for(opened, options):
    name, _, _ = opened
    until = {"endingOffsets": f'{{"{name}": {{"0": 6, "1": 3}}}}'}
    assert planned(options(name, **until), Narrowing(partitions=frozenset({1}))) == {1: (0, 3)}
    assert planned(options(name, **until), Narrowing(max_offset=1)) == {0: (0, 2), 1: (0, 2)}
    times = {"endingTimestamp": str(NOW + 1)}
    assert planned(options(name, **times), Narrowing(partitions=frozenset({1}))) == {1: (0, 3)}
    assert planned(options(name, endingTimestamp=str(NOW - HOUR))) == {}, "what lies below it is decided"
    assert planned(options(name, endingTimestamp=str(NOW + 24 * HOUR))) == {0: (0, 3), 1: (0, 3)}, "as latest"
    assert planned(options(name)) == {0: (0, 3), 1: (0, 3)}
    read_uncommitted = {"kafka.isolation.level": "read_uncommitted"}
    assert planned(options(name, **until, **read_uncommitted)) == {0: (0, 6), 1: (0, 3)}


def test_F27_what_is_past_the_log_is_still_data_loss(opened, options):
    name, _, _ = opened
    with pytest.raises(DataLoss, match="up to offset 9, the broker has offsets 0 to 8"):
        plan_batch(options(name, endingOffsets=f'{{"{name}": {{"0": 9, "1": 3}}}}'))


@pytest.mark.parametrize("fail", ["true", "false"])
def test_F27_a_start_among_open_transactions_is_not_data_loss(opened, options, stream, fail):
    name, _, _ = opened
    start = {"startingOffsets": f'{{"{name}": {{"0": 5, "1": 3}}}}', "failOnDataLoss": fail}
    assert planned(options(name, **start)) == {}
    committed = {"kafka.isolation.level": "read_committed"}
    running = stream(subscribe=name, **start, **committed)
    assert running.planner.initial() == {(name, 0): 5, (name, 1): 3}


def test_F27_a_task_whose_range_goes_past_an_open_transaction_names_it(opened, options):
    name, transactional_id, _ = opened
    for fail in (True, False):
        reader = range_reader(
            OffsetRange(name, 0, 0, 6), ["value"], options(name).client, fail_on_data_loss=fail, poll_timeout=0.3
        )
        with pytest.raises(OpenTransaction, match=transactional_id):
            list(reader)
        assert reader.position == 3


def test_F8_a_stream_with_an_end_by_time_reads_the_transactions_that_were_open(stream, topic, transaction, produce):
    name = topic()
    produce(name, [Rec(b"a", timestamp=NOW - 2 * HOUR)])
    ending = {"endingTimestamp": str(NOW - HOUR), "startingOffsets": "earliest"}
    committed = {"kafka.isolation.level": "read_committed"}
    with transaction(uuid.uuid4().hex) as send:
        send(name, [Rec(b"b", timestamp=NOW - 2 * HOUR)])
        running = stream(subscribe=name, **ending, **committed)
        assert running.run() == {(name, 0): [0]}
        assert not running.planner.finished
    deadline = time.monotonic() + DEADLINE
    while not running.planner.finished:
        assert time.monotonic() < deadline, "it does not end"
        running.trigger()
    assert {(name, 0): (1, running.state[name, 0])} in running.read
    assert running.state[name, 0] in (2, 3), "at the transaction's marker, or after it"
