"""How the reader handles answers that a healthy broker rarely gives, from a scripted broker."""

import logging
import threading
from types import SimpleNamespace

import pytest

import penstock.reader.range_reader as reader_module
from hostile.record_batches import chunk, counted
from penstock.errors import BrokerUnavailable, CorruptBatch, DataLoss
from penstock.model.offset_range import OffsetRange
from penstock.reader.partition_leader import PartitionLeader
from penstock.wire.api.error_codes import RetriableError
from penstock.wire.api.fetch import FetchedPartition, FetchResponse
from penstock.wire.cluster import Broker
from penstock.wire.cluster import Leader as KnownLeader
from penstock.wire.transport.connection import ConnectionLost
from penstock.wire.transport.retry import Attempts
from support.configs import client_config
from support.own_logs import own_records
from support.reading import range_reader

CONFIG = client_config(bootstrap=(("localhost", 1),), retry_backoff=0.001, retry_backoff_max=0.001)


def answer(records=b"", error_code=0, high_watermark=1000, throttle=0.0, preferred=-1):
    fetched = FetchedPartition("t", 0, error_code, high_watermark, high_watermark, [], preferred, memoryview(records))
    return FetchResponse(throttle, 0, [fetched])


class Connection:
    address = "scripted"
    session_over = False
    last_used = float("inf")

    def abort(self):
        pass


class Pool:
    def acquire(self, *_):
        return Connection()

    def release(self, _):
        pass

    def acquire_buffer(self, size):
        return bytearray(size)

    def release_buffer(self, _):
        pass


class Leader:
    """Knows one leader; `known` are the replicas that may be recommended."""

    epoch = leader_epoch = 0

    def __init__(self, known=(), local_begin=0, cut=None):
        self.known = known
        self._cut = cut
        self.on_follower = False
        self.cluster = self
        self._local_begin = local_begin
        self.forgotten = 0

    def broker(self):
        return Broker(1, "localhost", 1)

    def find_truncation(self):
        cut, self._cut = self._cut, None
        return cut

    def forget(self):
        self.forgotten += 1
        self.on_follower = False

    def prefer(self, node):
        if node not in self.known:
            raise RetriableError(f"no replica {node}")
        self.on_follower = True

    def back_to_leader(self):
        self.on_follower = False

    def local_begin(self, _):
        return self._local_begin

    def abort(self):
        pass

    def overdue_check(self):
        return None


@pytest.fixture
def scripted(monkeypatch):
    """`scripted(answers, leader)` reads offsets 0 to 1000 from a broker that gives these answers, the last forever."""
    monkeypatch.setattr(reader_module, "POOL", Pool())

    def make(answers, leader=None, **options):
        left = list(answers)

        class Fetch:
            def __init__(self, *_):
                self.pending = False

            def ask(self, *_, **__):
                self.pending = True

            def answer(self, _, timeout):
                self.pending = False
                make.shortest_wait = min(make.shortest_wait, timeout)
                given = left.pop(0) if len(left) > 1 else left[0]
                return given() if callable(given) else given

        monkeypatch.setattr(reader_module, "PartitionFetch", Fetch)
        reader = range_reader(OffsetRange("t", 0, 0, 1000), ["offset"], CONFIG, **options)
        reader._leader = leader or Leader()
        return reader

    make.shortest_wait = float("inf")
    return make


def test_a_recommended_replica_that_nobody_knows_is_never_taken_for_an_empty_log(scripted):
    reader = scripted([lambda: answer(preferred=7)], poll_timeout=0.2)
    with pytest.raises(BrokerUnavailable, match="no replica 7"):
        list(reader)
    assert reader.position == 0


def test_a_follower_that_only_errs_and_a_leader_that_only_recommends_it_end_some_time(scripted):
    leader = Leader(known=(7,))

    def ping_pong():
        return answer(error_code=75) if leader.on_follower else answer(preferred=7)

    with pytest.raises(BrokerUnavailable, match="recommended replica answered with error 75"):
        list(scripted([ping_pong], leader, poll_timeout=0.2))


def test_a_client_that_is_throttled_for_ever_ends_some_time(scripted):
    with pytest.raises(BrokerUnavailable, match="throttled for"):
        list(scripted([lambda: FetchResponse(0.001, 0, [])], poll_timeout=0.2))
    with pytest.raises(BrokerUnavailable, match="throttled for"):
        list(scripted([lambda: FetchResponse(10_000_000.0, 0, [])], poll_timeout=0.2))


