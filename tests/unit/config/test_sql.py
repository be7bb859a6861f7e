"""Options as Spark's SQL hands them over: whose they are, and which a table keeps."""

from __future__ import annotations

import pytest

from penstock.config.sink import parse_sink_options
from penstock.config.source import parse_options
from penstock.config.sql import (
    is_create_table,
    options_of_table,
    read_of_table,
    read_options,
    write_options,
    write_to_table,
    written_options,
)
from penstock.errors import OptionError
from penstock.model.subscription import TopicNames

BROKERS = {"kafka.bootstrap.servers": "b:9092"}
VIEW = BROKERS | {
    "subscribe": "clicks",
    "startingoffsets": "earliest",
    "kafka.fetch.min.bytes": "1",
    "topic": "copies",
    "deliveryguarantee": "exactly-once",
    "kafka.acks": "all",
    "kafka.client.id": "me",
}


def created(options, **more):
    """What CREATE TABLE of Spark 4.3 passes."""
    twins = {f"option.{name}": value for name, value in options.items()}
    return {"provider": "penstock", "owner": "me", **options, **twins, **more}


def test_create_table_keeps_the_options_and_drops_sparks_keys_and_table_properties():
    given = created(BROKERS | {"subscribe": "t"}, comment="c", external="true", mine="1", **{"a.b": "2"})
    assert is_create_table(given)
    assert written_options(given) == BROKERS | {"subscribe": "t"}


@pytest.mark.parametrize("provider", ["penstock", "PENSTOCK"])
def test_create_table_is_recognized_in_any_case(provider):
    assert is_create_table({"provider": provider, "owner": "me"})


@pytest.mark.parametrize("given", [{"provider": "penstock"}, {"owner": "me"}, {"provider": "kafka", "owner": "me"}])
def test_a_key_of_spark_as_an_option_is_still_an_error(given):
    with pytest.raises(OptionError, match="is unknown"):
        parse_options(read_options(BROKERS | {"subscribe": "t"} | given))
    with pytest.raises(OptionError, match="is unknown"):
        parse_sink_options(write_options(BROKERS | {"topic": "t"} | given))


def test_a_misspelt_option_of_create_table_is_an_error_with_the_nearest_name():
    with pytest.raises(OptionError, match=r"subscrib.*unknown.*Did you mean subscribe"):
        parse_options(options_of_table(created(BROKERS | {"subscrib": "t"})))


def test_a_location_is_refused():
    given = created(BROKERS | {"subscribe": "t"}, path="file:/x", location="file:/x")
    with pytest.raises(OptionError, match="A topic is not a path"):
        parse_options(options_of_table(given))


def test_a_view_that_is_read_and_written_serves_both_with_their_own_options():
    read, written = parse_options(read_options(VIEW)), parse_sink_options(write_options(VIEW))
    assert read.subscription == TopicNames(("clicks",))
    assert read.client.client_id == written.client.client_id == "me"
    assert (written.topic, written.guarantee) == ("copies", "exactly-once")
    assert read.ignored == ()
    assert written.ignored == ()


def test_names_are_accepted_in_any_case():
    shouted = {name.upper(): value for name, value in VIEW.items()}
    assert parse_options(read_options(shouted)) == parse_options(read_options(VIEW))
    assert parse_sink_options(write_options(shouted)) == parse_sink_options(write_options(VIEW))


def test_a_misspelt_option_of_a_view_is_an_error_for_both():
    wrong = VIEW | {"startingofset": "earliest"}
    with pytest.raises(OptionError, match="Did you mean startingOffsets"):
        parse_options(read_options(wrong))
    with pytest.raises(OptionError, match=r"startingofset.*is unknown"):
        parse_sink_options(write_options(wrong))


def test_an_option_of_the_other_direction_alone_is_still_an_error():
    with pytest.raises(OptionError, match="A sink writes: set option topic"):
        parse_sink_options(write_options(BROKERS | {"subscribe": "t"}))
    with pytest.raises(OptionError, match="A read names its topics with option subscribe"):
        parse_options(read_options(BROKERS | {"topic": "t"}))
    with pytest.raises(OptionError, match=r"deliveryguarantee.*is unknown"):
        parse_options(read_options(BROKERS | {"subscribe": "t", "deliveryguarantee": "exactly-once"}))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kafka.sasl.jaas.config", 'x required password="hush";'),
        ("kafka.ssl.key.password", "hush"),
        ("schemaRegistry.basic.auth.user.info", "me:hush"),
        ("schemaRegistry.url", "https://me:hush@registry"),
    ],
)
def test_a_table_keeps_no_secret(name, value):
    with pytest.raises(OptionError) as caught:
        options_of_table(created(BROKERS | {"subscribe": "t", name.lower(): value}))
    assert f"option {name}" in str(caught.value)
    assert "spark.read.option" in str(caught.value)
    assert "hush" not in str(caught.value)


def test_a_table_keeps_the_address_of_a_registry():
    options = BROKERS | {"subscribe": "t", "valueformat": "avro", "schemaregistry.url": "https://registry:8081"}
    assert options_of_table(created(options)) == options


def test_a_read_of_a_table_prefers_the_options_of_the_query():
    kept = BROKERS | {"subscribe": "t", "startingoffsets": "earliest"}
    assert read_of_table({}, kept) == kept
    assert read_of_table({"startingOffsets": "latest"}, kept) == kept | {"startingoffsets": "latest"}
    named = {"group.id": "a"}
    assert read_of_table({"kafka.group.id": "b"}, kept | named) == kept | {"kafka.group.id": "b"}


def test_a_query_that_names_brokers_uses_nothing_of_a_table():
    own = {"kafka.bootstrap.servers": "c:9092", "subscribe": "u"}
    for query in (own, {"bootstrap.servers": "c:9092", "subscribe": "u"}):
        assert read_of_table(query, BROKERS | {"subscribe": "t", "startingoffsets": "earliest"}) == query


def test_a_read_of_a_table_without_options_says_why_and_what_to_do():
    with pytest.raises(OptionError, match=r"CREATE TABLE lists columns.*CREATE TEMPORARY VIEW"):
        read_of_table({}, {})
    with pytest.raises(OptionError, match=r"Did you mean kafka\.bootstrap\.servers"):
        read_of_table({"kafka.bootstrap.server": "b:9092"}, {})


def test_a_write_without_brokers_says_why_and_what_to_do():
    with pytest.raises(OptionError, match=r"no options of a table to writes.*INSERT INTO t WITH"):
        write_to_table({})
    with pytest.raises(OptionError, match=r"Did you mean kafka\.bootstrap\.servers"):
        write_to_table({"kafka.bootstrap.server": "b:9092"})
    assert write_to_table(BROKERS | {"Topic": "t"}) == BROKERS | {"topic": "t"}
