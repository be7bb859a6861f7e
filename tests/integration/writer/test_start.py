"""Checks when a write starts: what ACLs must allow, and what is said without."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AclOperation
from confluent_kafka.admin import ResourcePatternType as Pattern
from confluent_kafka.admin import ResourceType as Resource

from penstock.config.sink import parse_sink_options
from penstock.errors import AuthorizationFailed, BrokerError, UnknownTopic
from penstock.testing import EmbeddedKafka
from penstock.writer.start import check_batch_write, check_stream_write
from support.acls import AUTHORIZER, allow

pytestmark = pytest.mark.broker

WRITE, READ = AclOperation.WRITE, AclOperation.READ
USERS = ("nobody", "writer", "batch", "whole")
PREFIX = "penstock-sink"


def test_W4_permissions_are_checked_before_the_first_row():
    with EmbeddedKafka(listener="SASL_PLAINTEXT", users=dict.fromkeys((*USERS, "admin")), settings=AUTHORIZER) as kafka:
        kafka.create_topic("out")
        allow(
            kafka,
            ("nobody", AclOperation.DESCRIBE, Resource.TOPIC, "out", Pattern.LITERAL),
            *((user, WRITE, Resource.TOPIC, "out", Pattern.LITERAL) for user in USERS[1:]),
            *((user, WRITE, Resource.TRANSACTIONAL_ID, PREFIX, Pattern.PREFIXED) for user in ("batch", "whole")),
            ("whole", READ, Resource.GROUP, PREFIX, Pattern.PREFIXED),
            ("whole", READ, Resource.TOPIC, "out", Pattern.LITERAL),
        )

        def options(user: str, guarantee: str = "exactly-once", **more: object):
            given = {**kafka.client_options(user=user), "topic": "out", "deliveryGuarantee": guarantee, **more}
            return parse_sink_options(given)

        with pytest.raises(AuthorizationFailed, match=r"topic 'out'.*do not allow Write"):
            check_batch_write(options("nobody", "at-least-once"))
        check_batch_write(options("writer", "at-least-once"))
        check_stream_write(options("writer", "at-least-once"))
        with pytest.raises(AuthorizationFailed, match="Write on transactional ids with the prefix 'penstock-sink'"):
            check_batch_write(options("writer"))
        check_batch_write(options("batch"))
        for check, more in ((check_stream_write, {}), (check_batch_write, {"queryId": "q", "batchId": 1})):
            with pytest.raises(AuthorizationFailed, match="Read on groups with that prefix, and Read on topic 'out'"):
                check(options("batch", **more))
            check(options("whole", **more))


def test_a_missing_topic_is_named_or_created_by_the_broker(kafka, topic):
    with pytest.raises(UnknownTopic, match="'no-such-topic' does not exist: Create it first"):
        check_batch_write(parse_sink_options({**kafka.client_options(), "topic": "no-such-topic"}))
    with EmbeddedKafka(settings={"auto.create.topics.enable": True}) as creating:
        check_batch_write(parse_sink_options({**creating.client_options(), "topic": "new"}))


def test_W4_a_transaction_timeout_above_the_brokers_maximum_is_refused(kafka, topic):
    given = {"topic": topic(), "deliveryGuarantee": "exactly-once", "kafka.transaction.timeout.ms": "1000000"}
    with pytest.raises(BrokerError, match=r"Lower kafka\.transaction\.timeout\.ms"):
        check_stream_write(parse_sink_options({**kafka.client_options(), **given}))
