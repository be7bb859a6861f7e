"""Option tables: one declaration per option, one parser, and each default written once."""

from __future__ import annotations

import ast
import dataclasses
import math
from pathlib import Path

import pytest

import penstock
from penstock.config.client import KAFKA_OPTIONS
from penstock.config.consumer import CONSUMER_OPTIONS, ConsumerConfig, parse_config
from penstock.config.event_time import EventTimeOptions
from penstock.config.formats import ColumnOptions, FormatOptions
from penstock.config.option import Option, OptionTable, as_text, merged
from penstock.config.parsers import flag, number, text
from penstock.config.registry_config import RegistryConfig
from penstock.config.source import SOURCE_OPTIONS, SourceOptions, parse_options
from penstock.config.stream import StreamOptions
from penstock.errors import OptionError
from penstock.wire.client_config import ClientConfig
from penstock.wire.transport.oauth import OAuthLogin
from penstock.wire.transport.security import Security
from penstock.wire.transport.tls import Tls

SOURCE = Path(penstock.__file__).parent

TABLE = OptionTable(
    Option("shop.size", number(1), "3", "The size of the shop.", "size"),
    Option("shop.name", text, None, "The name of the shop.", "name"),
    Option("shop.open", flag, "true", "Whether the shop is open."),
    aliases={"size": "shop.size"},
    refused={"shop.class": "Use shop.name"},
    no_effect={"shop.color": "every shop is green"},
)


MUST_BE = "must be text, a number, true or false, a list of texts or a dict, not"


def refuse(given: dict[str, object]) -> OptionError:
    with pytest.raises(OptionError) as caught:
        TABLE.parse(given)
    return caught.value


# --- the parser -------------------------------------------------------------------------------------------------------


def test_given_values_and_defaults():
    values = TABLE.parse({"shop.name": "corner", "shop.open": False})
    assert (values["shop.size"], values["shop.name"], values["shop.open"]) == (3, "corner", False)
    assert values.given == {"shop.name": "corner", "shop.open": False}


def test_fields_leave_out_what_is_neither_given_nor_has_a_default():
    assert TABLE.parse({}).fields(TABLE) == {"size": 3}
    assert TABLE.parse({"shop.name": "a", "size": 7}).fields(TABLE) == {"size": 7, "name": "a"}


def test_names_that_have_no_effect_are_reported_and_not_logged(caplog):
    assert TABLE.parse({"shop.color": "red"}).ignored == (("shop.color", "every shop is green"),)
    assert not caplog.records


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"shop.nmae": "hush"}, "option shop.nmae: is unknown. Did you mean shop.name?"),
        ({"shop_name": "hush"}, "option shop_name: is unknown. Did you mean shop.name?"),
        ({"shop.class": "X"}, "option shop.class = 'X': is not supported. Use shop.name"),
        ({"size": 0}, "option size = 0: must be at least 1"),
        ({"size": 1, "shop.size": 2}, "option shop.size = 2: contradicts size = 1. Set only shop.size"),
        (
            {"shop.name": None},
            f"option shop.name: {MUST_BE} None: leave it out",
        ),
        ({"shop.open": "yes"}, "option shop.open = 'yes': must be true or false"),
        ({"SHOP.SIZE": 1}, "option SHOP.SIZE: is unknown. Did you mean shop.size?"),
    ],
)
def test_errors_name_the_option_as_the_user_wrote_it(given, said):
    assert str(refuse(given)) == said


def test_case_is_ignored_only_if_the_table_says_so():
    table = OptionTable(*TABLE.values(), ignores_case=True)
    assert table.parse({"SHOP.SIZE": "5"})["shop.size"] == 5
    with pytest.raises(OptionError, match=r"option shop\.size = '0'"):
        table.parse({"SHOP.SIZE": "0"})


KAFKA = OptionTable(
    Option("kafka.group.id", text, None, "The group."),
    Option("kafka.group.id.size", number(1), None, "The size of the group."),
    Option("mode", text, None, "The mode."),
    refused={"kafka.class": "Use kafka.group.id"},
    no_effect={"kafka.color": "kafka.group.id decides"},
    ignores_case=True,
)


