"""The DescribeConfigs API: the settings of topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from penstock.wire.api.error_codes import error_name
from penstock.wire.api.message import (
    Api,
    Structure,
    array,
    boolean,
    int8,
    int16,
    int32,
    nullable_text,
    text,
    texts,
)
from penstock.wire.transport.connection import Connection, Pending

TOPIC = 2
"""Kafka's number of this kind of resource."""

DESCRIBE_CONFIGS = Api(
    "DescribeConfigs",
    32,
    lowest=1,
    highest=4,
    flexible=4,
    request_body=Structure(
        array("resources", int8("resource_type"), text("resource_name"), texts("configuration_keys")),
        boolean("include_synonyms", default=False),
        boolean("include_documentation", since=3, default=False),
    ),
    response_body=Structure(
        int32("throttle_time_ms"),
        array(
            "results",
            int16("error_code"),
            nullable_text("error_message"),
            int8("resource_type"),
            text("resource_name"),
            array(
                "configs",
                text("name"),
                nullable_text("value"),
                boolean("read_only"),
                int8("config_source"),
                boolean("is_sensitive"),
                array("synonyms", text("name"), nullable_text("value"), int8("source")),
                int8("config_type", since=3, default=0),
                nullable_text("documentation", since=3),
            ),
        ),
    ),
)

Settings: TypeAlias = dict[str, str]


def ask_topic_settings(
    connection: Connection, topics: Sequence[str], names: Sequence[str], timeout: float
) -> Pending[tuple[dict[str, Settings], set[str]]]:
    """These settings of topics, which any broker knows, and the errors that some topics were answered with."""
    request = DESCRIBE_CONFIGS.request(
        connection.version(DESCRIBE_CONFIGS),
        resources=[
            {"resource_type": TOPIC, "resource_name": topic, "configuration_keys": list(names)} for topic in topics
        ],
    )
    response = connection.ask(request, timeout)

    def read(timeout: float) -> tuple[dict[str, Settings], set[str]]:
        found: dict[str, Settings] = {}
        errors: set[str] = set()
        for result in response(timeout).results:
            if result.error_code:
                errors.add(error_name(result.error_code))
            else:
                found[result.resource_name] = {
                    config.name: config.value for config in result.configs if config.value is not None
                }
        return found, errors

    return read
