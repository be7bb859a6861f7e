"""Requests, answers and waits, against a leader that answers as a test says."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace

import pytest

from penstock.errors import BrokerError, BrokerUnavailable, TransactionLost
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.error_codes import CODES
from penstock.wire.api.metadata import Broker, Leader, Metadata, Topic
from penstock.wire.producer import delivery as module
from penstock.wire.producer.delivery import Delivery
from penstock.wire.producer.identity import Identity, OpenTransaction
from penstock.wire.producer.written import ProducerMetrics
from penstock.wire.transport.connection import ConnectionLost
from support.configs import client_config, producer_settings
from support.encoded_batches import FakeEncoder

BROKER = Broker(1, "broker", 9092)
TRANSACTION = OpenTransaction("id", 7, 1, 2)


class FakeLeader:
    """A connection to the leader of all partitions. `codes` answers batch after batch; then all are written."""

    host, port, address, session_over, overdue_check = "broker", 9092, "broker:9092", False, None

    def __init__(self, *codes: str, throttle_ms: int = 0, version: int = 12) -> None:
        self.codes = deque(codes)
        self.throttle_ms = throttle_ms
        self.highest = version
        self.config = client_config(bootstrap=(("broker", 9092),))
        self.requests: list[list[TopicPartition]] = []
        self.most_in_flight = self._in_flight = 0
        self.silent = False
        """Whether no answer arrives."""
        self.next_batches: list = []

    @property
    def reusable(self) -> bool:
        return not self._in_flight

    def speaks(self, api, version):
        return version <= self.highest

    def version(self, api, at_most=None):
        return min(self.highest, at_most or self.highest)

    def has_input(self):
        return self._in_flight > 0 and not self.silent

    def ask(self, request, timeout):
        sent = list(self.next_batches)
        self.requests.append([tp for tp, _ in sent])
        self._in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self._in_flight)

        def answer(timeout):
            self._in_flight -= 1
            partitions = []
            for tp, _ in sent:
                code = self.codes.popleft() if self.codes else "NONE"
                if code == "lost":
                    raise ConnectionLost("cut")
                partitions.append(
                    SimpleNamespace(
                        index=tp.partition,
                        error_code=CODES[code],
                        base_offset=0,
                        error_message=None,
                        record_errors=(),
                    )
                )
            topic = SimpleNamespace(name="t", partition_responses=partitions)
            return SimpleNamespace(responses=[topic], throttle_time_ms=self.throttle_ms)

        return answer

    def close(self):
        self._in_flight = 0


@pytest.fixture
def delivered(monkeypatch):
    """`delivered(leader, partitions, batches)`: a Delivery after its flush, with all batches."""

    def run(leader, partitions=1, batches=1, transaction=None, silent=False, **settings):
        topic = Topic("t", None, False, {number: Leader(BROKER, 0) for number in range(partitions)})
        known = Metadata({1: BROKER}, {"t": topic})
        cluster = SimpleNamespace(
            config=leader.config,
            known=known,
            try_listing=lambda topics, timeout: (known, []),
            departed=lambda broker, led: {},
            unknown_topic_grace=1.0,
        )
        monkeypatch.setattr(module, "POOL", SimpleNamespace(acquire=lambda *_: leader, release=lambda _: None))
        identity = Identity(7, 1)
        made = Delivery(
            cluster, producer_settings(**settings), ProducerMetrics(), identity, transaction, lambda tps: None, {}
        )
        honest = made._request

        def request(connection, chosen):
            leader.next_batches = [(queue.tp, batch) for queue, batch in chosen]
            return honest(connection, chosen)

        made._request = request
        encoder = FakeEncoder((*identity, transaction is not None))
        leader.silent = silent
        for number in range(batches):
            made.add([encoder.batch("t", number % partitions, [b"%d" % number])])
        leader.silent = False
        made.flush()
        return made

    return run


def test_batches_of_several_partitions_share_requests(delivered):
    leader = FakeLeader()
    made = delivered(leader, partitions=4, batches=40, silent=True)
    assert made._metrics.rows == 40
    assert max(map(len, leader.requests)) == 4
    assert all(len(set(tps)) == len(tps) for tps in leader.requests), "one batch for each partition"


def test_W9_at_most_five_requests_are_in_flight(delivered):
    leader = FakeLeader()
    made = delivered(leader, partitions=8, batches=16, silent=True, max_request_size=1)
    assert leader.most_in_flight == 5
    assert made._metrics.requests == 16


@pytest.mark.parametrize("code", ["NOT_ENOUGH_REPLICAS", "REQUEST_TIMED_OUT", "NOT_LEADER_OR_FOLLOWER", "lost"])
def test_W8_retriable_failures_are_retried(delivered, code):
    leader = FakeLeader(code, code)
    leader.config = client_config(bootstrap=(("broker", 9092),), retry_backoff=0.001, retry_backoff_max=0.002)
    made = delivered(leader, batches=3)
    assert made._metrics.rows == 3
    assert made._metrics.retries >= 2


def test_W8_retries_end_at_the_delivery_timeout_with_their_history(delivered):
    leader = FakeLeader(*["NOT_ENOUGH_REPLICAS"] * 10_000)
    with pytest.raises(BrokerUnavailable, match=r"kafka\.delivery\.timeout\.ms") as caught:
        delivered(leader, delivery_timeout=0.5)
    assert "NOT_ENOUGH_REPLICAS" in caught.value.history[0]


def test_a_broker_that_throttles_gets_its_pause(delivered):
    made = delivered(FakeLeader(throttle_ms=40), batches=1)
    assert made._metrics.throttle_seconds == pytest.approx(0.04)


def test_an_old_broker_throttles_by_itself(delivered):
    made = delivered(FakeLeader(throttle_ms=40, version=5), batches=1)
    assert made._metrics.throttle_seconds == 0


def test_zstd_to_a_broker_that_does_not_know_it_is_an_error_that_says_so(delivered):
    with pytest.raises(BrokerError, match=r"does not know zstd.*kafka\.compression\.type"):
        delivered(FakeLeader(version=6), compression="zstd")


def test_W6_a_fenced_producer_is_a_lost_transaction(delivered):
    with pytest.raises(TransactionLost, match="writing to t-0: INVALID_PRODUCER_EPOCH"):
        delivered(FakeLeader("INVALID_PRODUCER_EPOCH"), transaction=TRANSACTION)


@pytest.mark.parametrize(("transaction", "error"), [(None, BrokerError), (TRANSACTION, TransactionLost)])
def test_a_gap_is_not_retried(delivered, transaction, error):
    with pytest.raises(error, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
        delivered(FakeLeader("OUT_OF_ORDER_SEQUENCE_NUMBER"), transaction=transaction)


def test_W9_a_leader_that_hangs_is_left_for_every_partition_that_waits_for_it(delivered):
    """Also for one whose request is being sent, and for one that has another leader by now."""
    made = delivered(FakeLeader(), partitions=2, batches=2)
    (line,) = made._leaders.lines.values()
    asked = []
    made._cluster.departed = lambda broker, led: asked.append(led) or {}
    first, second = made._queues.values()
    line.sending = [(first, None)]
    assert made._departed(line) is None
    assert asked == [{first.tp: first.leader}]
    line.sending = [(second, None)]
    second.leader = Leader(Broker(2, "other", 9092), 1)
    assert made._departed(line) == "it does not lead t-1 any more"
    second.leader = None
    assert made._departed(line) == "it does not lead t-1 any more"