@pytest.mark.parametrize("name", ["kafka.group.id", "group.id", "Kafka.Group.ID", "Group.id"])
def test_the_prefix_of_kafkas_names_is_optional(name):
    values = KAFKA.parse({name: "g"})
    assert (values["kafka.group.id"], values.written) == ("g", {"kafka.group.id": name})
    assert KAFKA.declared_name(name) == "kafka.group.id"
    assert KAFKA.gives([name], "kafka.group.id")
    assert values.prefix == ("kafka." if name.lower().startswith("kafka.") else "")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"group.id.size": "0"}, "option group.id.size = '0': must be at least 1"),
        ({"kafka.group.id.size": "0"}, "option kafka.group.id.size = '0': must be at least 1"),
        ({"class": "X"}, "option class = 'X': is not supported. Use group.id"),
        ({"kafka.class": "X"}, "option kafka.class = 'X': is not supported. Use kafka.group.id"),
        ({"class": "X", "kafka.group.id": "g"}, "option class = 'X': is not supported. Use kafka.group.id"),
        ({"kafka.class": "X", "group.id": "g"}, "option kafka.class = 'X': is not supported. Use group.id"),
        ({"groop.id": "g"}, "option groop.id: is unknown. Did you mean group.id?"),
        ({"kafka.groop.id": "g"}, "option kafka.groop.id: is unknown. Did you mean kafka.group.id?"),
        (
            {"group.id": "a", "kafka.group.id": "b"},
            "option kafka.group.id = 'b': contradicts group.id = 'a'. Set only kafka.group.id",
        ),
    ],
)
def test_errors_write_kafkas_names_as_the_user_does(given, said):
    with pytest.raises(OptionError) as caught:
        KAFKA.parse(given)
    assert str(caught.value) == said


def test_warnings_write_kafkas_names_as_the_user_does():
    assert KAFKA.parse({"color": "red"}).ignored == (("color", "group.id decides"),)
    assert KAFKA.parse({"kafka.color": "red"}).ignored == (("kafka.color", "kafka.group.id decides"),)


def test_errors_after_parsing_write_kafkas_names_as_the_user_does():
    def fail(given):
        with pytest.raises(OptionError) as caught, KAFKA.names_as_written(given):
            raise OptionError("kafka.group.id", None, "is missing, and kafka.group.id.size is given", "See kafka.host")
        return str(caught.value)

    assert fail({"group.id.size": "1"}) == "option group.id: is missing, and group.id.size is given. See kafka.host"
    assert "option kafka.group.id: is missing, and kafka.group.id.size is" in fail({"kafka.group.id.size": "1"})
    assert "option kafka.group.id: is missing, and kafka.group.id.size is" in fail({})


@pytest.mark.parametrize("prefix", ["", "kafka."])
def test_all_front_ends_take_kafkas_names_with_and_without_the_prefix(prefix):
    given = {f"{prefix}bootstrap.servers": "h:1", f"{prefix}group.id": "g", f"{prefix}fetch.max.wait.ms": "7"}
    consumer, source = parse_config(given), parse_options(given | {"subscribe": "t"})
    assert (consumer.group, source.rules.group) == ("g", "g")
    for client in (consumer.client, source.client):
        assert (client.bootstrap, client.fetch_max_wait) == ((("h", 1),), 0.007)
        assert client.option("acks") == f"{prefix}acks"
    for parse, more in ((parse_config, {}), (parse_options, {"subscribe": "t"})):
        with pytest.raises(OptionError) as caught:
            parse(given | more | {f"{prefix}ssl.truststore.location": "ca.pem"})
        assert f"option {prefix}security.protocol = 'PLAINTEXT'" in str(caught.value)
        assert f"but {prefix}ssl.truststore.location is given" in str(caught.value)
        with pytest.raises(OptionError, match=rf"option {prefix}bootstrap\.servers: is missing"):
            parse({f"{prefix}group.id": "g"} | more)


