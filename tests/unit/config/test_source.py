"""The options of the source: their values, and the errors of wrong ones."""

import math
import pickle
import time

import pytest

from penstock.config.client import KAFKA_NO_EFFECT, KAFKA_OPTIONS
from penstock.config.source import (
    NO_EFFECT,
    OPTIONS,
    check_batch,
    parse_options,
    warn_in_batch,
)
from penstock.errors import OptionError
from penstock.model.offset_spec import AtOffsets, AtTimestamp, Earliest, GroupOffsets, Latest, PerPartition
from penstock.model.subscription import AssignedPartitions, TopicNames, TopicPattern
from penstock.model.topic_partition import TopicPartition
from support.own_logs import own_records

BROKER = {"kafka.bootstrap.servers": "localhost:9092"}
ONE_TOPIC = BROKER | {"subscribe": "events"}
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="hush \\"hush\\"";'


def parse(**more: str):
    return parse_options(ONE_TOPIC | more)


def refuse(options: dict[str, str]) -> OptionError:
    with pytest.raises(OptionError) as caught:
        check_batch(parse_options(options))
    return caught.value


@pytest.mark.parametrize(
    ("option", "value", "subscription"),
    [
        ("subscribe", "a, b ,a", TopicNames(("a", "b"))),
        ("subscribePattern", "a.*", TopicPattern("a.*")),
        ("assign", '{"a": [0, 2]}', AssignedPartitions((TopicPartition("a", 0), TopicPartition("a", 2)))),
    ],
)
def test_F1_topics_are_named_matched_or_assigned(option, value, subscription):
    assert parse_options(BROKER | {option: value}).subscription == subscription


def test_F1_two_ways_to_subscribe_are_refused():
    error = refuse(ONE_TOPIC | {"subscribePattern": "e.*"})
    assert "only one of subscribe, subscribePattern, assign" in str(error)


def test_F1_no_way_to_subscribe_is_refused():
    assert "is missing: it names the topics" in str(refuse(BROKER))


@pytest.mark.parametrize("value", ["", " , "])
def test_F1_an_empty_subscription_is_refused(value):
    assert refuse(BROKER | {"subscribe": value}).name == "subscribe"


@pytest.mark.parametrize("name", ["kafka.key.deserializer", "kafka.value.deserializer"])
def test_F2_a_deserializer_is_refused_with_a_hint(name):
    assert "Set keyFormat and valueFormat" in str(refuse(ONE_TOPIC | {name: "some.Class"}))


def test_F5_kafka_properties_reach_the_client():
    client = parse(
        **{
            "kafka.client.id": "me",
            "kafka.client.rack": "r1",
            "kafka.isolation.level": "read_committed",
            "kafka.fetch.max.wait.ms": "250",
            "kafka.max.partition.fetch.bytes": "1000",
        }
    ).client
    assert (client.client_id, client.client_rack, client.read_committed) == ("me", "r1", True)
    assert (client.fetch_max_wait, client.partition_max_bytes) == (0.25, 1000)


def test_F5_a_poll_timeout_that_is_not_a_number_is_named():
    error = refuse(ONE_TOPIC | {"kafkaConsumer.pollTimeoutMs": "soon"})
    assert error.name == "kafkaConsumer.pollTimeoutMs"
    assert "'soon': is not a whole number" in str(error)


@pytest.mark.parametrize(
    ("options", "mode"),
    [
        ({"startingOffsets": "earliest"}, Earliest()),
        ({"startingOffsets": "LATEST"}, Latest()),
        ({"startingOffsets": "group", "kafka.group.id": "g"}, GroupOffsets()),
        ({"startingTimestamp": "123"}, AtTimestamp(123)),
        (
            {"startingOffsets": '{"events": {"0": 5, "1": -2}}'},
            AtOffsets(PerPartition({}, {TopicPartition("events", 0): 5, TopicPartition("events", 1): -2})),
        ),
        (
            {"startingOffsetsByTimestamp": '{"events": {"0": 5}}'},
            AtTimestamp(PerPartition({}, {TopicPartition("events", 0): 5}), "startingOffsetsByTimestamp"),
        ),
    ],
)
def test_F6_five_ways_to_start(options, mode):
    assert parse(**options).starting == mode


