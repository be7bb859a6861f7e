"""A registry's options: what is read, what is refused, and that no error and no repr shows a secret."""

from __future__ import annotations

import pickle

import pytest

from penstock.config.registry import REGISTRY_OPTIONS, RegistryConfig, registry_config, subject_name
from penstock.errors import OptionError

URL = "https://registry:8081"


def parse(**given: str) -> RegistryConfig | None:
    """Names with _ for dots, less the prefix."""
    values = {}
    for name, text in given.items():
        option = REGISTRY_OPTIONS["schemaRegistry." + name.replace("_", ".")]
        values[option.name] = option.parse(option.name, text)
    return registry_config(values)


def test_without_a_registry_there_is_none():
    assert registry_config({}) is None


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
        (URL, "https://second"),
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


def test_the_defaults_in_the_table_are_those_of_the_config():
    defaults = {name: option.default for name, option in REGISTRY_OPTIONS.items() if option.default is not None}
    del defaults["subjectNameStrategy"]
    given = {name.removeprefix("schemaRegistry.").replace(".", "_"): text for name, text in defaults.items()}
    assert parse(url=URL, **given) == parse(url=URL) == RegistryConfig((URL,))


def test_a_config_is_a_value_and_shows_no_secret():
    config = RegistryConfig(
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
    assert "s3cret" not in repr(RegistryConfig((URL,), bearer_token="s3cret"))


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
        ({"url": "http://ann:s3cret@one,http://bob:s3cret@two"}, "different log-ins"),
        ({"url": "http://ann:s3cret@one", "basic_auth_user_info": "ann:s3cret"}, "Keep one"),
        ({"url": "http://ann:s3cret@one", "bearer_auth_token": "s3cret"}, "Keep one"),
        ({"url": URL, "basic_auth_user_info": "s3cret"}, "must be user:password"),
        ({"url": URL, "bearer_auth_token": "s3cret\r\nX-Other: y"}, "no header can carry"),
        ({"url": URL, "headers": "X-Key: s3cret"}, "must be a JSON object"),
        ({"url": URL, "headers": '{"X Key": "s3cret"}'}, "no name of a header"),
        ({"url": URL, "headers": '{"X-Key": "s3cret\\r\\nY: z"}'}, "must be a text"),
        ({"url": URL, "headers": '{"X-Key": 7}'}, "must be a text"),
        ({"url": URL, "proxy": "socks5://bob:s3cret@proxy"}, "must begin with http"),
        ({"url": URL, "ssl_key_location": "key.pem", "ssl_key_password": "s3cret"}, "is missing"),
        ({"url": URL, "ssl_endpoint_identification_algorithm": "none"}, "must be one of https"),
        ({"url": URL, "timeout_ms": "0"}, "at least 1"),
        ({"basic_auth_user_info": "ann:s3cret"}, r"Set schemaRegistry\.url"),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "-".join(value),
)
def test_what_is_refused_is_named_without_secrets(given, said):
    with pytest.raises(OptionError, match=said) as refused:
        parse(**given)
    assert refused.value.name.startswith("schemaRegistry.")
    assert "s3cret" not in str(refused.value) + repr(vars(refused.value))


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        ("topic", "orders-key"),
        ("TopicNameStrategy", "orders-key"),
        ("record", "shop.Order"),
        ("io.confluent.kafka.serializers.subject.RecordNameStrategy", "shop.Order"),
        ("Topic-Record", "orders-shop.Order"),
        ("io.confluent.kafka.serializers.subject.TopicRecordNameStrategy", "orders-shop.Order"),
    ],
)
def test_subjects_are_called_as_by_confluents_strategies(strategy, subject):
    option = REGISTRY_OPTIONS["subjectNameStrategy"]
    parsed = option.parse(option.name, strategy)
    assert subject_name(parsed, "orders", "key", "shop.Order") == subject


def test_a_strategy_that_is_none_or_lacks_a_record_is_refused():
    option = REGISTRY_OPTIONS["subjectNameStrategy"]
    with pytest.raises(OptionError, match="Did you mean topic-record"):
        option.parse(option.name, "topicrecord")
    assert subject_name("topic", "t", "value") == "t-value"
    with pytest.raises(OptionError, match="Set valueSubject"):
        subject_name("record", "t", "value")


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
