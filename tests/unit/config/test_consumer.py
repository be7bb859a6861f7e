"""The settings of a ConsumerConnector: today's names, the old names, and errors."""

import pickle

import pytest

from penstock import ConsumerConnector
from penstock.config.consumer import (
    CONSUMER_NO_EFFECT,
    CONSUMER_OPTIONS,
    CONSUMER_REFUSED,
    OLD_NAMES,
    parse_config,
)
from penstock.errors import OptionError
from support.own_logs import own_records

LEAST = {"bootstrap.servers": "localhost:9092", "group.id": "words"}
PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="hush";'


def parse(**more):
    return parse_config(LEAST | {name.replace("_", "."): value for name, value in more.items()})


def refuse(config: dict[str, object]) -> OptionError:
    with pytest.raises(OptionError) as caught:
        parse_config(config)
    return caught.value


def test_the_defaults_are_kafkas():
    config = parse()
    assert (config.group, config.consumer_id, config.instance_id) == ("words", None, None)
    assert (config.assignors, config.cooperative) == (("range",), False)
    assert (config.session_timeout, config.heartbeat_interval, config.rebalance_timeout) == (45, 3, 300)
    assert (config.auto_commit, config.auto_commit_interval, config.reset) == (True, 5, "latest")
    assert (config.consumer_timeout, config.queued_chunks, config.fetchers) == (None, 2, 1)
    assert (config.rebalance_retries, config.rebalance_backoff, config.refresh_leader_backoff) == (4, 2, 0.2)
    assert (config.metadata_max_age, config.exclude_internal) == (300, True)
    client = config.client
    assert (client.bootstrap, client.partition_max_bytes, client.fetch_max_bytes) == (
        (("localhost", 9092),),
        1 << 20,
        50 << 20,
    )
    assert client.decompression_limit == 256 << 20
    assert not client.read_committed


def test_the_brokers_assign_if_the_protocol_says_so():
    assert not parse().server_assigns
    config = parse(group_protocol="CONSUMER", group_remote_assignor="range", max_poll_interval_ms=60_000)
    assert (config.server_assigns, config.remote_assignor, config.rebalance_timeout) == (True, "range", 60)
    assert config.ignored == ()


def test_an_assignor_of_the_brokers_has_no_effect_in_the_classic_protocol():
    reason = "the members assign partitions in the classic protocol"
    assert parse(group_remote_assignor="uniform").ignored == (("group.remote.assignor", reason),)


def test_user_data_is_sent_if_needed_unless_the_user_decides():
    assert [parse(**given).user_data for given in ({}, {"group_user_data": False}, {"group_user_data": "true"})] == [
        *(None, False, True)
    ]


@pytest.mark.parametrize("name", sorted(CONSUMER_OPTIONS))
def test_every_default_is_a_value_that_is_taken(name):
    option = CONSUMER_OPTIONS[name]
    assert option.name == name
    assert option.doc.endswith(".")
    assert "kafka." not in option.doc
    if option.default is not None:
        option.parse(name, option.default)


@pytest.mark.parametrize(
    ("old", "value", "today"),
    [
        ("metadata.broker.list", "localhost:9092", "bootstrap.servers"),
        ("auto.commit.enable", "false", "enable.auto.commit"),
        ("fetch.message.max.bytes", "4096", "max.partition.fetch.bytes"),
        ("fetch.wait.max.ms", "70", "fetch.max.wait.ms"),
        ("socket.timeout.ms", "9000", "request.timeout.ms"),
        ("socket.receive.buffer.bytes", "65536", "receive.buffer.bytes"),
        ("topic.metadata.refresh.interval.ms", "1000", "metadata.max.age.ms"),
    ],
)
def test_H1_an_old_name_means_todays(old, value, today):
    assert OLD_NAMES[old] == today
    fresh = {name: given for name, given in LEAST.items() if name != today}
    assert parse_config(fresh | {old: value}) == parse_config(fresh | {today: value})
    assert today == "bootstrap.servers" or parse_config(fresh | {old: value}) != parse()


def test_H1_settings_of_the_old_consumer_are_accepted():
    config = parse(
        consumer_timeout_ms=100,
        num_consumer_fetchers=3,
        queued_max_message_chunks=7,
        rebalance_max_retries=9,
        rebalance_backoff_ms=50,
        refresh_leader_backoff_ms=20,
        auto_commit_interval_ms=1000,
        consumer_id="one",
    )
    assert (config.consumer_timeout, config.fetchers, config.queued_chunks) == (0.1, 3, 7)
    assert (config.rebalance_retries, config.rebalance_backoff, config.refresh_leader_backoff) == (9, 0.05, 0.02)
    assert (config.auto_commit_interval, config.consumer_id) == (1, "one")