def test_F6_times_are_milliseconds_iso_texts_or_relative_to_one_now():
    now, hour = 1_738_324_800_000, 3_600_000  # 2025-01-31T12:00Z
    options = parse_options(ONE_TOPIC | {"startingTimestamp": "2025-01-31T10:00Z", "endingTimestamp": "-1h"}, now)
    assert options.starting == AtTimestamp(now - 2 * hour)
    assert options.ending == AtTimestamp(now - hour, "endingTimestamp")
    given = {"events": {"0": 5, "1": "2025-01-31T10:00Z"}, "more": "-1h"}
    options = parse_options(ONE_TOPIC | {"startingOffsetsByTimestamp": given}, now)
    partitions = {TopicPartition("events", 0): 5, TopicPartition("events", 1): now - 2 * hour}
    assert options.starting == AtTimestamp(PerPartition({"more": now - hour}, partitions), "startingOffsetsByTimestamp")


def test_F6_without_a_given_now_relative_times_count_from_this_moment():
    before = time.time_ns() // 1_000_000
    starting = parse(startingTimestamp="-1h").starting
    assert before <= starting.timestamp + 3_600_000 <= time.time_ns() // 1_000_000


def test_F6_offsets_may_be_a_time_as_on_the_command_line():
    now, hour = 1_738_324_800_000, 3_600_000  # 2025-01-31T12:00Z
    options = parse_options(ONE_TOPIC | {"startingOffsets": "-1h", "endingOffsets": "2025-01-31T11:30Z"}, now)
    assert options.starting == AtTimestamp(now - hour, "startingOffsets")
    assert options.ending == AtTimestamp(now - hour // 2, "endingOffsets")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"startingOffsets": "-1"}, "is neither a time nor JSON with offsets. For a time add a unit, as in -1h"),
        ({"startingOffsets": "1738324800000"}, "For a time set startingTimestamp"),
        ({"endingOffsets": "42"}, "For a time set endingTimestamp"),
        ({"startingOffsets": '{"events": {"0": "-1h"}}'}, "Set startingOffsetsByTimestamp for times in JSON"),
        ({"startingOffsets": "-1w"}, "Write a whole number and one of"),
        ({"startingOffsets": "-1h", "endingOffsets": "-2h"}, "is after endingOffsets"),
        ({"startingOffsets": "soon"}, "must be earliest, earliest-local, latest, group, a time or JSON"),
    ],
)
def test_F6_a_number_is_no_time_where_offsets_are_expected(options, words):
    assert words in str(refuse(ONE_TOPIC | options))


@pytest.mark.parametrize("name", ["topic", "topics", "Topic"])
def test_the_sinks_option_topic_hints_at_subscribe(name):
    error = refuse(ONE_TOPIC | {name: "events"})
    assert str(error) == f"option {name}: is unknown. A read names its topics with option subscribe"


def test_F6_group_offsets_need_a_group():
    assert "kafka.group.id" in str(refuse(ONE_TOPIC | {"startingOffsets": "group"}))


def test_offset_json_may_name_a_whole_topic():
    mode = parse(startingOffsets='{"events": "earliest", "more": 7}').starting
    assert mode == AtOffsets(PerPartition({"events": -2, "more": 7}))


