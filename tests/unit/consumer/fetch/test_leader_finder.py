"""The leader finder on a simulated cluster: which fetcher gets a cursor, and at which offset (H10, H12, H13)."""

import time
import uuid

import pytest

import penstock.consumer.fetch.leader_finder as finder_module
from fixtures.consumer import eventually
from penstock.consumer.fetch.cursor import Cursor
from penstock.consumer.fetch.fetch_plan import HeldCursor
from penstock.consumer.fetch.leader_finder import LeaderFinder
from penstock.consumer.fetch.position_check import ResetRule
from penstock.consumer.stream_factory import make_stream
from penstock.errors import AuthorizationFailed, BrokerUnavailable, ConsumerTimeout, NoGroupOffset, OffsetOutOfRange
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.metadata import Broker, Leader, Metadata, Topic, departed
from support.configs import client_config

CONFIG = client_config(bootstrap=(("localhost", 1),))
ONE, TWO, THREE = (Broker(n, f"h{n}", 9092) for n in (1, 2, 3))
A, B = TopicPartition("t", 0), TopicPartition("t", 1)


class Fetcher:
    """Holds cursors and fetches nothing."""

    def __init__(self, broker, number, config, owner):
        self.broker, self.number, self.held, self.ended = broker, number, {}, False

    def add(self, cursors):
        self.held.update(cursors)
        return not self.ended

    def remove(self, cursors):
        for cursor in cursors:
            self.held.pop(cursor, None)

    def cursors(self):
        return [HeldCursor(cursor, epoch) for cursor, epoch in self.held.items()]

    def remove_if_held(self, held):
        return self.held.pop(held.cursor, None) is not None

    def end(self, unless_busy=False):
        self.ended = self.ended or not (unless_busy and self.held)
        return self.ended

    def start(self):
        pass

    def wake(self):
        pass

    def join(self, timeout):
        return True

    alive = False


class Cluster:
    """The cluster. `leaders`: by partition, None without a leader; `silent`: partitions whose leader does not
    answer."""

    def __init__(self):
        self.brokers = {1: ONE, 2: TWO, 3: THREE}
        self.leaders = {0: Leader(ONE, 5), 1: Leader(TWO, 5)}
        self.topic_id = uuid.UUID(int=1)
        self.begins, self.ends, self.epochs = {A: 10, B: 10}, {A: 100, B: 100}, {}
        self.silent = set()
        self.asked = 0
        self.problem = None

    def listing(self, topics):
        self.asked += 1
        if self.problem is not None:
            raise self.problem
        topic = Topic("t", self.topic_id, False, self.leaders)
        known = {"t": topic} if "t" in topics else {}
        return Metadata(self.brokers, known), [name for name in topics if name != "t"]

    def _of(self, found, partitions):
        answered = {tp: found[tp] for tp in partitions if tp not in self.silent}
        if not answered:
            raise BrokerUnavailable("asking", ["no answer"])
        return answered

    def reachable_ends(self, partitions, wait_for):
        return self._of(self.ends, partitions)

    def begin(self, partitions, wait_for=None):
        return self._of(self.begins, partitions)

    def epoch_ends(self, epochs, wait_for=None):
        return self._of({tp: (epoch, self.epochs[tp]) for tp, epoch in epochs.items()}, epochs)

    def departed(self, broker, read_from):
        metadata, _ = self.listing(["t"])
        return departed(broker, read_from, metadata)

    def abort(self):
        pass


class Finding:
    def __init__(self, reset="earliest"):
        self.made, self.broken, self.resets = [], [], []
        self.cluster = Cluster()
        self.stream = make_stream("me-0", CONFIG, queued_chunks=2, timeout=0.0)
        self.reader = self.stream.reader
        self.finder = LeaderFinder(
            CONFIG,
            ResetRule("g", reset),
            fetchers=1,
            backoff=0.02,
            on_error=self.broken.append,
            on_reset=self.resets.append,
        )
        self.finder._cluster = self.finder._positions._cluster = self.cluster
        self.finder.start()

    def cursor(self, tp=A, position=None, epoch=-1):
        return Cursor(tp, self.reader, position, epoch)

    def holder(self, cursor):
        """The fetcher that has a cursor."""
        return next((fetcher for fetcher in self.made if cursor in fetcher.held), None)

    def found(self, *cursors):
        """Wait until all of these have a fetcher."""
        deadline = time.monotonic() + 60
        while not all(self.holder(cursor) for cursor in cursors):
            assert time.monotonic() < deadline, "no fetcher was found"
            time.sleep(0.005)

    def gone_back(self, cursor):
        """As a fetcher that is done with a cursor."""
        self.holder(cursor).held.pop(cursor)


@pytest.fixture
def finding(monkeypatch):
    made = []

    def make(reset="earliest"):
        found = Finding(reset)
        made.append(found)
        monkeypatch.setattr(finder_module, "Fetcher", lambda *a: found.made.append(Fetcher(*a)) or found.made[-1])
        return found

    yield make
    for found in made:
        found.finder.close(60)


