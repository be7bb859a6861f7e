"""The options of typed columns: accepted, refused, and contradicting ones."""

from __future__ import annotations

import pickle

import pytest

from penstock.config.source import parse_options
from penstock.errors import OptionError

BASE = {"kafka.bootstrap.servers": "broker:9092", "subscribe": "orders"}


def parse(**given):
    return parse_options(BASE | {name.replace("__", "."): value for name, value in given.items()}).formats


def refuse(**given):
    with pytest.raises(OptionError) as caught:
        parse(**given)
    return caught.value


def test_without_formats_nothing_is_typed():
    assert not parse().typed
    assert parse(valueFormat="raw", keyFormat="RAW") == parse()


@pytest.mark.parametrize("given", [{"valueFormat": "string"}, {"flatten": "true"}, {"includeErrors": "true"}])
def test_anything_else_is_typed(given):
    assert parse(**given).typed


def test_a_registry_makes_confluents_framing_the_default_of_what_has_a_schema():
    formats = parse(valueFormat="avro", keyFormat="string", schemaRegistry__url="http://registry:8081")
    assert (formats.value.framed, formats.key.framed) == (True, False)
    plain = parse(valueFormat="avro", valueFraming="none", schemaRegistry__url="http://registry:8081")
    assert not plain.value.framed
    assert parse(valueFormat="json", valueFraming="confluent").value.framed


@pytest.mark.parametrize(
    ("given", "name", "says"),
    [
        ({"valueFormat": "jsn"}, "valueFormat", "Did you mean json?"),
        ({"valueFormat": "csv"}, "valueFormat", "package.module:Name"),
        ({"valueFormat": "my module:Name"}, "valueFormat", "not an import path"),
        ({"valueFormat": "avro"}, "valueFormat", "schemaRegistry.url"),
        ({"keyFormat": "protobuf"}, "keyFormat", "keySchema"),
        ({"valueSchema": "a INT"}, "valueSchema", "valueFormat"),
        ({"valueFormat": "json", "valueMessage": "M"}, "valueMessage", "json"),
        ({"valueFormat": "json", "valueSubject": "s"}, "valueSubject", "schemaRegistry.url"),
        ({"mode": "DEADLETTER"}, "deadLetterTopic", "missing"),
        ({"deadLetterTopic": "bad"}, "deadLetterTopic", "mode"),
        ({"mode": "IGNORE"}, "mode", "PERMISSIVE"),
        ({"schemaInference": "10"}, "schemaInference", "json"),
        ({"valueFormat": "a.b:C", "valueSchema": "a INT"}, "valueSchema", "a.b:C"),
        ({"valueFormat": "json", "schemaRegistry.retries": "2"}, "schemaRegistry.retries", "schemaRegistry.url"),
        ({"mode": "FAILFAST"}, "mode", "raw bytes"),
        ({"valueFormat": "json", "valueSchema": "a INT", "schemaInference": "9"}, "schemaInference", "no effect"),
        ({"valueFormat": "string", "timeZone": "UTC"}, "timeZone", "json"),
        ({"valueFormat": "string", "flattenPrefix": "k_"}, "flattenPrefix", "flatten"),
        ({"valueFormat": "string", "deadLetterTransactional": "false"}, "deadLetterTransactional", "DEADLETTER"),
        ({"valueFormat": "string", "mode": "FAILFAST", "includeErrors": "true"}, "includeErrors", "FAILFAST"),
        ({"valueFormat": "string", "schemaRegistry.url": "http://r:1"}, "schemaRegistry.url", "no effect"),
        ({"valuFormat": "json"}, "valuFormat", "Did you mean valueFormat?"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_an_error_names_the_wrong_option(given, name, says):
    error = refuse(**given)
    assert error.name == name
    assert says in str(error)


def test_options_pickle_and_hide_the_registrys_password():
    formats = parse(
        valueFormat="avro",
        schemaRegistry__url="https://registry:8081",
        **{"schemaRegistry.basic.auth.user.info": "me:very-secret"},
    )
    assert pickle.loads(pickle.dumps(formats)) == formats
    assert "very-secret" not in repr(formats)
    error = refuse(schemaRegistry__url="very-secret@registry")
    assert "very-secret" not in str(error)
