"""Which brokers are asked: those that answer, refuse or hang, with a pool of plain values."""

import socket
import threading

import pytest

import penstock.wire.brokers as brokers_module
import penstock.wire.transport.broker_wait as wait_module
from penstock.errors import AuthorizationFailed, BrokerUnavailable
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.error_codes import CODES, RebootstrapRequired, RetriableError, check
from penstock.wire.api.metadata import Broker, Leader, Metadata, Topic, departed
from penstock.wire.brokers import Brokers
from penstock.wire.transport.broker_wait import BrokerWait, WaitEnded
from penstock.wire.transport.connection import BrokerSilent, ConnectionLost
from penstock.wire.transport.retry import Interrupted
from penstock.wire.transport.security import Security
from support.configs import client_config

ONE, TWO, THREE = (Broker(n, f"h{n}", 9092) for n in (1, 2, 3))
A, B = TopicPartition("t", 0), TopicPartition("t", 1)


class Clock:
    now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


class Connection:
    def __init__(self, pool, host, port, timeout, overdue_check):
        self.host, self.port = host, port
        self._pool, self.overdue_check = pool, overdue_check

    def answer(self, timeout):
        """The broker's answer, after the time that it takes; or the error that Connection raises for silence."""
        clock, takes = self._pool.clock, self._pool.takes.get(self.host, 0.0)
        wait = BrokerWait(clock.now + timeout, self.overdue_check)
        due = clock.now + takes
        try:
            while clock.now < due:
                clock.now += min(wait.seconds_left(), due - clock.now)
        except WaitEnded as error:
            raise BrokerSilent(str(error)) from error
        return self.host


class Pool:
    """`takes`: seconds until a broker answers, by host; `refused`: hosts where nothing listens."""

    def __init__(self, clock):
        self.clock, self.takes, self.refused, self.asked = clock, {}, set(), []
        self.forgotten = 0

    def acquire(self, config, host, port, timeout, overdue_check=None):
        self.asked.append(host)
        if host in self.refused:
            raise ConnectionLost(f"{host}: refused")
        return Connection(self, host, port, timeout, overdue_check)

    def release(self, connection):
        pass

    def forget_cluster(self, config):
        self.forgotten += 1


@pytest.fixture
def pool(monkeypatch):
    clock = Clock()
    for module in (brokers_module, wait_module, "penstock.wire.transport.retry"):
        target = module if isinstance(module, str) else module.__name__
        monkeypatch.setattr(f"{target}.time", clock)
    made = Pool(clock)
    monkeypatch.setattr(brokers_module, "POOL", made)
    monkeypatch.setattr(brokers_module, "_LEARNED", {})
    monkeypatch.setattr(brokers_module.random, "shuffle", lambda addresses: None)
    return made


def make(bootstrap=("h1", "h2", "h3"), **more):
    config = client_config(bootstrap=tuple((host, 9092) for host in bootstrap), **more)
    return Brokers(config, lambda seconds: False)


def ask_any(brokers, attempts=None):
    return brokers.ask_any(
        attempts or brokers.attempts("asking"), lambda connection, timeout: connection.answer(timeout)
    )


def ask_others(brokers, than, ask=lambda connection, timeout: connection.answer(timeout)):
    return brokers.ask_others(than.address, "asking others", ask)


class TestAny:
    def test_a_broker_that_hangs_is_left_for_the_next_one_and_asked_last_for_a_while(self, pool):
        pool.takes["h1"] = 1e9
        brokers = make()
        assert ask_any(brokers) == "h2"
        assert pool.clock.now == wait_module.OVERDUE_SECONDS
        pool.asked.clear()
        assert ask_any(brokers) == "h2"
        assert pool.asked == ["h2"]

    def test_brokers_that_are_all_slow_get_more_time_with_every_try(self, pool):
        pool.takes = dict.fromkeys(("h1", "h2", "h3"), 7.0)
        brokers = make()
        attempts = brokers.attempts("asking")
        assert brokers.retry(attempts, lambda: ask_any(brokers, attempts)) in ("h1", "h2", "h3")
        assert pool.clock.now < attempts.timeout

    def test_the_only_broker_has_the_whole_time(self, pool):
        pool.takes["h1"] = 29.0
        assert ask_any(make(["h1"])) == "h1"

    def test_one_that_refuses_is_left_at_once(self, pool):
        pool.refused = {"h1", "h2"}
        assert ask_any(make()) == "h3"
        assert pool.clock.now == 0

    def test_brokers_that_another_client_of_this_process_has_learned_are_asked_last(self, pool):
        """A member's heartbeats ask for no metadata, and its only bootstrap server may be down."""
        make(["h1"]).learn([ONE, TWO])
        assert ask_any(make(["h1"])) == "h1"
        pool.refused = {"h1"}
        assert ask_any(make(["h1"])) == "h2"
        with pytest.raises(ConnectionLost, match="h1"):
            ask_any(make(["h1"], security=Security("SASL_PLAINTEXT")))

    def test_the_last_failure_is_told(self, pool):
        pool.refused = {"h1", "h2", "h3"}
        with pytest.raises(ConnectionLost, match="h3"):
            ask_any(make())