@pytest.mark.parametrize(
    ("word", "reset"),
    [("smallest", "earliest"), ("largest", "latest"), ("Earliest", "earliest"), ("none", "none")],
)
def test_H12_the_reset_rule_has_old_and_new_names(word, reset):
    assert parse(auto_offset_reset=word).reset == reset


def test_an_old_and_a_new_name_may_say_the_same():
    assert parse_config(LEAST | {"auto.commit.enable": False, "enable.auto.commit": "false"}).auto_commit is False


def test_an_old_and_a_new_name_that_contradict_are_refused():
    error = refuse(LEAST | {"auto.commit.enable": False, "enable.auto.commit": "true"})
    assert str(error) == (
        "option enable.auto.commit = 'true': contradicts auto.commit.enable = False. Set only enable.auto.commit"
    )


@pytest.mark.parametrize(
    ("raw", "interval"),
    [("2000", 2), (2000, 2), (2000.0, 2), (" 2000 ", 2)],
)
def test_values_come_as_text_or_as_what_they_are(raw, interval):
    assert parse(auto_commit_interval_ms=raw).auto_commit_interval == interval


@pytest.mark.parametrize("raw", [False, "false", "FALSE"])
def test_flags_come_as_text_or_as_what_they_are(raw):
    assert parse(enable_auto_commit=raw).auto_commit is False


def test_lists_come_as_text_or_as_what_they_are():
    config = parse_config(LEAST | {"bootstrap.servers": ["a:1", "b:2"], "partition.assignment.strategy": ("range",)})
    assert config.client.bootstrap == (("a", 1), ("b", 2))
    assert config.assignors == ("range",)


@pytest.mark.parametrize(
    ("value", "assignors", "cooperative"),
    [
        ("roundrobin", ("roundrobin",), False),
        ("cooperative-sticky", ("cooperative-sticky",), True),
        ("penstock-fixed, range,range", ("penstock-fixed", "range"), False),
        # Java's own default. Eager if one of the list is, because the group may choose that one.
        (
            "org.apache.kafka.clients.consumer.RangeAssignor,org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
            ("range", "cooperative-sticky"),
            False,
        ),
    ],
)
def test_H6_assignors_by_kafkas_names_and_by_javas(value, assignors, cooperative):
    config = parse(partition_assignment_strategy=value)
    assert (config.assignors, config.cooperative) == (assignors, cooperative)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"zookeeper.connect": "zoo:2181"}, "use bootstrap.servers"),
        ({"offsets.storage": "zookeeper"}, "offsets are stored only in Kafka"),
        ({"dual.commit.enabled": True}, "penstock groups reset GROUP --from-file"),
        ({"key.deserializer": "some.Class"}, "Use key_decoder and value_decoder"),
        ({"value.deserializer": "some.Class"}, "Use key_decoder and value_decoder"),
        ({"group.protocol": "share"}, "must be one of classic, consumer"),
        ({"group.protocol": "consumer", "session.timeout.ms": 6000}, "group.consumer.session.timeout.ms decides"),
        ({"group.protocol": "consumer", "heartbeat.interval.ms": 500}, "group.consumer.heartbeat.interval.ms decides"),
        ({"group.protocol": "consumer", "partition.assignment.strategy": "range"}, "Set group.remote.assignor"),
        ({"auto.offset.reset": "smalest"}, "must be one of earliest, latest, none"),
        ({"auto.offset.reset": "by_duration"}, "has no duration. Examples: by_duration:PT30M"),
        ({"auto.offset.reset": "by_duration:1h"}, "'1h' is not a duration in ISO 8601. Examples: by_duration:PT30M"),
        ({"auto.offset.reset": "by_duration:PT"}, "is not a duration"),
        ({"auto.offset.reset": "by_duration:-PT1H"}, "is a negative duration"),
        ({"auto.offset.reset": "by-duration:PT1H"}, "is not a reset. Examples: by_duration:PT30M"),
        ({"partition.assignment.strategy": "rnage"}, "Did you mean range?"),
        ({"partition.assignment.strategy": "range,sticky"}, "'sticky' is not an assignor that Penstock has"),
        ({"partition.assignment.strategy": " , "}, "names no assignor"),
        ({"group.instance.id": "a b"}, "1 to 249 of the letters"),
        ({"group.id": " "}, "is empty"),
        ({"group.id": None}, "not None: leave it out"),
        ({"group.id": b"words"}, "not a bytes"),
        ({"auto.commit.interval.ms": 0.5}, "= 0.5: is not a whole number"),
        ({"consumer.timeout.ms": -2}, "must be at least -1"),
        ({"queued.max.message.chunks": 0}, "must be at least 1"),
        ({"enable.auto.commit": "yes"}, "must be true or false"),
        ({"groupid": "words"}, "is unknown. Did you mean group.id?"),
        ({"group_id": "words"}, "is unknown. Did you mean group.id?"),
        ({"auto.comit.enable": "words"}, "is unknown. Did you mean auto.commit.enable?"),
        ({"kafka.fetch.min.byte": "1"}, "is unknown. Did you mean kafka.fetch.min.bytes?"),
        ({"kafka.valueFormat": "json"}, "is unknown. Did you mean valueFormat?"),
        (
            {"eventTime.maxDrift": "5m"},
            "is unknown. Event-time options belong to the Spark source. Use Consumer",
        ),
        ({"heartbeat.interval.ms": 45000}, "must be less than session.timeout.ms = 45000"),
        ({"socket.timeout.ms": 400}, "fetch.max.wait.ms = '500': must be less than socket.timeout.ms = 400"),
        ({"sasl.username": "me"}, "Set sasl.jaas.config"),
    ],
)
def test_impossible_settings_are_refused_with_a_hint(wrong, words):
    error = refuse(LEAST | wrong)
    assert words in str(error)
    assert error.name in {*wrong, "fetch.max.wait.ms"}


