"""When tickets are acquired, kept, renewed and dropped, with a function in place of the Kerberos library."""

from __future__ import annotations

import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.wire.transport.kerberos import KerberosLogin
from penstock.wire.transport.kerberos_credentials import Credential, CredentialCache, call_within
from penstock.wire.transport.oauth import TokenRefused, TokenUnavailable
from support.own_logs import own_records

LOGIN = KerberosLogin(keytab="/k", use_ticket_cache=False, renew_window=0.5, renew_jitter=0.0)
WAIT = 60.0


class Clock:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


class Source:
    """Acquires tickets. `failure` is raised instead; `gate` holds it back."""

    def __init__(self) -> None:
        self.calls = 0
        self.lifetime = 100.0
        self.failure: Exception | None = None
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self, login: KerberosLogin) -> Credential:
        self.calls += 1
        assert self.gate.wait(WAIT)
        if self.failure is not None:
            raise self.failure
        return Credential(None, f"me-{self.calls}", "keytab /k", self.lifetime, True)


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr("penstock.wire.transport.kerberos_credentials.time", made)
    return made


@pytest.fixture
def source():
    return Source()


@pytest.fixture
def cache(source):
    return CredentialCache(source)


def settle(cache: CredentialCache) -> None:
    """Wait for a renewal in the background."""
    deadline = time.monotonic() + WAIT
    while any(kept.pending is not None for kept in cache._kept.values()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_ticket_is_acquired_once_and_renewed_in_the_background(cache, source, clock):
    first = cache.get(LOGIN, clock.now + WAIT)
    assert (first.principal, first.is_new) == ("me-1", True)
    clock.now += 59
    kept = cache.get(LOGIN, clock.now + WAIT)
    assert (kept.principal, kept.is_new, source.calls) == ("me-1", False, 1)
    clock.now += 2  # a minute at least, by the default of renew_min_period
    source.gate.clear()
    assert cache.get(LOGIN, clock.now + WAIT).principal == "me-1", "the old one is still valid"
    assert cache.get(LOGIN, clock.now + WAIT).principal == "me-1"
    source.gate.set()
    settle(cache)
    assert cache.get(LOGIN, clock.now + WAIT).principal == "me-2"
    assert source.calls == 2


def test_a_renewal_that_fails_is_repeated_while_the_old_ticket_is_valid(cache, source, clock, caplog):
    cache.get(LOGIN, clock.now + WAIT)
    source.failure = TokenUnavailable("the KDC is away")
    clock.now += 61
    assert cache.get(LOGIN, clock.now + WAIT).principal == "me-1"
    settle(cache)
    assert cache.get(LOGIN, clock.now + WAIT).principal == "me-1"
    assert source.calls == 2, "not at once"
    (record,) = own_records(caplog)
    assert "the Kerberos ticket is not renewed yet: the KDC is away. The old one is still valid" in record.getMessage()
    clock.now += 11
    cache.get(LOGIN, clock.now + WAIT)
    settle(cache)
    assert source.calls == 3
    clock.now += 100
    with pytest.raises(TokenUnavailable, match="the KDC is away"):
        cache.get(LOGIN, clock.now + WAIT)
    source.failure = None
    assert cache.get(LOGIN, clock.now + WAIT).is_new


def test_a_failure_is_not_kept(cache, source):
    source.failure = TokenRefused("no key")
    for _ in range(2):
        with pytest.raises(TokenRefused, match="no key"):
            cache.get(LOGIN, time.monotonic() + WAIT)
    assert source.calls == 2


def test_a_deadline_ends_the_wait_for_a_silent_kdc_and_its_late_answer_is_kept(cache, source):
    source.gate.clear()
    with pytest.raises(TokenUnavailable, match="the KDC has not answered yet"):
        cache.get(LOGIN, time.monotonic() + 0.1)
    with pytest.raises(TokenUnavailable, match="the KDC has not answered yet"):
        call_within(time.monotonic() + 0.1, source.gate.wait)
    source.gate.set()
    settle(cache)
    assert cache.get(LOGIN, time.monotonic() + WAIT).principal == "me-1"


def test_many_threads_share_one_acquisition(cache, source):
    source.gate.clear()
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(cache.get, LOGIN, time.monotonic() + WAIT) for _ in range(8)]
        source.gate.set()
        assert {each.result().principal for each in asked} == {"me-1"}


def test_a_dropped_ticket_and_those_of_a_parent_process_are_not_used(cache, source):
    cache.get(LOGIN, time.monotonic() + WAIT)
    cache.forget(LOGIN)
    assert cache.get(LOGIN, time.monotonic() + WAIT).principal == "me-2"
    cache.after_fork()
    assert cache.get(LOGIN, time.monotonic() + WAIT).principal == "me-3"


def test_each_login_has_its_own_ticket(cache):
    other = KerberosLogin(keytab="/other", use_ticket_cache=False)
    assert pickle.loads(pickle.dumps(LOGIN)) == LOGIN != other
    assert cache.get(LOGIN, time.monotonic() + WAIT).principal == "me-1"
    assert cache.get(other, time.monotonic() + WAIT).principal == "me-2"
