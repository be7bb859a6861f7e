"""The IncrementalAlterConfigs API: changes settings of a group."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import BrokerError
from penstock.wire.api.error_codes import CODES, check
from penstock.wire.api.message import Api, Structure, array, boolean, int8, int16, int32, nullable_text, text
from penstock.wire.transport.connection import Connection

GROUP = 32
"""Kafka's number of this kind of resource."""

_SET, _DELETE = 0, 1

INCREMENTAL_ALTER_CONFIGS = Api(
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
        array(
            "responses",
            int16("error_code"),
            nullable_text("error_message"),
            int8("resource_type"),
            text("resource_name"),
        ),
    ),
)


def ask_alter_group(
    connection: Connection, group: str, settings: Mapping[str, str | None], timeout: float, *, validate_only: bool
) -> None:
    """Change settings of a group, which need not exist yet. None removes a setting. Any broker takes it."""
    configs = [
        {"name": name, "config_operation": _DELETE if value is None else _SET, "value": value}
        for name, value in settings.items()
    ]
    resource = {"resource_type": GROUP, "resource_name": group, "configs": configs}
    version = connection.version(INCREMENTAL_ALTER_CONFIGS)
    request = INCREMENTAL_ALTER_CONFIGS.request(version, resources=[resource], validate_only=validate_only)
    for answer in connection.call(request, timeout).responses:
        what = f"changing settings of group {group!r}"
        if answer.error_code in (CODES["INVALID_CONFIG"], CODES["INVALID_REQUEST"]) and answer.error_message:
            raise BrokerError(f"{what}: {answer.error_message}")
        check(answer.error_code, what, retries_unknown=False)