def test_a_gap_up_to_the_end_is_believed_after_a_while_and_said(scripted, monkeypatch, caplog):
    monkeypatch.setattr(reader_module, "EMPTY_SECONDS", 0.1)
    with caplog.at_level(logging.WARNING):
        assert list(scripted([lambda: answer()])) == []
    assert "no records from offset 0 on (1000 offsets)" in caplog.text


def test_an_empty_answer_is_not_believed_while_the_data_may_lie_in_tiered_storage(scripted, monkeypatch):
    monkeypatch.setattr(reader_module, "EMPTY_SECONDS", 0.0)
    reader = scripted([lambda: answer()], Leader(local_begin=500), poll_timeout=0.1)
    with pytest.raises(BrokerUnavailable, match="tiered storage has not answered"):
        list(reader)
    assert reader.position == 0


@pytest.mark.parametrize("fails", [True, False])
def test_F27_a_log_that_ends_before_the_range_does_is_data_loss(scripted, fails):
    reader = scripted([lambda: answer(high_watermark=0)], poll_timeout=0.1, fail_on_data_loss=fails)
    if fails:
        with pytest.raises(DataLoss, match="the broker has offsets up to 0"):
            list(reader)
    else:
        assert list(reader) == []
    assert scripted.shortest_wait >= CONFIG.fetch_max_wait, "a broker may take that long to say that there is nothing"


def test_a_first_batch_that_is_never_whole_is_corrupt(scripted, caplog):
    half = (0).to_bytes(8) + (100_000).to_bytes(4) + bytes(4) + b"\x02" + bytes(60)
    with pytest.raises(CorruptBatch, match="the first batch is incomplete"):
        list(scripted([lambda: answer(half)]))
    assert "fetching it again" in caplog.text


@pytest.mark.parametrize("code", [-1, 3, 5, 6, 9, 56, 74, 75, 78, 100])
def test_errors_that_may_pass_are_retried(scripted, code):
    leader = Leader()
    with pytest.raises(BrokerUnavailable):
        list(scripted([lambda: answer(error_code=code)], leader, poll_timeout=0.05))
    assert leader.forgotten >= 1


def test_a_frame_that_a_traceback_holds_does_not_pin_the_buffer(scripted):
    """An exception that was handled inside keeps its callers' frames, and with them the reader's variables."""
    buffers, kept = [], []

    class Recording(Leader):
        def broker(self):
            try:
                raise OSError("handled here")
            except OSError as error:
                kept.append(error)
            return super().broker()

    def from_buffer():
        view = memoryview(buffers[-1])[:10]
        return FetchResponse(0.0, 0, [FetchedPartition("t", 0, 3, 1000, 1000, [], -1, view)])

    reader = scripted([from_buffer], Recording(), poll_timeout=0.05)
    reader_module.POOL.acquire_buffer = lambda size: buffers.append(bytearray(size)) or buffers[-1]
    with pytest.raises(BrokerUnavailable):
        list(reader)
    assert kept
    for buffer in buffers:
        buffer.extend(b"more")


# --- healing --------------------------------------------------------------------------------------------------------


@pytest.fixture
def pauses(monkeypatch):
    """The pauses between tries, as they are made."""
    made = []
    honest = Attempts.back_off
    here = threading.current_thread()

    def rest(self):
        if threading.current_thread() is here:
            made.append(self.what)
        honest(self)

    monkeypatch.setattr(Attempts, "back_off", rest)
    return made


def whole():
    return answer(chunk(*(counted(at, 100) for at in range(0, 1000, 100))))


def lost():
    raise ConnectionLost("scripted: closed by the broker")


def offsets(reader):
    return [offset for batch in reader for offset in batch.column("offset").to_pylist()]


@pytest.mark.parametrize("stale", [1, 5])
def test_kept_connections_that_broke_meanwhile_are_replaced_in_silence(scripted, pauses, monkeypatch, caplog, stale):
    monkeypatch.setattr(Connection, "last_used", 0.0)
    leader = Leader()
    with caplog.at_level(logging.WARNING):
        assert offsets(scripted([lost] * stale + [whole], leader)) == list(range(1000))
    assert (pauses, leader.forgotten, own_records(caplog)) == ([], 0, [])


def test_a_new_connection_that_breaks_sends_us_to_the_cluster_at_once_and_then_with_pauses(scripted, pauses):
    leader = Leader()
    assert offsets(scripted([lost, whole], leader)) == list(range(1000))
    assert (len(pauses), leader.forgotten) == (0, 1)
    assert offsets(scripted([lost, lost, lost, whole], leader)) == list(range(1000))
    assert (len(pauses), leader.forgotten) == (2, 4)


