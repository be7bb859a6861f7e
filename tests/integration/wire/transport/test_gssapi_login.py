"""Kerberos against a real KDC and a real broker: right, wrong, expired and renewed tickets, and which step failed."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterator

import pyarrow as pa
import pytest

from chaos.processes import until
from penstock import ConsumerConnector, Writer
from penstock.config.source import parse_options
from penstock.errors import AuthenticationFailed, BrokerUnavailable
from penstock.planner.batch import plan_batch
from penstock.testing import EmbeddedKafka
from penstock.wire.api.topic_admin import Admin
from penstock.wire.transport.kerberos_credentials import CREDENTIALS
from penstock.wire.transport.pool import POOL
from support.kdc import REALM, SERVICE, Kdc, by_keytab, kerberos_broker, kerberos_options
from support.reading import range_reader

pytestmark = pytest.mark.broker

WAIT_SECONDS = 120.0


@pytest.fixture(scope="module")
def service_keytab(kdc: Kdc):
    return kdc.add(SERVICE)


@pytest.fixture(scope="module")
def kafka(kdc: Kdc, service_keytab) -> Iterator[EmbeddedKafka]:
    # Sessions of two seconds: a client that lives longer must log in again.
    with kerberos_broker(kdc, service_keytab, **{"connections.max.reauth.ms": 2000}) as kafka:
        kafka.create_topic("t")
        write(kafka, "t", "a")
        yield kafka


@pytest.fixture(autouse=True)
def environment(kdc: Kdc, monkeypatch, tmp_path):
    """This process is a client of the KDC, whose user has no tickets; all tickets and connections are new."""
    for name, value in kdc.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'cache'}")
    monkeypatch.delenv("KRB5_CLIENT_KTNAME", raising=False)
    forget()
    yield
    forget()


@pytest.fixture
def reader(kdc: Kdc) -> str:
    """The name of a new principal, without its realm."""
    return f"reader-{uuid.uuid4().hex[:8]}"


def forget() -> None:
    CREDENTIALS.forget_all()
    POOL.close()


def write(kafka: EmbeddedKafka, topic: str, *values: str) -> None:
    with Writer(kafka.client_options() | {"topic": topic}) as writer:
        writer.write(pa.table({"value": list(values)}))


def read(given: dict[str, str]) -> list[bytes]:
    options = parse_options(given | {"subscribe": "t"})
    found = []
    for r in plan_batch(options):
        for batch in range_reader(r, ["value"], options.client).prefetched():
            found += batch.column("value").to_pylist()
    return found


def fail(given: dict[str, str], kind: type[Exception] = AuthenticationFailed) -> str:
    with pytest.raises(kind) as caught:
        read(given | {"kafka.default.api.timeout.ms": "3000", "kafka.retry.backoff.ms": "200"})
    return str(caught.value)


# --- right ------------------------------------------------------------------------------------------------------------


def test_a_keytab_logs_in_and_leaves_no_file(kdc, kafka, reader, tmp_path):
    assert read(kerberos_options(kafka, by_keytab(kdc.add(reader), reader))) == [b"a"]
    assert f"authenticationID={reader}@{REALM}" in kafka.logs(1)
    assert list(tmp_path.iterdir()) == [], "the user's ticket cache is not written"


def test_keytab_and_principal_may_be_options(kdc, kafka, reader):
    given = kerberos_options(kafka, None, keytab=str(kdc.add(reader)), principal=reader, service_name="kafka")
    assert read(given) == [b"a"]


def test_a_ticket_cache_logs_in_and_stays_as_it_is(kdc, kafka, reader, tmp_path):
    cache = tmp_path / "cache"
    kdc.kinit(kdc.add(reader), reader, cache)
    before = cache.read_bytes()
    assert read(kerberos_options(kafka, "useTicketCache=true")) == [b"a"]
    moved = cache.rename(tmp_path / "moved")
    forget()
    assert read(kerberos_options(kafka, f'useTicketCache=true ticketCache="{moved}" principal="{reader}"')) == [b"a"]
    assert moved.read_bytes() == before
    assert kdc.logins_of(reader) == 1, "kinit's"


def test_the_default_keytab_stands_in_for_a_missing_ticket_cache(kdc, kafka, reader, monkeypatch, tmp_path):
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", str(kdc.add(reader)))
    assert read(kerberos_options(kafka, None)) == [b"a"]
    assert list(tmp_path.iterdir()) == []


def test_many_connections_need_one_ticket(kdc, kafka, reader):
    given = kerberos_options(kafka, by_keytab(kdc.add(reader), reader))
    for _ in range(3):
        POOL.close()
        assert read(given) == [b"a"]
    assert kdc.logins_of(reader) == 1


def test_administration_uses_the_same_login(kdc, kafka, reader, command):
    given = kerberos_options(kafka, by_keytab(kdc.add(reader), reader))
    name = f"t-{reader}"
    Admin(kafka.bootstrap_servers, parse_options(given | {"subscribe": "t"}).client.security).create_topic(name)
    arguments = [word for option, value in given.items() for word in ("-o", f"{option}={value}")]
    code, out, err = command("topics", "describe", name, "-b", kafka.bootstrap_servers, *arguments)
    assert (code, err) == (0, "")
    assert name in out


def test_the_doctor_has_a_line_for_the_ticket(kdc, kafka, reader, command, tmp_path):
    def line(entries: str, name: str = "kerberos") -> dict[str, str]:
        given = kerberos_options(kafka, entries)
        arguments = [word for option, value in given.items() for word in ("-o", f"{option}={value}")]
        _, out, _ = command("doctor", "--json", "-b", kafka.bootstrap_servers, *arguments)
        (found,) = [check for check in map(json.loads, out.splitlines()) if check["check"] == name]
        return found

    keytab = kdc.add(reader)
    found = line(by_keytab(keytab, reader))
    assert found["state"] == "ok"
    assert f"{reader}@{REALM} has a ticket by keytab {keytab} until" in found["found"]
    assert f"{reader}@{REALM} is logged in by GSSAPI" in line(by_keytab(keytab, reader), "login")["found"]
    kdc.kinit(keytab, reader, tmp_path / "cache")
    assert "use a keytab" in line("useTicketCache=true")["remedy"]
    missing = line(by_keytab(tmp_path / "none", reader))
    assert (missing["state"], "there is no keytab" in missing["found"]) == ("failed", True)


# --- wrong ------------------------------------------------------------------------------------------------------------


def test_a_keytab_that_is_not_there(kafka, reader, tmp_path):
    error = fail(kerberos_options(kafka, by_keytab(tmp_path / "none.keytab", reader)))
    assert f"SASL GSSAPI: there is no keytab {tmp_path / 'none.keytab'} on {os.uname().nodename}" in error


def test_a_keytab_without_the_principal_names_those_it_has(kdc, kafka, reader):
    keytab = kdc.add(reader)
    error = fail(kerberos_options(kafka, by_keytab(keytab, "somebody")))
    assert f"has no key of somebody@{REALM}. It has keys of {reader}@{REALM}. Check the principal" in error


def test_a_file_that_is_not_a_keytab(kafka, reader, tmp_path):
    (tmp_path / "text").write_text("hello")
    error = fail(kerberos_options(kafka, by_keytab(tmp_path / "text", reader)))
    assert f"the keytab {tmp_path / 'text'} cannot be read: it is not a keytab" in error


def test_a_keytab_with_an_old_key(kdc, kafka, reader):
    keytab = kdc.add(reader)
    kdc.new_key(reader)
    error = fail(kerberos_options(kafka, by_keytab(keytab, reader)))
    assert f"no Kerberos ticket of {reader}@{REALM} by keytab {keytab}" in error
    assert "not the principal's current one: have a new keytab exported" in error


def test_a_principal_that_the_kdc_does_not_know(kdc, kafka, reader):
    keytab = kdc.add(reader)
    kdc.remove(reader)
    assert "The KDC does not have this principal" in fail(kerberos_options(kafka, by_keytab(keytab, reader)))


def test_a_realm_without_a_kdc(kdc, kafka, reader):
    keytab = kdc.add(reader)
    content = keytab.read_bytes().replace(REALM.encode(), b"ELSEWHERE.ORG")
    keytab.write_bytes(content)
    error = fail(kerberos_options(kafka, by_keytab(keytab, f"{reader}@ELSEWHERE.ORG")))
    assert "Check the realm in the principal, and [realms] in krb5.conf" in error


def test_no_ticket_at_all(kafka, tmp_path):
    error = fail(kerberos_options(kafka, None))
    assert f"no Kerberos ticket of any principal in the default ticket cache (FILE:{tmp_path / 'cache'})" in error
    assert "Run kinit there, or name a keytab" in error


def test_a_ticket_cache_of_another_principal(kdc, kafka, reader, tmp_path):
    kdc.kinit(kdc.add(reader), reader, tmp_path / "cache")
    error = fail(kerberos_options(kafka, f'useTicketCache=true principal="somebody@{REALM}"'))
    assert "no Kerberos ticket of somebody" in error


def test_an_expired_ticket(kdc, kafka, reader, tmp_path):
    cache = tmp_path / "cache"
    kdc.kinit(kdc.add(reader), reader, cache, "-l", "2s")
    assert until(lambda: not kdc.is_valid(cache), WAIT_SECONDS)
    error = fail(kerberos_options(kafka, "useTicketCache=true"))
    assert "the ticket has expired. Run kinit again, or use a keytab" in error


def test_a_service_that_the_kdc_does_not_know(kdc, kafka, reader):
    given = kerberos_options(kafka, by_keytab(kdc.add(reader), reader), service_name="kafkaa")
    error = fail(given)
    assert f"{reader}@{REALM} gets no ticket for the brokers' service kafkaa/127.0.0.1" in error
    assert "Check sasl.kerberos.service.name" in error


def test_a_kdc_that_is_down_is_tried_again_until_the_deadline(kdc, kafka, reader):
    given = kerberos_options(kafka, by_keytab(kdc.add(reader), reader))
    kdc.stop()
    try:
        error = fail(given, BrokerUnavailable)
        assert "Cannot contact any KDC" in error
        assert "Check that the KDC in krb5.conf runs" in error
    finally:
        kdc.start()
    assert read(given) == [b"a"]


def test_a_kdc_with_another_clock(kdc, kafka, reader, monkeypatch, tmp_path):
    """Clients correct their clock by the KDC's unless krb5.conf says no."""
    other = Kdc(tmp_path / "other", clock="+1h")
    keytab = other.add(reader)
    other.start()
    try:
        monkeypatch.setenv("KRB5_CONFIG", str(other.client_config("strict.conf", kdc_timesync=0)))
        assert "Set the clocks" in fail(kerberos_options(kafka, by_keytab(keytab, reader)))
    finally:
        other.stop()


