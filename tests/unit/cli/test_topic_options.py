"""Options of single topics."""

from __future__ import annotations

import argparse

import pytest

from penstock.cli.topic_options import TopicOptions, topic_option
from penstock.errors import OptionError

BROKERS = {"bootstrap.servers": "localhost:9092"}
REGISTRY = {"schemaRegistry.url": "http://localhost:8081"}


def options(given, *arguments):
    return TopicOptions(BROKERS | given, [topic_option(each) for each in arguments])


def test_an_option_is_of_the_topics_it_names():
    found = options({}, "orders:valueFormat=string", "shop.*:valueFormat=string")
    assert "valueFormat" in found.of("orders")
    assert "valueFormat" in found.of("shop.carts")
    assert found.of("shop-carts") == BROKERS | {"subscribe": "shop-carts"}


def test_later_options_win_in_any_case():
    found = options({"valueFormat": "string"}, "*:VALUEFORMAT=string", "bytes:valueformat=raw")
    assert found.of("any") == BROKERS | {"VALUEFORMAT": "string", "subscribe": "any"}
    assert found.of("bytes") == BROKERS | {"valueformat": "raw", "subscribe": "bytes"}


def test_a_registry_of_all_topics_is_for_those_with_schemas():
    found = options(REGISTRY, "orders:valueFormat=avro")
    assert found.of("orders").items() >= REGISTRY.items()
    assert found.of("clicks") == BROKERS | {"subscribe": "clicks"}
    assert found.connection == BROKERS


@pytest.mark.parametrize(
    ("argument", "problem"),
    [
        ("orders:valueFormt=avro", "valueFormat"),
        ("orders:valueFormat=avo", "avro"),
        ("orders:flatten=true", "queries"),
        ("orders:columns=key", "queries"),
        ("orders:where=key IS NULL", "search box"),
        ("orders:schemaRegistry.url=http://localhost", "no effect"),
    ],
)
def test_a_wrong_option_fails_at_the_start(argument, problem):
    with pytest.raises(OptionError, match=problem):
        options({}, argument)


def test_dead_letters_are_refused_because_they_are_written():
    with pytest.raises(OptionError, match="only reads"):
        options({"valueFormat": "string", "mode": "DEADLETTER", "deadLetterTopic": "bad"})


@pytest.mark.parametrize("text", ["orders", "orders:valueFormat", ":a=secret", "orders:=secret", "a=secret"])
def test_what_is_not_an_assignment_is_refused_without_its_text(text):
    with pytest.raises(argparse.ArgumentTypeError) as failed:
        topic_option(text)
    assert "secret" not in str(failed.value)