class TestRebootstrap:
    """KIP-899 and KIP-1102."""

    def known(self, **more):
        brokers = make(["boot"], **more)
        brokers.learn([ONE, TWO, THREE])
        return brokers

    def test_the_bootstrap_servers_are_asked_right_after_known_brokers_that_refuse(self, pool):
        pool.refused = {"h1", "h2", "h3"}
        assert ask_any(self.known()) == "boot"
        assert pool.clock.now == 0

    def test_known_brokers_that_hang_are_forgotten_after_the_trigger_time(self, pool):
        pool.takes = dict.fromkeys(("h1", "h2", "h3"), 1e9)
        brokers = self.known(rebootstrap_after=5.0)
        assert ask_any(brokers) == "boot"
        assert pool.asked == ["h1", "h2", "h3", "boot"]
        assert pool.clock.now <= 5.0 + wait_module.OVERDUE_SECONDS
        assert pool.forgotten == 1, "and names are resolved again"
        pool.asked.clear()
        assert ask_any(brokers) == "boot"
        assert ask_any(make(["boot"])) == "boot"
        assert pool.asked == ["boot", "boot"], "nor does another client of this process ask them"

    def test_the_time_counts_over_several_questions(self, pool):
        pool.refused = {"boot", "h1", "h2", "h3"}
        brokers = self.known(rebootstrap_after=5.0)
        with pytest.raises(ConnectionLost):
            ask_any(brokers)
        assert not pool.forgotten
        pool.clock.now += 6.0
        pool.asked.clear()
        with pytest.raises(ConnectionLost, match="boot"):
            ask_any(brokers)
        assert pool.forgotten == 1
        assert pool.asked == ["h1", "boot"]

    def test_an_answer_restarts_the_time(self, pool):
        pool.refused = {"h1"}
        brokers = self.known(rebootstrap_after=5.0)
        for _ in range(3):
            assert ask_any(brokers) == "h2"
            pool.clock.now += 6.0
        assert not pool.forgotten

    def test_with_strategy_none_only_known_brokers_are_asked(self, pool):
        pool.refused = {"h1", "h2", "h3"}
        brokers = self.known(rebootstrap=False, rebootstrap_after=0.0)
        for _ in range(2):
            with pytest.raises(ConnectionLost):
                ask_any(brokers)
        assert set(pool.asked) == {"h1", "h2", "h3"}
        assert ask_any(make(["h4"], rebootstrap=False)) == "h4", "nothing is known yet"

    @pytest.mark.parametrize("strategy", [True, False])
    def test_a_broker_that_demands_it_sends_the_client_to_the_bootstrap_servers(self, pool, strategy):
        def ask(connection, timeout):
            if connection.host != "boot":
                check(CODES["REBOOTSTRAP_REQUIRED"], "topics")
            return connection.host

        brokers = self.known(rebootstrap=strategy)
        if strategy:
            assert brokers.ask_any(brokers.attempts("asking"), ask) == "boot"
            assert pool.asked == ["h1", "boot"]
        else:
            with pytest.raises(RetriableError, match="REBOOTSTRAP_REQUIRED"):
                brokers.ask_any(brokers.attempts("asking"), ask)

    def test_bootstrap_servers_that_demand_it_are_not_asked_for_ever(self, pool):
        brokers = self.known()
        with pytest.raises(RebootstrapRequired):
            brokers.ask_any(brokers.attempts("asking"), lambda connection, timeout: check(129, "topics"))
        assert pool.asked == ["h1", "boot"]

    def test_also_an_overdue_answer_may_show_it(self, pool):
        brokers = self.known()
        assert ask_others(brokers, ONE, lambda connection, timeout: check(129, "topics")) is None
        pool.asked.clear()
        assert ask_any(brokers) == "boot"


