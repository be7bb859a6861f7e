"""Administration by kafka-python's admin client: create and delete topics, create users, describe the cluster.

Each call opens a connection and closes it again. These calls are rare, and an open client would keep a thread and a
socket through a fork or a broker's restart.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import kafka.errors as kafka_errors
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, UserScramCredentialUpsertion
from kafka.protocol.admin import DescribeClusterRequest

from penstock.errors import (
    AuthenticationFailed,
    AuthorizationFailed,
    BrokerError,
    BrokerUnavailable,
    UnknownTopic,
)
from penstock.wire.api.admin_login import login_settings
from penstock.wire.api.admin_tls import Handshakes
from penstock.wire.transport.security import Security

OF_TOPIC = "DYNAMIC_TOPIC_CONFIG"
"""Kafka's name for the source of a setting that was set for its topic."""

SCRAM_ITERATIONS = 4096  # the least that brokers accept


@dataclass(frozen=True, slots=True)
class RegisteredBroker:
    """A broker as registered with the cluster's controller."""

    id: int
    host: str
    port: int
    rack: str | None
    fenced: bool


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster's id and brokers, including fenced ones (dead or not caught up) if it lists them."""

    id: str
    brokers: tuple[RegisteredBroker, ...]


@dataclass(frozen=True, slots=True)
class PartitionReplicas:
    """The brokers of a partition, by id."""

    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicDescription:
    partitions: tuple[PartitionReplicas, ...]
    settings: Mapping[str, str]
    """Those that were set for the topic. Empty if this user may not see them."""