def test_the_timestamp_options_come_before_the_offsets_as_in_spark():
    options = {"startingOffsets": "earliest", "startingTimestamp": "5", "startingOffsetsByTimestamp": '{"events": 6}'}
    assert parse(**options).starting == AtTimestamp(5)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"startingOffsets": "latest"}, "a batch cannot start at the end"),
        ({"startingOffsets": '{"events": {"0": -1}}'}, "events-0: -1"),
        ({"endingOffsets": "earliest"}, "the end cannot be the beginning"),
        ({"endingOffsets": '{"events": {"0": -2}}'}, "the end cannot be the beginning"),
        ({"endingOffsets": "group", "kafka.group.id": "g"}, "where to start, not where to stop"),
        ({"startingOffsets": "erliest"}, "Did you mean earliest?"),
        ({"startingOffsets": "{not json"}, "is not JSON"),
        ({"startingOffsets": "{}"}, "at least one topic"),
        ({"startingOffsets": '{"events": {"zero": 1}}'}, "'zero' is not a partition"),
        ({"startingOffsets": '{"events": {"0": -3}}'}, "-3 is not a whole number of at least -2"),
        ({"startingOffsets": '{"events": {"0": true}}'}, "True is not a whole number"),
        ({"startingTimestamp": "-1"}, "Add a unit: -1s, -1m, -1h or -1d"),
        ({"startingTimestamp": "-1h", "endingTimestamp": "-2h"}, "is after endingTimestamp"),
        ({"startingOffsetsByTimestamp": '{"events": "soon"}'}, "'soon': is not a time"),
        ({"startingTimestamp": "20", "endingTimestamp": "10"}, "is after endingTimestamp = 10"),
        (
            {"startingOffsets": '{"events": {"0": 9}}', "endingOffsets": '{"events": {"0": 8}}'},
            "is after endingOffsets = 8 for events-0",
        ),
        ({"startingOffsets": '{"events": 9}', "endingOffsets": '{"events": 8}'}, "for events"),
        ({"minPartitions": "0"}, "must be at least 1"),
        ({"maxRecordsPerPartition": "none"}, "is not a whole number"),
        ({"includeHeaders": "yes"}, "must be true or false"),
        ({"failOnDataLoss": ""}, "must be true or false"),
        ({"kafka.enable.auto.commit": "true"}, "see commitMode"),
        ({"kafka.interceptor.classes": "x"}, "is not supported"),
        ({"kafka.auto.offset.reset": "earliest"}, "Set startingOffsets to say where to start"),
        ({"kafka.isolation.level": "read_commited"}, "Did you mean read_committed?"),
        ({"kafka.fetch.max.bytes": "0"}, "must be at least 1"),
        ({"kafka.security.protocol": "TLS"}, "must be one of PLAINTEXT, SSL"),
        ({"kafka.ssl.keystore.type": "JCEKS"}, "keytool"),
        ({"kafka.sasl.mechanism": "PLAIN"}, "does not log in, but kafka.sasl.mechanism is given"),
        ({"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN"}, "must name username and password"),
        ({"path": "events"}, "use option subscribe"),
        ({"startingOffset": "earliest"}, "Did you mean startingOffsets?"),
        ({"bootstrap.servers": "x:1"}, "contradicts kafka.bootstrap.servers = 'localhost:9092'"),
        ({"isolation.lvl": "x"}, "option isolation.lvl: is unknown. Did you mean isolation.level?"),
        ({"topic": "events"}, "A read names its topics with option subscribe"),
        ({"kafka.isolation.lvl": "x"}, "Did you mean kafka.isolation.level?"),
        ({"frobnicate": "1"}, "is unknown"),
        ({"subscribe": "a", "assign": "{}"}, "at least one topic"),
        ({"kafka.bootstrap.servers": "localhost"}, "'localhost' is not host:port"),
        ({"kafka.bootstrap.servers": "localhost:99999"}, "is not host:port"),
        ({"kafka.bootstrap.servers": "PLAINTEXT://localhost:9092"}, "without a protocol"),
        ({"kafka.ssl.keystore.key": "pem"}, "kafka.ssl.keystore.certificate.chain"),
    ],
)
def test_a_wrong_option_is_refused_with_its_name_its_value_and_a_hint(options, words):
    error = refuse(ONE_TOPIC | options)
    assert words in str(error)
    assert any(name.lower() in str(error).lower() for name in options)


