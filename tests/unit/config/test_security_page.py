"""The settings on docs/logins.md are accepted as they stand there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from penstock.config.consumer import parse_config
from penstock.config.source import parse_options

PAGE = (Path(__file__).parents[3] / "docs" / "logins.md").read_text()
NAMES: dict[str, Any] = {}
for block in re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
    exec(block, NAMES)
SETTINGS = {name: value for name, value in NAMES.items() if isinstance(value, dict) and name != "__builtins__"}


def test_the_page_has_settings_of_every_service():
    assert {"confluent", "confluent_oauth", "msk", "msk_scram", "event_hubs", "aiven", "redpanda", "kerberos"} <= set(
        SETTINGS
    )


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_to_copy_are_accepted(name):
    given = SETTINGS[name]
    parsed = parse_options(given | {"subscribe": "clicks"})
    assert not parsed.ignored
    bare = {key.removeprefix("kafka."): value for key, value in given.items()}
    assert parse_config(bare | {"group.id": "g"}).client.security == parsed.client.security


def test_what_the_settings_mean():
    of = {name: parse_options(given | {"subscribe": "clicks"}).client.security for name, given in SETTINGS.items()}
    assert of["event_hubs"].sasl_username == "$ConnectionString"
    assert of["event_hubs"].sasl_password.endswith("/;SharedAccessKeyName=...")
    extensions = {"logicalCluster": "lkc-xxxxx", "identityPoolId": "pool-xxxxx"}
    assert dict(of["confluent_oauth"].oauth.extensions) == extensions
    assert of["msk"].aws.role_arn == "arn:aws:iam::123456789012:role/reader"
    assert of["aiven"].tls.certificate_password == "KEYSTORE_PASSWORD"
    assert of["kerberos"].kerberos.principal == "reader@EXAMPLE.ORG"
    assert of["own_tokens"].oauth.callback == "my_package.tokens:get_token"


def test_the_function_on_the_page_returns_a_token(monkeypatch):
    import sys
    import time
    from types import ModuleType

    from penstock.wire.transport.oauth import TokenCache

    module = ModuleType("tokens")
    module.get_token = NAMES["get_token"]
    monkeypatch.setitem(sys.modules, "my_package.tokens", module)
    login = parse_options(SETTINGS["own_tokens"] | {"subscribe": "clicks"}).client.security.oauth
    assert TokenCache().get(login, time.monotonic() + 60).text == "the-token-for-eu"
