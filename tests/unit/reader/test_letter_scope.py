"""The scope of a stream's dead letters: explicit fields now, and the hash that version 1 computed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.config.source import parse_options
from penstock.formats.resolve import resolve_formats
from penstock.reader.letter_scope import stream_scope

CAPTURED = Path(__file__).parents[2] / "golden" / "upgrade"
CASES = json.loads((CAPTURED / "scopes.json").read_text("utf-8"))
QUERY = "42707d0f-b1ae-4eb3-8224-f501ea66064f"
FORMATS = ["string:json", "raw:json", "string:raw", "raw:avro", "raw:string", "raw:protobuf"]
FORMATS += ["raw:golden_deserializer:Lines", "raw:json"]
SOURCES = [
    *("3780e4518274baaa", "662d670e26570330", "4f03b2682ba4106e", "8a55eb880f35c14c"),
    *("d0f15df195e1e4f3", "d97eb8974e5f29f9", "1c298a284dad2c2c", "1c298a284dad2c2c"),
]


@pytest.fixture(autouse=True)
def captured_files(monkeypatch):
    """The schema file and the class that the captured options name."""
    monkeypatch.syspath_prepend(CAPTURED)
    monkeypatch.chdir(CAPTURED)


def scope(options, query_id=QUERY):
    parsed = parse_options(options | {"kafka.bootstrap.servers": "localhost:9092"})
    return stream_scope(query_id, parsed, resolve_formats(parsed.formats, None, lambda column, count: []).plan())


@pytest.mark.parametrize(("case", "formats"), list(zip(CASES, FORMATS, strict=True)), ids=FORMATS)
def test_a_query_is_named_by_its_id_and_its_formats_and_knows_its_name_of_version_1(case, formats):
    found = scope(case["options"])
    assert found.name == f"v2:query:{QUERY}:{formats}"
    assert found.earlier == case["scope"]


@pytest.mark.parametrize(("case", "formats", "source"), list(zip(CASES, FORMATS, SOURCES, strict=True)), ids=FORMATS)
def test_without_a_query_id_group_and_subscription_name_the_source(case, formats, source):
    found = scope(case["options"], None)
    assert found.name == f"v2:source:{source}:{formats}"
    assert found.earlier == case["scope"]


def test_another_schema_is_the_same_scope_and_another_format_is_not():
    options = CASES[0]["options"]
    assert scope(options | {"valueSchema": "id BIGINT"}).name == scope(options).name
    assert scope(options | {"keyFormat": "raw"}).name != scope(options).name
