"""Settings of one group, which the brokers keep."""

from __future__ import annotations

from collections.abc import Mapping

from fixtures.cluster import cluster_of
from penstock.testing import EmbeddedKafka
from penstock.wire.api.alter_configs import ask_alter_group


def set_session(kafka: EmbeddedKafka, group: str, milliseconds: int) -> None:
    """The session of the members of a group in the protocol `consumer`. No client here can set it."""
    set_group_config(kafka, group, {"consumer.session.timeout.ms": milliseconds})


def set_group_config(kafka: EmbeddedKafka, group: str, settings: Mapping[str, object]) -> None:
    given = {name: str(value) for name, value in settings.items()}
    brokers = cluster_of(kafka)._brokers
    brokers.ask_any(
        brokers.attempts("asking"),
        lambda connection, timeout: ask_alter_group(connection, group, given, timeout, validate_only=False),
    )