@pytest.mark.parametrize("missing", ["bootstrap.servers", "group.id"])
def test_a_missing_required_setting_is_named(missing):
    error = refuse({name: value for name, value in LEAST.items() if name != missing})
    assert error.name == missing
    assert error.hint


def test_H1_the_error_without_a_group_says_what_one_is():
    assert "the same for consumers that share work" in str(refuse({"bootstrap.servers": "localhost:9092"}))


@pytest.mark.parametrize(
    "wrong",
    [
        {"bootstrap.servers": "PLAINTEXT://kafka.example.org:9092"},
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"},
        {"sasl.mechanism": "PLAIN"},
        {"ssl.keystore.key": "hush"},
        {"ssl.keystore.type": "JKS"},
        {"ssl.truststore.location": "store.jks"},
    ],
)
def test_errors_of_the_client_name_settings_as_the_user_writes_them(wrong):
    error = refuse(LEAST | wrong)
    assert error.name in CONSUMER_OPTIONS
    said = f"{error.name} {error.reason} {error.hint}"
    assert not [name for name in CONSUMER_OPTIONS if f"kafka.{name}" in said.replace("org.apache.kafka.", "")]
    assert "hush" not in str(error)


def test_a_brokers_own_name_is_left_as_it_is():
    assert "'kafka.example.org'" in str(refuse(LEAST | {"bootstrap.servers": "kafka.example.org"}))


def test_secrets_show_nowhere():
    login = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN}
    config = parse_config(LEAST | login | {"ssl.key.password": "hush"})
    assert config.client.security.sasl_password == "hush"
    assert "hush" not in repr(config)
    for wrong in ({"sasl.password": "hush"}, {"ssl.key.pasword": "hush"}, {"ssl.key.password": ["hush", 1]}):
        assert "hush" not in str(refuse(LEAST | wrong))


def test_F5_a_connector_warns_once_of_what_means_nothing_here(caplog):
    idle = {
        "check.crcs": True,
        "zookeeper.session.timeout.ms": 400,
        "offsets.storage": "kafka",
    }
    assert parse_config(LEAST | idle) == parse()
    assert own_records(caplog) == []
    ConsumerConnector(LEAST | idle).shutdown()
    assert [(record.levelname, record.getMessage()) for record in own_records(caplog)] == [
        ("WARNING", f"setting {name} has no effect: {CONSUMER_NO_EFFECT[name]}") for name in idle
    ]


def test_a_name_is_in_one_list_only():
    lists = [set(CONSUMER_OPTIONS), set(OLD_NAMES), set(CONSUMER_REFUSED), set(CONSUMER_NO_EFFECT)]
    assert sum(map(len, lists)) == len(set.union(*lists))
    assert set(OLD_NAMES.values()) <= set(CONSUMER_OPTIONS)


def test_a_config_can_be_pickled():
    assert pickle.loads(pickle.dumps(parse())) == parse()
