"""Checks of a cluster: brokers, certificates, login, advertised listeners, registry and permissions."""

from __future__ import annotations

import ipaddress
import socket
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from penstock.cli.doctor.check import Check, failed, ok, skipped, warning
from penstock.config.registry_config import RegistryConfig
from penstock.config.source import SourceOptions
from penstock.errors import AuthenticationFailed, BrokerError, PenstockError, SchemaNotFound, UnknownTopic
from penstock.formats.registry.client import SchemaRegistry
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.group_admin import GroupAdmin
from penstock.wire.api.metadata import Broker, ask_metadata
from penstock.wire.client_config import ClientConfig
from penstock.wire.transport.certificate import expiry, expiry_in_pem
from penstock.wire.transport.connection import Connection
from penstock.wire.transport.kerberos import KerberosLogin
from penstock.wire.transport.tls import Tls

CONNECT_SECONDS = 5.0
"""For one address. A broker that is up answers within milliseconds."""

KDC_SECONDS = 30.0
"""For a ticket. The Kerberos library gives up after 27 s."""

SOON = timedelta(days=30)
"""A certificate that ends within this time is worth a warning."""


def check_cluster(options: SourceOptions, topic: str | None, group: str | None) -> Iterator[Check]:
    client = options.client
    reachable = []
    for host, port in client.bootstrap:
        check = check_reachable(host, port)
        if check.state == "ok":
            reachable.append((host, port))
        yield check
    if client.security.uses_tls:
        yield client_certificate(client.security.tls)
    if client.security.kerberos is not None:
        ticket = check_kerberos(client.security.kerberos)
        yield ticket
        if ticket.state == "failed":
            reachable = []
    connection: Connection | None = None
    for host, port in reachable[:1]:
        try:
            connection = Connection(host, port, client, CONNECT_SECONDS)
        except BrokerError as error:
            yield failed("login" if isinstance(error, AuthenticationFailed) else "broker", error)
    if connection is not None:
        try:
            yield from _check_connected(connection)
        finally:
            connection.close()
    if options.formats.registry is not None:
        yield check_registry(options.formats.registry, topic)
    if connection is None:
        yield skipped("listeners", "not checked: there is no connection to a broker")
        return
    yield from check_permissions(client, topic, group)


def check_reachable(host: str, port: int) -> Check:
    address = f"{host}:{port}"
    try:
        socket.create_connection((host, port), CONNECT_SECONDS).close()
    except socket.gaierror as error:
        found = f"the name {host} is unknown to this machine ({error.strerror})"
        return failed("broker", found, "Check the spelling of -b, and DNS or /etc/hosts")
    except ConnectionRefusedError:
        found = f"{address} refuses connections"
        return failed("broker", found, "Check that the broker runs, and the port; `penstock broker` starts one here")
    except (OSError, ValueError) as error:
        found = f"{address} does not answer ({error})"
        return failed("broker", found, "Check the address, firewalls, and the VPN if there is one")
    return ok("broker", f"{address} accepts connections")


def _check_connected(connection: Connection) -> Iterator[Check]:
    security = connection.config.security
    if security.uses_tls:
        yield broker_certificate(connection)
    if security.uses_sasl:
        yield ok("login", f"{security.user} is logged in by {security.sasl_mechanism}")
    else:
        yield ok("login", f"not needed: security.protocol is {security.protocol}")
    try:
        metadata, _ = ask_metadata(connection, (), CONNECT_SECONDS)
    except Exception as error:  # of any kind, such as a retriable one: it is a result, too
        yield failed("listeners", f"{connection.address} does not list its cluster's brokers: {error}")
        return
    for broker in sorted(metadata.brokers.values(), key=lambda each: each.node_id):
        yield check_listener(broker, connection)


def check_listener(broker: Broker, bootstrap: Connection) -> Check:
    """Clients talk to brokers under the addresses that these advertise, not under those of -b."""
    address = f"{broker.host}:{broker.port}"
    if broker.address == (bootstrap.host, bootstrap.port):
        return ok("listeners", f"broker {broker.node_id} advertises {address}, which is the address of -b")
    try:
        Connection(broker.host, broker.port, bootstrap.config, CONNECT_SECONDS).close()
    except BrokerError as error:
        found = f"broker {broker.node_id} advertises {address}, which this machine cannot use: {error}"
        what = "an address that clients can reach"
        if _is_loopback(broker.host) and not _is_loopback(bootstrap.host):
            what = f"an address that other machines can reach, such as {bootstrap.host}:{bootstrap.port}"
        remedy = f"Set advertised.listeners of that broker to {what} (in Docker: KAFKA_ADVERTISED_LISTENERS)"
        return failed("listeners", found, remedy)
    return ok("listeners", f"broker {broker.node_id} advertises {address}, which answers")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def check_kerberos(login: KerberosLogin) -> Check:
    """Whether there is a ticket, before a broker is asked."""
    from penstock.wire.transport.kerberos_credentials import CREDENTIALS

    try:
        ticket = CREDENTIALS.get(login, time.monotonic() + KDC_SECONDS)
    except BrokerError as error:
        return failed("kerberos", error)
    end = datetime.now(UTC) + timedelta(seconds=ticket.lifetime)
    found = f"{ticket.principal} has a ticket by {ticket.source} until {end:%Y-%m-%d %H:%M} UTC"
    if ticket.renews:
        return ok("kerberos", f"{found}, and gets the next one by itself")
    return warning("kerberos", found, "For long runs use a keytab, or let k5start renew the cache")