# --- keys of the broker -----------------------------------------------------------------------------------------------


def test_a_broker_with_an_old_key_refuses_and_tickets_for_it_are_replaced(kdc, kafka, service_keytab, reader):
    given = kerberos_options(kafka, by_keytab(kdc.add(reader), reader))
    assert read(given) == [b"a"]
    new = kdc.new_key(SERVICE)
    try:
        # The ticket at hand is of the old key, which the broker has. Its next one is not.
        POOL.close()
        assert read(given) == [b"a"]
        forget()
        error = fail(given)
        assert f"refused the login of {reader}@{REALM} by GSSAPI" in error
        assert "Check its keytab, which must have the service's current key" in error
    finally:
        shutil.copy(new, service_keytab)
    assert until(lambda: logs_in(given), WAIT_SECONDS), "the broker has its new key"
    # A client with tickets of the key before: refused, and then logged in with new ones.
    newest = kdc.new_key(SERVICE)
    shutil.copy(newest, service_keytab)
    POOL.close()
    before = kdc.logins_of(reader)
    assert read(given) == [b"a"]
    assert kdc.logins_of(reader) == before + 1


def logs_in(given: dict[str, str]) -> bool:
    forget()
    try:
        read(given)
    except AuthenticationFailed:
        return False
    return True


# --- long runs --------------------------------------------------------------------------------------------------------


def test_a_consumer_outlives_many_tickets(kdc, kafka, reader):
    keytab = kdc.add(reader, "-maxlife", "5 seconds")
    topic = f"t-{reader}"
    kafka.create_topic(topic)
    config = kerberos_options(kafka, by_keytab(keytab, reader), prefix="") | {
        "group.id": f"g-{reader}",
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": "100",
        "heartbeat.interval.ms": "300",
        "session.timeout.ms": "30000",
    }
    connector = ConsumerConnector(config)
    try:
        stream = connector.create_message_streams({topic: 1})[topic][0]
        write(kafka, topic, "first")
        assert next(stream).offset == 0
        for offset, logins in ((1, 3), (2, 5)):
            assert until(lambda at_least=logins: kdc.logins_of(reader) >= at_least, WAIT_SECONDS)
            write(kafka, topic, "more")
            assert next(stream).offset == offset
        connector.commit_offsets()
        metrics = connector.metrics()
        assert (metrics.rebalances, metrics.commits_failed) == (1, 0)
    finally:
        connector.shutdown()
