"""Settings of one group, which the brokers keep."""

from __future__ import annotations

from fixtures.cluster import cluster_of
from penstock.testing import EmbeddedKafka
from penstock.wire.api.message import Api, Structure, array, boolean, int8, int16, int32, nullable_text, text

ALTER_CONFIGS = Api(
    "IncrementalAlterConfigs",
    44,
    lowest=1,
    highest=1,
    flexible=1,
    request_body=Structure(
        array(
            "resources",
            int8("resource_type"),
            text("resource_name"),
            array("configs", text("name"), int8("config_operation"), nullable_text("value")),
        ),
        boolean("validate_only"),
    ),
    response_body=Structure(
        int32("throttle_time_ms"),
        array("responses", int16("error_code"), nullable_text("error_message"), int8("resource_type"), text("name")),
    ),
)
GROUP_CONFIG, SET = 32, 0


def set_session(kafka: EmbeddedKafka, group: str, milliseconds: int) -> None:
    """The session of the members of a group in the protocol `consumer`. No client here can set it."""
    setting = {"name": "consumer.session.timeout.ms", "config_operation": SET, "value": str(milliseconds)}
    resource = {"resource_type": GROUP_CONFIG, "resource_name": group, "configs": [setting]}
    request = ALTER_CONFIGS.request(1, resources=[resource], validate_only=False)
    brokers = cluster_of(kafka)._brokers
    answer = brokers.ask_any(brokers.attempts("asking"), lambda connection, timeout: connection.call(request, timeout))
    (answered,) = answer.responses
    assert answered.error_code == 0, answered.error_message
