"""The options of a registry: accepted and refused ones. No error and no repr shows a secret."""

from __future__ import annotations

import pickle

import pytest

from penstock.config import registry
from penstock.config.registry import REGISTRY_OPTIONS
from penstock.config.registry_config import RegistryConfig
from penstock.errors import OptionError
from support.configs import registry_config

URL = "https://registry:8081"


def parse(**given: str) -> RegistryConfig | None:
    """Names with _ for dots, without the prefix."""
    options = {"schemaRegistry." + name.replace("_", "."): text for name, text in given.items()}
    return registry.registry_config(REGISTRY_OPTIONS.parse(options))


def test_without_a_registry_there_is_none():
    assert parse() is None


def test_everything_arrives():
    config = parse(
        url=f"{URL}/, https://second",
        basic_auth_user_info="ann:pass:word",
        ssl_ca_location="ca.pem",
        ssl_certificate_location="me.pem",
        ssl_key_location="key.pem",
        ssl_key_password="letmein",
        ssl_endpoint_identification_algorithm="",
        proxy="http://bob:pw@proxy:3128",
        timeout_ms="2500",
        retries="0",
        headers='{"target-sr-cluster": "lsrc-1"}',
        allow_plaintext="true",
    )
    assert config == RegistryConfig(
        urls=(URL, "https://second"),
        user="ann",
        password="pass:word",
        ca_file="ca.pem",
        certificate_file="me.pem",
        key_file="key.pem",
        key_password="letmein",
        check_hostname=False,
        proxy="http://bob:pw@proxy:3128",
        timeout=2.5,
        retries=0,
        headers=(("target-sr-cluster", "lsrc-1"),),
        allow_plaintext=True,
    )


def test_a_given_default_changes_nothing():
    defaults = {name: option.default for name, option in REGISTRY_OPTIONS.items() if option.default is not None}
    del defaults["subjectNameStrategy"]
    given = {name.removeprefix("schemaRegistry.").replace(".", "_"): text for name, text in defaults.items()}
    assert parse(url=URL, **given) == parse(url=URL) == registry_config((URL,))


def test_a_config_is_a_value_and_shows_no_secret():
    config = registry_config(
        ("https://ann:s3cret@registry:8081/path",),
        certificate_file="me.pem",
        key_password="s3cret",
        proxy="http://bob:s3cret@proxy",
        headers=(("X-Key", "s3cret"),),
    )
    assert config.urls == ("https://registry:8081/path",)
    assert (config.user, config.password) == ("ann", "s3cret")
    assert pickle.loads(pickle.dumps(config)) == config
    assert len({config, pickle.loads(pickle.dumps(config))}) == 1
    assert "s3cret" not in repr(config)
    assert "s3cret" not in repr(registry_config((URL,), bearer_token="s3cret"))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"url": " , "}, "names no registry"),
        ({"url": "s3cret:8081"}, "must begin with http"),
        ({"url": "ftp://ann:s3cret@registry"}, "must begin with http"),
        ({"url": "http://ann:s3cret@registry:port"}, "is not an address"),
        ({"url": "http://ann:s3cret@"}, "must begin with http"),
        ({"url": "http://ann:s3cret@registry?x=1"}, "without"),
        ({"url": "http://ann:s3cret@regi stry"}, "spaces"),
        ({"url": "http://ann:s3cret@one,http://bob:s3cret@two"}, "different logins"),
        ({"url": "http://ann:s3cret@one", "basic_auth_user_info": "ann:s3cret"}, "Keep one"),
        ({"url": "http://ann:s3cret@one", "bearer_auth_token": "s3cret"}, "Keep one"),
        ({"url": URL, "basic_auth_user_info": "s3cret"}, "must be user:password"),
        ({"url": URL, "bearer_auth_token": "s3cret\r\nX-Other: y"}, "an HTTP header cannot carry"),
        ({"url": URL, "headers": "X-Key: s3cret"}, "must be a JSON object"),
        ({"url": URL, "headers": '{"X Key": "s3cret"}'}, "not the name of a header"),
        ({"url": URL, "headers": '{"X-Key": "s3cret\\r\\nY: z"}'}, "must be ASCII text"),
        ({"url": URL, "headers": '{"X-Key": 7}'}, "must be ASCII text"),
        ({"url": URL, "proxy": "socks5://bob:s3cret@proxy"}, "must begin with http"),
        ({"url": URL, "ssl_key_location": "key.pem", "ssl_key_password": "s3cret"}, "is missing"),
        ({"url": URL, "ssl_endpoint_identification_algorithm": "none"}, "must be one of https"),
        ({"url": URL, "timeout_ms": "0"}, "at least 1"),
        ({"basic_auth_user_info": "ann:s3cret"}, r"Set schemaRegistry\.url"),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "-".join(value),
)
def test_a_refused_option_is_named_without_secrets(given, said):
    with pytest.raises(OptionError, match=said) as refused:
        parse(**given)
    assert refused.value.name.startswith("schemaRegistry.")
    assert "s3cret" not in str(refused.value) + repr(vars(refused.value))


def test_a_misspelt_strategy_is_refused_with_the_nearest():
    option = REGISTRY_OPTIONS["subjectNameStrategy"]
    with pytest.raises(OptionError, match="Did you mean topic-record"):
        option.parse(option.name, "topicrecord")


@pytest.mark.parametrize(
    "login",
    [
        {"basic_auth_user_info": "ann:s3cret"},
        {"bearer_auth_token": "s3cret"},
        {"headers": '{"X-Api-Key": "s3cret"}'},
    ],
    ids=["basic", "bearer", "header"],
)
def test_a_log_in_is_not_sent_unencrypted_to_another_machine_unless_that_is_allowed(login):
    with pytest.raises(OptionError, match=r"unencrypted.*schemaRegistry\.allow\.plaintext") as refused:
        parse(url="https://one,http://registry.example.org", **login)
    assert "s3cret" not in str(refused.value)
    parse(url="http://registry.example.org", allow_plaintext="true", **login)
    for harmless in ("https://registry", "http://localhost:8081", "http://127.0.0.1:8081", "http://[::1]:8081"):
        parse(url=harmless, **login)
    assert parse(url="http://registry.example.org", headers='{"target-sr-cluster": "lsrc-1"}')
    with pytest.raises(OptionError, match="unencrypted"):
        parse(url="http://ann:s3cret@registry.example.org")