def test_H9_each_cursor_goes_to_its_leaders_fetcher_and_idle_fetchers_end(finding):
    it = finding()
    a, b = it.cursor(A, 20), it.cursor(B, 20)
    it.finder.add([a, b])
    it.found(a, b)
    assert (it.holder(a).broker, it.holder(b).broker) == (ONE, TWO)
    assert it.holder(a).held[a] == 5, "with the leader's epoch"
    former = it.holder(b)
    it.finder.remove([b])
    assert former.ended


def test_H10_a_partition_without_a_leader_waits_for_one(finding):
    it = finding()
    it.cluster.leaders[0] = None
    a, b = it.cursor(A, 20), it.cursor(B, 20)
    it.finder.add([a, b])
    it.found(b)
    assert it.holder(a) is None
    it.cluster.epochs[A] = 100  # first: it asks again and again
    it.cluster.leaders[0] = Leader(THREE, 6)
    it.found(a)
    assert it.holder(a).broker == THREE


def test_H12_a_cursor_without_a_position_gets_one_by_the_rule(finding):
    for reset, at in (("earliest", 10), ("latest", 100)):
        it = finding(reset)
        a = it.cursor()
        it.finder.add([a])
        it.found(a)
        assert (a.consumed, a.fetched) == (at, at)
        assert it.resets == [], "a start is not a reset"


def test_H12_out_of_range_is_reset_by_the_rule_and_counted(finding):
    it = finding()
    a = it.cursor(A, 3)
    it.finder.add([a])
    it.found(a)
    it.gone_back(a)
    it.finder.out_of_range(a, 3)
    it.found(a)
    assert (a.consumed, a.fetched, it.resets) == (10, 10, [a])
    it.gone_back(a)
    it.finder.out_of_range(a, 10)
    it.found(a)
    assert (a.consumed, it.resets) == (10, [a]), "it is in range: the broker has thought better of it"


@pytest.mark.parametrize(("position", "error"), [(None, NoGroupOffset), (3, OffsetOutOfRange)])
def test_H12_with_reset_none_the_stream_raises_and_a_seek_continues(finding, position, error):
    it = finding("none")
    a = it.cursor(A, position)
    a.lost = position is not None
    it.finder.add([a])
    it.found(a)
    with pytest.raises(error):
        next(it.stream)
    assert a.failed
    it.reader.move(a, 50)
    assert (a.failed, a.lost, a.consumed) == (False, False, 50)


def test_H13_a_leader_that_does_not_answer_delays_no_other_partition(finding):
    it = finding()
    it.cluster.silent = {B}
    a, b = it.cursor(A), it.cursor(B)
    it.finder.add([a, b])
    it.found(a)
    assert it.holder(b) is None
    it.cluster.silent = set()
    it.found(b)


@pytest.mark.parametrize("silent", [{"position": None}, {"position": 50, "epoch": 4}], ids=["no-position", "old-epoch"])
def test_H13_cursors_that_need_no_offsets_do_not_wait_for_unanswered_ones(finding, silent):
    it = finding()
    it.cluster.silent = {B}
    it.cluster.epochs[B] = 100
    a, b = it.cursor(A, 20), it.cursor(B, **silent)
    it.finder.add([a, b])
    it.found(a)
    assert it.holder(b) is None
    it.cluster.silent = set()
    it.found(b)


def test_the_finder_waits_while_no_broker_answers(finding, caplog):
    it = finding()
    it.cluster.problem = BrokerUnavailable("asking", ["refused"])
    a = it.cursor(A, 20)
    it.finder.add([a])
    deadline = time.monotonic() + 60
    while it.cluster.asked < 3 and time.monotonic() < deadline:
        time.sleep(0.005)
    assert it.cluster.asked >= 3
    assert "not found yet" in caplog.text
    it.cluster.problem = None
    it.found(a)
    assert not it.broken


def test_an_authorization_error_reaches_the_streams_and_is_retried_after_a_backoff(finding):
    it = finding()
    it.cluster.problem = AuthorizationFailed("no")
    it.finder.add([it.cursor(A, 20)])
    deadline = time.monotonic() + 60
    while not it.broken and time.monotonic() < deadline:
        time.sleep(0.005)
    time.sleep(0.2)
    assert (len(it.broken), it.cluster.asked) == (1, 1)


def test_a_deleted_topic_does_not_delay_the_others(finding, caplog):
    it = finding()
    gone, a = it.cursor(TopicPartition("gone", 0), 5), it.cursor(A, 20)
    it.finder.add([gone, a])
    it.found(a)
    assert it.holder(gone) is None
    assert "'gone'" in caplog.text


def test_a_recreated_topic_is_read_by_the_reset_rule(finding):
    it = finding()
    a = it.cursor(A, 50)
    it.finder.add([a])
    it.found(a)
    a.committed = 10
    it.cluster.topic_id = uuid.UUID(int=2)
    it.gone_back(a)
    it.finder.leaderless([a], "unknown topic id")
    it.found(a)
    assert (a.consumed, a.topic_id) == (10, uuid.UUID(int=2))
    assert a.committed is None, "brokers delete what groups have committed for a topic along with it"


