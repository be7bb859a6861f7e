"""The options of typed writing: accepted, refused, and contradicting ones."""

from __future__ import annotations

import pickle

import pytest

from penstock.errors import OptionError
from support.configs import write_formats


def refuse(**given: str) -> OptionError:
    with pytest.raises(OptionError) as caught:
        write_formats(**given)
    return caught.value


def test_without_formats_nothing_is_encoded():
    assert not write_formats().typed
    assert write_formats(valueFormat="RAW") == write_formats()
    assert write_formats().mode == "FAILFAST"


@pytest.mark.parametrize("name", ["string", "json", "avro"])
def test_W2_a_format_encodes_a_column(name):
    options = write_formats(valueFormat=name)
    assert options.typed
    assert not options.value.framed
    assert pickle.loads(pickle.dumps(options)) == options


def test_W2_a_registry_makes_confluents_framing_the_default_of_what_has_a_schema():
    options = write_formats(valueFormat="avro", keyFormat="string", schemaRegistry__url="http://registry:8081")
    assert (options.value.framed, options.key.framed) == (True, False)
    assert options.auto_register
    plain = write_formats(valueFormat="avro", valueFraming="none", schemaRegistry__url="http://registry:8081")
    assert not plain.value.framed


@pytest.mark.parametrize(
    ("given", "name", "reason"),
    [
        ({"valueFormat": "jsn"}, "valueFormat", "Did you mean json?"),
        ({"valueFormat": "my.module:Class"}, "valueFormat", "Your own class cannot write"),
        ({"valueFormat": "json", "mode": "PERMISSIVE"}, "mode", "tombstone"),
        ({"mode": "FAILFAST"}, "mode", "has no effect"),
        ({"valueFormat": "json", "mode": "DEADLETTER"}, "deadLetterTopic", "is missing"),
        ({"valueFormat": "json", "deadLetterTopic": "bad"}, "deadLetterTopic", "Set mode to DEADLETTER"),
        ({"flatten": "true"}, "flatten", "Set valueFormat to json"),
        ({"valueFormat": "json", "flattenPrefix": "k_"}, "flattenPrefix", "flatten is not set"),
        ({"valueFormat": "protobuf"}, "valueFormat", "needs a schema"),
        ({"valueFormat": "json", "valueSchema": "a INT"}, "valueSchema", "from the columns"),
        ({"valueFormat": "json", "valueFraming": "confluent"}, "valueFraming", "needs a schema registry"),
        ({"valueFormat": "avro", "timeZone": "UTC"}, "timeZone", "it is for json"),
        ({"valueFormat": "avro", "ignoreNullFields": "false"}, "ignoreNullFields", "it is for json"),
        ({"valueFormat": "avro", "autoRegisterSchemas": "false"}, "autoRegisterSchemas", "schemaRegistry.url"),
        ({"valueFormat": "avro", "valueMessage": "M"}, "valueMessage", "has no effect while valueFormat is avro"),
        ({"valueFormat": "avro", "valueSubject": "s"}, "valueSubject", "needs a schema registry"),
        ({"schemaRegistry__url": "http://registry:8081"}, "schemaRegistry.url", "no format here has schemas"),
        (
            {
                "valueFormat": "avro",
                "valueSchema": '"string"',
                "valueSchemaVersion": "2",
                "schemaRegistry__url": "http://registry:8081",
            },
            "valueSchemaVersion",
            "valueSchema is the schema",
        ),
    ],
)
def test_W2_options_that_make_no_sense_are_refused_by_name(given, name, reason):
    error = refuse(**given)
    assert error.name == name
    assert reason in str(error)