def test_a_kept_connection_that_has_answered_is_a_connection_like_any_other(scripted, pauses, monkeypatch):
    monkeypatch.setattr(Connection, "last_used", 0.0)
    leader = Leader()
    half = answer(chunk(*(counted(at, 100) for at in range(0, 500, 100))))
    assert offsets(scripted([half, lost, whole_from(500)], leader)) == list(range(1000))
    assert leader.forgotten == 1


def whole_from(start):
    return lambda: answer(chunk(*(counted(at, 100) for at in range(start, 1000, 100))))


def test_a_broker_that_stays_away_is_an_error_even_if_every_connection_was_kept(scripted, monkeypatch):
    monkeypatch.setattr(Connection, "last_used", 0.0)
    with pytest.raises(BrokerUnavailable, match="closed by the broker"):
        list(scripted([lost], poll_timeout=0.1))


# --- losses ---------------------------------------------------------------------------------------------------------


def test_F27_a_log_that_an_election_has_cut_is_data_loss(scripted):
    with pytest.raises(
        DataLoss, match=r"wanted offsets 700 to 1000 .* an unclean leader election has truncated the log"
    ):
        list(scripted([whole], Leader(cut=700)))


class Epochs:
    """A cluster that knows where epoch 4 ends, and counts how often it is asked."""

    def __init__(self, end):
        self.end = end
        self.asked = []

    def epoch_ends(self, epochs):
        self.asked.append(dict(epochs))
        return dict.fromkeys(epochs, (4, self.end))


@pytest.mark.parametrize(
    ("planned", "now", "end", "cut"),
    [
        (4, 4, 700, None),
        (4, 6, 700, 700),
        (4, 6, 0, 0),
        (4, 6, 999, 999),
        (4, 6, 1000, None),
        (4, 6, -1, None),
        (-1, 6, 700, None),
        (4, -1, 700, None),
    ],
)
def test_F27_a_log_is_cut_where_the_planned_epoch_ends_before_the_range(planned, now, end, cut):
    r = OffsetRange("t", 0, 0, 1000, host="localhost", port=1, leader_epoch=planned)
    leader = PartitionLeader(r, CONFIG, lambda _: False)
    leader.cluster = Epochs(end)
    assert leader.find_truncation() is None
    assert leader.cluster.asked == [], "the leader is still the planned one"
    leader._leader = KnownLeader(Broker(2, "localhost", 2), now)
    assert leader.find_truncation() == cut
    assert leader.find_truncation() is None, "it is said once"
    assert leader.cluster.asked == ([{r.topic_partition: 4}] if planned == 4 and now == 6 else [])
    leader._leader = KnownLeader(Broker(3, "localhost", 3), now + 1)
    if planned == 4 and now == 6:
        assert leader.find_truncation() == cut, "the next election may have cut again"


def test_F27_without_failing_the_rest_of_a_cut_log_is_read_and_the_loss_counted(scripted, caplog):
    reader = scripted([whole], Leader(cut=700), fail_on_data_loss=False)
    assert offsets(reader) == list(range(1000))
    assert caplog.text.count("Reading on") == 1
    assert reader.lost == (700, 1000)


def test_F27_a_cut_log_that_stays_short_ends_its_range_soon(scripted, monkeypatch, caplog):
    monkeypatch.setattr(reader_module, "EMPTY_SECONDS", 0.1)
    short = answer(chunk(*(counted(at, 100) for at in range(0, 800, 100))), high_watermark=800)
    answers = [short, lambda: answer(high_watermark=800)]
    # Had the election not been seen, this would be waited for until the poll's time-out.
    reader = scripted(answers, Leader(cut=700), fail_on_data_loss=False, poll_timeout=250.0)
    assert offsets(reader) == list(range(800))
    assert reader.lost == (700, 1000)
    assert caplog.text.count("Reading on") == 1, "one range, one warning"


def test_a_silent_broker_is_doubted_for_what_it_is_read_as():
    """A leader by its epoch, a follower by whether the cluster lists it: that it does not lead is known."""
    asked = []
    r = OffsetRange("t", 0, 0, 10, host="h1", port=1, leader_epoch=4)
    leader = PartitionLeader(r, CONFIG, lambda _: False)
    leader.cluster = SimpleNamespace(
        departed=lambda broker, read_from: asked.append((broker, read_from)) or {r.topic_partition: "why"},
        metadata=lambda topics: SimpleNamespace(brokers={2: follower}),
    )
    follower, known = Broker(2, "h2", 1), KnownLeader(Broker(-1, "h1", 1), 4)
    assert leader.overdue_check() == "why"
    leader.prefer(2)
    leader.overdue_check()
    leader.forget()
    assert leader.overdue_check() is None
    assert asked == [(known.broker, {r.topic_partition: known}), (follower, {r.topic_partition: None})]