class Admin:
    """Administration of one cluster. Every call ends within its deadline."""

    def __init__(self, bootstrap_servers: str, security: Security | None = None, *, seconds: float = 30.0) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._security = security or Security()
        self._seconds = seconds

    def describe(self, seconds: float | None = None) -> ClusterDescription:
        # Not client.describe_cluster(), which fails on answers without an endpoint type: brokers before 3.7 send none.
        question = DescribeClusterRequest(include_cluster_authorized_operations=False, include_fenced_brokers=True)
        with self._client("describing the cluster", seconds) as client:
            answer = client._manager.run(client._manager.send, question)
            if answer.error_code:
                raise kafka_errors.for_code(answer.error_code)(answer.error_message)
            described = answer.to_dict()
        brokers = [
            RegisteredBroker(
                int(broker["broker_id"]),
                str(broker["host"]),
                int(broker["port"]),
                broker.get("rack"),
                bool(broker.get("is_fenced")),
            )
            for broker in described["brokers"]
        ]
        return ClusterDescription(str(described["cluster_id"]), tuple(sorted(brokers, key=lambda broker: broker.id)))

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic and wait until every partition has a leader. A topic that exists is an error."""
        topic = {
            "num_partitions": partitions,
            "replication_factor": replication_factor,
            "configs": dict(configs or {}),
        }
        with self._client(f"creating topic {name!r}") as client:
            # kafka-python's own error shows the whole request and response. The broker's message is enough.
            answer = client.create_topics({name: topic}, timeout_ms=int(self._seconds * 1000), raise_errors=False)
            for made in answer["topics"]:
                if made["error_code"]:
                    raise kafka_errors.for_code(made["error_code"])(made["error_message"])
            client.wait_for_topics([name], timeout_ms=int(self._seconds * 1000))

    def describe_topic(self, name: str) -> TopicDescription:
        """The replicas of a topic's partitions, and the settings that differ from those of the brokers."""
        with self._client(f"describing topic {name!r}") as client:
            (topic,) = client.describe_topics([name])
            if topic["error_code"]:
                raise kafka_errors.for_code(topic["error_code"])()
            resource = ConfigResource(ConfigResourceType.TOPIC, name)
            found = client.describe_configs([resource], config_filter="all")["topic"][name]
        partitions = [
            PartitionReplicas(
                each["partition_index"],
                each["leader_id"] if each["leader_id"] >= 0 else None,
                tuple(each["replica_nodes"]),
                tuple(each["isr_nodes"]),
            )
            for each in topic["partitions"]
        ]
        settings = {key: value["value"] for key, value in sorted(found.items()) if value["config_source"] == OF_TOPIC}
        return TopicDescription(tuple(sorted(partitions, key=lambda each: each.partition)), settings)

    def topics(self) -> list[str]:
        """The names of all topics except internal ones."""
        with self._client("listing topics") as client:
            return sorted(name for name in client.list_topics() if not name.startswith("__"))

    def delete_topic(self, name: str) -> None:
        """Delete a topic and wait until the metadata no longer lists it."""
        with self._client(f"deleting topic {name!r}") as client:
            try:
                client.delete_topics([name], timeout_ms=int(self._seconds * 1000))
            except kafka_errors.UnknownTopicOrPartitionError as error:
                raise UnknownTopic(name) from error
            end = time.monotonic() + self._seconds
            while name in client.list_topics():
                if time.monotonic() > end:
                    raise BrokerUnavailable(f"deleting topic {name!r}: still listed after {self._seconds:g} s")
                time.sleep(0.02)

    def set_scram_users(self, passwords: Mapping[str, str]) -> None:
        """Create users for SCRAM-SHA-256 and SCRAM-SHA-512. Brokers learn of them a moment later."""
        with self._client("creating users") as client:
            # Two requests, because Kafka refuses to change a user twice in one. kafka-python reports a refusal in its
            # answer only.
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
                answer = client.alter_user_scram_credentials(
                    [
                        UserScramCredentialUpsertion(name, mechanism, password, iterations=SCRAM_ITERATIONS)
                        for name, password in passwords.items()
                    ]
                )
                for name, error in answer.items():
                    if error is not None:
                        raise BrokerError(f"creating user {name!r} for {mechanism}: {error}")

    @contextlib.contextmanager
    def _client(self, what: str, seconds: float | None = None) -> Iterator[KafkaAdminClient]:
        allowed = self._seconds if seconds is None else seconds
        timeout_ms = max(1, int(allowed * 1000))
        settings: dict[str, Any] = {"security_protocol": self._security.protocol}
        handshakes = Handshakes()
        if self._security.uses_tls:
            settings["ssl_context"] = handshakes.of(self._security.tls_context())
            settings["ssl_check_hostname"] = self._security.tls.check_hostname
        if self._security.uses_sasl:
            settings |= login_settings(self._security, allowed)
        opened: list[Any] = []

        def open_client(**config: Any) -> Any:
            opened.append(KafkaAdminClient.DEFAULT_CONFIG["kafka_client"](**config))
            return opened[-1]

        try:
            client = KafkaAdminClient(
                bootstrap_servers=self._bootstrap_servers,
                client_id="penstock-admin",
                bootstrap_timeout_ms=timeout_ms,
                request_timeout_ms=timeout_ms,
                reconnect_backoff_ms=20,
                reconnect_backoff_max_ms=200,
                kafka_client=open_client,
                **settings,
            )
            try:
                yield client
            finally:
                client.close()
        except kafka_errors.KafkaError as error:
            raise _translated(what, error) from error
        finally:
            # kafka-python leaves thread and sockets behind when its constructor fails.
            for half_open in opened:
                with contextlib.suppress(Exception):
                    half_open.close()
            handshakes.close()


def _translated(what: str, error: Any) -> BrokerError:
    text = f"{what}: {error}"
    if isinstance(error, kafka_errors.SaslAuthenticationFailedError):
        return AuthenticationFailed(text)
    if isinstance(error, kafka_errors.TopicAuthorizationFailedError | kafka_errors.ClusterAuthorizationFailedError):
        return AuthorizationFailed(text)
    if isinstance(error, kafka_errors.KafkaConnectionError | kafka_errors.KafkaTimeoutError):
        return BrokerUnavailable(text)
    return BrokerError(text)