# --- certificates -------------------------------------------------------------------------------------------------


def broker_certificate(connection: Connection) -> Check:
    der = connection.peer_certificate
    try:
        end = None if der is None else expiry(der)
    except ValueError as error:
        return warning("certificates", f"the end of the broker's certificate cannot be read: {error}", "Renew it")
    if end is None:
        return warning("certificates", "the broker sent no certificate", "Check the broker's keystore")
    return _until(f"the certificate of {connection.address}", end, datetime.now(UTC))


def client_certificate(tls: Tls) -> Check:
    try:
        text = Path(tls.certificate_file).read_text("ascii", "replace") if tls.certificate_file else tls.key_pem
        end = None if text is None else expiry_in_pem(text)
    except (OSError, ValueError) as error:
        found = f"the client's certificate cannot be read: {error}"
        return failed("certificates", found, "Set ssl.keystore.location to a PEM file")
    if end is None:
        return ok("certificates", "the client has no certificate of its own")
    return _until("the client's certificate", end, datetime.now(UTC))


def _until(whose: str, end: datetime, now: datetime) -> Check:
    day, left = f"{end:%Y-%m-%d %H:%M} UTC", end - now
    if left <= timedelta(0):
        return failed("certificates", f"{whose} expired on {day}", "Renew it, and check this machine's clock")
    if left < SOON:
        return warning("certificates", f"{whose} expires on {day}, in {max(left.days, 0)} days", "Renew it")
    return ok("certificates", f"{whose} is valid until {day}")


# --- registry and permissions -------------------------------------------------------------------------------------


def check_registry(config: RegistryConfig, topic: str | None) -> Check:
    subject = f"{topic or 'penstock-doctor'}-value"
    with SchemaRegistry(config) as registry:
        try:
            found = registry.latest(subject)
        except SchemaNotFound:
            missing = f", and has no subject {subject!r}" if topic else ""
            return ok("registry", f"{config.urls[0]} answers{missing}")
        except PenstockError as error:
            return failed("registry", error)
    return ok("registry", f"{config.urls[0]} answers: the newest schema of {subject!r} has id {found.id}")


def check_permissions(client: ClientConfig, topic: str | None, group: str | None) -> Iterator[Check]:
    admin = GroupAdmin(client)
    if topic is None:
        yield skipped("permissions", "of a topic are not checked", "Add --topic NAME")
    else:
        yield from _check_topic(admin, topic)
    if group is None:
        yield skipped("permissions", "of a group are not checked", "Add --group NAME")
    else:
        yield _check_group(admin, group)


def _check_topic(admin: GroupAdmin, name: str) -> Iterator[Check]:
    remedy = f"Allow this user Read on topic {name!r}, which includes Describe"
    try:
        topic = admin.metadata((name,)).topics[name]
    except UnknownTopic as error:
        yield failed("permissions", error, "Create it with `penstock topics create`, or allow this user Describe on it")
        return
    except BrokerError as error:
        yield failed("permissions", error, remedy)
        return
    yield ok("permissions", f"may describe topic {name!r}, which has {len(topic.partitions)} partitions")
    led = [TopicPartition(name, number) for number, leader in topic.partitions.items() if leader is not None]
    if not led:
        found = f"no partition of topic {name!r} has a leader"
        yield failed("permissions", found, "Start the brokers that hold its replicas")
        return
    try:
        ends = admin.end(led[:1])
        admin.timestamps_of({tp: max(end - 1, 0) for tp, end in ends.items()})
    except BrokerError as error:
        yield failed("permissions", error, remedy)
        return
    yield ok("permissions", f"may read topic {name!r}")


def _check_group(admin: GroupAdmin, group: str) -> Check:
    try:
        admin.check_may_read(group)
    except BrokerError as error:
        return failed("permissions", error, f"Allow this user Read on group {group!r}")
    return ok("permissions", f"may read group {group!r}")