def test_an_unclean_election_moves_the_cursor_back_to_where_the_logs_differ(finding):
    it = finding()
    a, b = it.cursor(A, 50, epoch=4), it.cursor(B, 50, epoch=4)
    it.cluster.epochs = {A: 30, B: 70}
    it.finder.add([a, b])
    it.found(a, b)
    assert (a.consumed, a.fetched) == (30, 30)
    assert (b.consumed, b.epoch) == (50, 5), "what it has read is in the new leader's log"
    assert it.resets == [a]


def test_a_seek_takes_precedence_over_an_old_epoch(finding):
    it = finding()
    a = it.cursor(A, 50, epoch=4)
    it.cluster.epochs = {A: 60}
    it.reader.move(a, 80)
    it.finder.add([a])
    it.found(a)
    assert a.consumed == 80


def test_H8_a_cursor_revoked_while_its_fetcher_reports_it_does_not_come_back(finding):
    it = finding()
    a = it.cursor(A, 3)
    it.finder.add([a])
    it.found(a)
    it.gone_back(a)
    it.finder.remove([a])
    it.reader.revoke(a)
    it.finder.out_of_range(a, 3)
    it.finder.leaderless([a], "the broker is gone")
    it.finder.preferred(a, 3)
    it.finder.add([a])
    marker = it.cursor(B, 20)
    it.finder.add([marker])
    it.found(marker)
    assert it.holder(a) is None
    with pytest.raises(ConsumerTimeout):
        next(it.stream)


def test_a_recommended_replica_is_read_without_an_epoch_and_its_out_of_range_answer_does_not_count(finding):
    it = finding()
    a = it.cursor(A, 20)
    it.finder.add([a])
    it.found(a)
    it.gone_back(a)
    it.finder.preferred(a, 3)
    it.found(a)
    assert it.holder(a).broker == THREE
    assert it.holder(a).held[a] == -1
    it.gone_back(a)
    it.finder.out_of_range(a, 20)
    assert not a.lost, "a follower may lag"
    it.found(a)
    assert it.holder(a).broker == ONE


def test_an_unknown_recommended_replica_does_not_cause_endless_lookups(finding):
    it = finding()
    a = it.cursor(A, 20)
    it.finder.add([a])
    deadline = time.monotonic() + 0.5
    while time.monotonic() < deadline:
        if it.holder(a) is not None:
            it.gone_back(a)
            it.finder.preferred(a, 77)
        time.sleep(0.001)
    assert it.cluster.asked < 40, "0.5 s at a back-off of 0.02 s"


def test_closing_ends_the_thread_whatever_it_waits_for(finding):
    it = finding()
    it.cluster.leaders[0] = None
    it.finder.add([it.cursor(A, 20)])
    it.finder.close(60)
    assert not it.finder._thread.is_alive()


def test_H13_partitions_of_a_broker_that_does_not_answer_are_read_from_the_new_leader(finding):
    it = finding()
    it.cluster.leaders[1] = Leader(ONE, 5)
    a, b = it.cursor(A, 20), it.cursor(B, 20)
    it.finder.add([a, b])
    it.found(a, b)
    silent = it.holder(a)
    asked = it.cluster.asked
    it.finder.overdue(silent)
    eventually(lambda: it.cluster.asked > asked, "a question to the others")
    assert silent.held.keys() == {a, b}, "it still leads them"
    it.cluster.leaders = {0: Leader(THREE, 6), 1: None}
    it.finder.overdue(silent)
    eventually(lambda: it.holder(a) not in (silent, None), "another fetcher")
    assert it.holder(a).broker == THREE
    assert (silent.held.keys(), silent.ended) == ({b}, False), "the other one has no other leader"
    it.cluster.leaders[1] = Leader(TWO, 6)
    it.finder.overdue(silent)
    eventually(lambda: silent.ended, "the end of the silent one, which nothing is left to")
    it.found(b)
    assert it.holder(b).broker == TWO


def test_H10_a_follower_that_does_not_answer_is_left_when_it_is_gone_not_because_it_does_not_lead(finding):
    it = finding()
    a = it.cursor(A, 20)
    it.finder.add([a])
    it.found(a)
    it.gone_back(a)
    it.finder.preferred(a, 3)
    it.found(a)
    follower = it.holder(a)
    assert follower.broker == THREE
    asked = it.cluster.asked
    it.finder.overdue(follower)
    eventually(lambda: it.cluster.asked > asked, "a question to the others")
    assert it.holder(a) is follower
    it.cluster.brokers = {1: ONE, 2: TWO}
    it.finder.overdue(follower)
    eventually(lambda: it.holder(a) not in (follower, None), "another fetcher")
    assert it.holder(a).broker == ONE