def test_a_broker_that_was_overdue_and_has_answered_is_asked_like_all_others(pool):
    brokers = make()
    brokers.learn([ONE, TWO])
    pool.takes["h1"] = 3.0

    def overdue_check(broker, question):
        assert ask_others(brokers, broker) == "h2"

    asked = {"ask": lambda connection, question: connection.answer, "attempts": brokers.attempts("asking")}
    assert list(brokers.ask_each({ONE: None}, **asked, overdue_check=overdue_check)) == ["h1"]
    pool.takes.clear()
    assert list(brokers.ask_each({ONE: None}, **asked, optional=[ONE])) == ["h1"]


class TestOthers:
    def test_the_broker_that_is_waited_for_is_not_asked_about_itself(self, pool):
        brokers = make()
        brokers.learn([ONE, TWO])
        assert ask_others(brokers, ONE) == "h2"
        assert pool.asked == ["h2"]
        assert ask_any(brokers) == "h2", "nor first for anything else"

    def test_without_others_nothing_is_known(self, pool):
        assert ask_others(make(["h1"]), ONE) is None
        assert pool.asked == []

    def test_it_takes_little_time_even_if_all_hang(self, pool):
        pool.takes = dict.fromkeys(("h1", "h2", "h3"), 1e9)
        assert ask_others(make(), ONE) is None
        assert pool.clock.now <= brokers_module.OVERDUE_CHECK_SECONDS

    @pytest.mark.parametrize(
        "error", [RetriableError("later"), AuthorizationFailed("no"), BrokerUnavailable("nobody", [])]
    )
    def test_what_others_refuse_ends_no_wait(self, pool, error):
        def ask(connection, timeout):
            raise error

        assert ask_others(make(), ONE, ask) is None

    def test_a_close_does(self, pool):
        brokers = Brokers(client_config(bootstrap=(("h1", 1), ("h2", 1))), lambda seconds: True)
        with pytest.raises(Interrupted):
            ask_others(brokers, ONE)


class TestAbort:
    def test_F17_a_thread_that_is_still_connecting_ends(self, monkeypatch):
        """The broker accepts connections and never answers the handshake. No connection is held yet, so `abort` alone
        does not end the wait."""
        monkeypatch.setattr(wait_module, "OVERDUE_SECONDS", 0.05)
        closing, ended = threading.Event(), []
        with socket.create_server(("127.0.0.1", 0)) as silent:
            silent.settimeout(30)
            brokers = Brokers(client_config(bootstrap=(silent.getsockname(),)), closing.wait)

            def ask():
                attempts = brokers.attempts("asking", timeout=120)
                try:
                    brokers.retry(attempts, lambda: brokers.ask_any(attempts, lambda connection, timeout: None))
                except BaseException as error:
                    ended.append(error)

            thread = threading.Thread(target=ask)
            thread.start()
            connected, _ = silent.accept()
            with connected:
                assert connected.recv(1), "the handshake has begun"
                closing.set()
                brokers.abort()
                thread.join(10)
                waits = thread.is_alive()
            thread.join(30)  # in any case: the broker has closed the connection
        assert not waits
        assert [type(error) for error in ended] == [Interrupted]


class TestDeparted:
    def now(self, leaders, brokers=(ONE, TWO, THREE)):
        topic = Topic("t", None, False, dict(enumerate(leaders)))
        return Metadata({broker.node_id: broker for broker in brokers}, {"t": topic})

    def test_partitions_with_another_leader_are_named(self):
        now = self.now([Leader(TWO, 6), Leader(ONE, 5)])
        assert departed(ONE, {A: Leader(ONE, 5), B: Leader(ONE, 5)}, now) == {A: "h2:9092 leads t-0 now"}

    def test_one_whose_metadata_lags_is_not_believed(self):
        assert departed(ONE, {A: Leader(ONE, 5)}, self.now([Leader(TWO, 4)])) == {}

    def test_a_partition_without_a_leader_has_nowhere_to_go(self):
        assert departed(ONE, {A: Leader(ONE, 5)}, self.now([None])) == {}

    def test_the_same_broker_elected_again_knows_nothing_of_the_old_request(self):
        assert departed(ONE, {A: Leader(ONE, 5)}, self.now([Leader(ONE, 6)])) != {}

    def test_without_epochs_the_address_tells(self):
        hint = Leader(Broker(-1, "h1", 9092))
        assert departed(hint.broker, {A: hint}, self.now([Leader(ONE)])) == {}
        assert departed(hint.broker, {A: hint}, self.now([Leader(TWO)])) != {}

    def test_a_follower_is_left_when_the_cluster_does_not_list_it_any_more(self):
        assert departed(TWO, {A: None}, self.now([Leader(ONE, 5)])) == {}
        gone = departed(TWO, {A: None}, self.now([Leader(ONE, 5)], brokers=(ONE, THREE)))
        assert gone == {A: "the cluster does not list this broker any more"}