def test_of_options_from_several_places_the_last_one_counts_however_it_is_written():
    layers = {"kafka.a": 1, "b": 2, "c": 3}, {"a": 4, "kafka.b": 5}
    assert merged(*layers) == {"a": 4, "kafka.b": 5, "c": 3}


def test_values_of_programs_become_text():
    assert [as_text("x", raw) for raw in (True, 7, 2.0, 0.5, "a", ["a", "b"])] == ["true", "7", "2", "0.5", "a", "a,b"]


@pytest.mark.parametrize("table", [SOURCE_OPTIONS, CONSUMER_OPTIONS], ids=["source", "consumer"])
def test_every_description_is_made_of_sentences(table):
    for option in table.values():
        assert option.doc[0].isupper() or option.doc[0] in "`-", option.name
        assert option.doc.endswith("."), option.name


# --- each default is written once -------------------------------------------------------------------------------------

VALUES = (
    *(ClientConfig, Security, Tls, OAuthLogin, RegistryConfig, ColumnOptions, FormatOptions, StreamOptions),
    *(EventTimeOptions, SourceOptions, ConsumerConfig),
)

NOT_OPTIONS = {"ClientConfig.option_prefix", "Security.is_delegation_token"}
"""The second is an entry of the JAAS line."""

READ_BY_THE_OPTION = {"Security.protocol", "Tls.check_hostname", "Tls.versions"}
"""`config` declares these options with the default of the class, which lies in a lower layer."""

ABSENT = (dataclasses.MISSING, None, "", (), math.inf)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: value.__name__)
def test_a_config_value_has_no_defaults_of_its_own(value):
    own = {
        f"{value.__name__}.{field.name}"
        for field in dataclasses.fields(value)
        if field.default not in ABSENT  # a nested value's factory has none either, by the same test
    }
    assert own <= NOT_OPTIONS | READ_BY_THE_OPTION


def test_no_function_repeats_the_default_of_an_option():
    numbers = {
        field.name
        for value in (ClientConfig, SourceOptions, StreamOptions, ConsumerConfig)
        for field in dataclasses.fields(value)
        if field.type in ("int", "float")
    }
    assert "poll_timeout" in numbers
    repeated = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef):
                arguments = node.args
                pairs = list(zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True))
                plain = [*arguments.posonlyargs, *arguments.args]
                pairs += list(zip(plain[len(plain) - len(arguments.defaults) :], arguments.defaults, strict=True))
                for argument, default in pairs:
                    if argument.arg in numbers and isinstance(default, ast.Constant) and default.value:
                        repeated.append(f"{path.relative_to(SOURCE)}: {node.name}({argument.arg}={default.value})")
    assert not repeated


def test_a_consumer_differs_from_the_source_in_two_defaults_only():
    shared = {name: option for name, option in CONSUMER_OPTIONS.items() if f"kafka.{name}" in KAFKA_OPTIONS}
    assert {name for name, option in shared.items() if option.default != KAFKA_OPTIONS[f"kafka.{name}"].default} == {
        "auto.offset.reset",
        "max.partition.fetch.bytes",
    }


# --- warnings come once per query -------------------------------------------------------------------------------------


def test_F5_parsing_logs_nothing(caplog):
    ignored = {"check.crcs": "false", "send.buffer.bytes": "1"}
    for _ in range(3):
        options = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", "maxOffsetsPerTrigger": "1"}
        parse_options(options | {f"kafka.{name}": value for name, value in ignored.items()})
        parse_config({"bootstrap.servers": "h:1", "group.id": "g"} | ignored)
    assert not caplog.records


def test_F5_only_planners_connectors_and_writers_warn_of_ignored_options():
    """Spark parses the options of one query in several processes, and plans it in one."""
    callers = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(called, ast.Name) and called.id in ("warn_of_ignored", "warn_in_batch"):
                callers.add(path.relative_to(SOURCE).as_posix())
    assert callers == {
        *("config/source.py", "planner/batch.py", "spark/stream_driver.py"),
        *("consumer/connector.py", "cli/read.py", "cli/copy.py", "arrow/writing.py", "writer/start.py"),
    }