def test_a_wrong_pattern_is_refused():
    assert "is not a regular expression" in str(refuse(BROKER | {"subscribePattern": "a("}))


def test_a_missing_broker_is_refused():
    assert "kafka.bootstrap.servers: is missing" in str(refuse({"subscribe": "a"}))


def test_names_are_taken_in_any_case():
    assert parse(STARTINGOFFSETS="earliest", MinPartitions="3").min_partitions == 3


@pytest.mark.parametrize("name", [*NO_EFFECT, *sorted(KAFKA_NO_EFFECT)])
def test_what_has_no_effect_is_taken(name):
    assert parse(**{name: "1"}) == parse()


def test_F21_a_named_group_is_committed_to_unless_the_mode_says_otherwise():
    assert parse().stream.commit_mode == "disabled"
    assert parse(**{"kafka.group.id": "g"}).stream.commit_mode == "on-checkpoint"
    assert parse(**{"kafka.group.id": "g", "commitMode": "Periodic"}).stream.commit_mode == "periodic"
    assert parse(**{"kafka.group.id": "g", "commitMode": "disabled"}).stream.commit_mode == "disabled"
    assert parse(**{"kafka.auto.commit.interval.ms": "250"}).stream.commit_interval == 0.25


def test_F14_a_negative_discovery_interval_is_an_error_but_for_minus_one_which_is_never():
    name = "partition.discovery.interval.ms"
    assert parse().stream.discovery_interval == 30
    assert parse(**{name: "0"}).stream.discovery_interval == 0
    assert parse(**{name: "-1"}).stream.discovery_interval == math.inf
    assert "must be at least -1" in str(refuse(ONE_TOPIC | {name: "-2"}))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("15m", 900),
        ("500ms", 0.5),
        ("2 h", 7200),
        ("750", 0.75),
        ("10S", 10),
        ("1min", 60),
        ("10 minutes", 600),
        ("1 Day", 86_400),
    ],
)
def test_a_delay_is_written_as_in_spark(text, seconds):
    assert parse(maxTriggerDelay=text).stream.max_delay == seconds


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"commitMode": "on-checkpoint"}, "Set kafka.group.id"),
        ({"commitMode": "periodical", "kafka.group.id": "g"}, "Did you mean periodic?"),
        ({"maxTriggerDelay": "soon"}, "15m, 30s, 500ms"),
        ({"maxOffsetsPerTrigger": "0"}, "must be at least 1"),
        ({"maxBytesPerTrigger": "1GB"}, "is not a whole number"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "is more than maxOffsetsPerTrigger = 8"),
        ({"filterRestoredPartitions": "no"}, "must be true or false"),
        ({"allowUnrelatedCheckpoint": "yes"}, "must be true or false"),
    ],
)
def test_a_wrong_stream_option_is_refused(options, words):
    assert words in str(refuse(ONE_TOPIC | options))


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("eventTime.idleness", "0s", "must be more than 0"),
        ("eventTime.idleness", "999999999999d", "is too long"),
        ("eventTime.maxDrift", "1000000000d", "is too long"),
        ("eventTime.outOfOrderness", "999999999999d", "is too long"),
        ("eventTime.outOfOrderness", "soon", "is not a time"),
    ],
)
def test_F19_a_wrong_time_is_refused_by_the_options_own_name(name, value, reason):
    error = refuse(ONE_TOPIC | {name: value})
    assert (error.name, error.value) == (name, value)
    assert reason in str(error)


def test_F19_the_longest_times_and_none_at_all_are_taken():
    longest, milliseconds = "999999999d", 999_999_999 * 86_400_000
    options = {"eventTime.maxDrift": longest, "eventTime.outOfOrderness": longest, "eventTime.idleness": longest}
    strategy = parse(**options).event_time.strategy
    assert (strategy.max_drift, strategy.out_of_orderness) == (milliseconds, milliseconds)
    assert strategy.idleness == milliseconds / 1000
    none = parse(**{"eventTime.maxDrift": "0s", "eventTime.idleness": "Never"}).event_time.strategy
    assert (none.max_drift, none.out_of_orderness, none.idleness) == (0, 0, None)


def test_F6_a_stream_may_start_at_the_end_and_not_end_at_the_beginning():
    assert isinstance(parse(startingOffsets="latest", endingOffsets='{"a": -1}').starting, Latest)
    assert "the end cannot be the beginning" in str(refuse(ONE_TOPIC | {"endingOffsets": '{"a": {"0": -2}}'}))


def test_F5_what_has_no_effect_is_warned_of_when_a_query_is_planned_and_not_before(caplog):
    options = parse(maxOffsetsPerTrigger="5", **{"kafka.check.crcs": "false"})
    check_batch(options)
    assert own_records(caplog) == []
    warn_in_batch(options)
    assert [record.getMessage() for record in own_records(caplog)] == [
        "option kafka.check.crcs has no effect: checksums are always checked",
        "option maxOffsetsPerTrigger has no effect: this is a batch read",
    ]


def test_several_brokers_and_ipv6():
    servers = parse(**{"kafka.bootstrap.servers": "a:1, [::1]:2,"}).client.bootstrap
    assert servers == (("a", 1), ("::1", 2))


def test_reset_rule_goes_with_a_group():
    rules = parse(**{"kafka.auto.offset.reset": "Earliest", "kafka.group.id": "g"}).rules
    assert (rules.group, rules.reset) == ("g", "earliest")


SECRETS = {
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.jaas.config": JAAS,
    "kafka.ssl.key.password": "hush-key",
    "kafka.ssl.keystore.key": "hush-pem",
    "kafka.ssl.keystore.certificate.chain": "chain",
}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("key", ("key",)),
        (" value.user_id , offset,", ("value.user_id", "offset")),
        ("`a,b`, value.`c.d`, ```e```", ("a,b", "value.c.d", "`e`")),
    ],
)
def test_columns_are_names_with_commas_between(text, names):
    assert parse(columns=text).columns == names


@pytest.mark.parametrize(("text", "said"), [(" , ", "names no column"), ("a, `b", "without its second one")])
def test_columns_that_name_nothing_are_refused(text, said):
    assert said in str(refuse(ONE_TOPIC | {"columns": text}))


def test_a_login_is_read_from_the_jaas_line():
    security = parse(**SECRETS).client.security
    assert (security.sasl_username, security.sasl_password) == ("me", 'hush "hush"')


def test_no_secret_is_in_the_repr_of_the_options():
    options = parse(**SECRETS)
    assert "hush" not in repr(options)
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize("name", ["kafka.sasl.jaas.confg", "kafka.sasl.jass.config", "kafka.ssl.key.pasword", "pwd"])
def test_no_secret_is_in_an_error(name):
    error = refuse(ONE_TOPIC | {name: JAAS})
    assert "hush" not in str(error)
    assert "hush" not in repr(error.value)


def test_every_option_is_documented_and_its_default_is_what_parsing_gives():
    for option in [*OPTIONS.values(), *KAFKA_OPTIONS.values()]:
        assert option.doc.strip().endswith("."), option.name
        if option.default is not None and option.name not in ("startingOffsets", "kafka.auto.offset.reset"):
            given = ONE_TOPIC | {option.name: option.default}
            security = {"kafka.security.protocol": "SSL"} if option.name.startswith("kafka.ssl.") else {}
            if option.name.startswith("kafka.sasl."):
                kerberos = option.name.startswith("kafka.sasl.kerberos.")
                mechanism = "GSSAPI" if kerberos else "OAUTHBEARER"
                security = {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": mechanism}
            assert parse_options(given | security) == parse(**security), option.name
