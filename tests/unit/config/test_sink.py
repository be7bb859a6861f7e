"""Options of a write: named as in Spark's Kafka sink, checked together."""

from __future__ import annotations

import pickle

import pytest

from penstock.config.producer import PRODUCER_NO_EFFECT
from penstock.config.sink import SINK_OPTIONS, check_notes, parse_sink_options
from penstock.errors import OptionError

SERVERS = {"kafka.bootstrap.servers": "broker:9092"}


def parse(**options: object):
    return parse_sink_options(SERVERS | {name.replace("__", "."): value for name, value in options.items()})


def test_defaults():
    options = parse_sink_options(SERVERS)
    assert (options.topic, options.guarantee, options.include_headers) == (None, "at-least-once", True)
    assert options.producer.idempotent
    assert options.producer.acks == -1
    assert options.producer.delivery_timeout == 120
    assert pickle.loads(pickle.dumps(options)) == options


def test_names_are_accepted_in_any_case():
    assert parse(TOPIC="out", Kafka__ACKS="all").topic == "out"


def test_servers_are_required():
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers: is missing"):
        parse_sink_options({"topic": "out"})


def test_an_unknown_option_names_the_nearest():
    with pytest.raises(OptionError, match="Did you mean topic"):
        parse(topc="out")
    with pytest.raises(OptionError, match=r"option kafka\.ack: is unknown. Did you mean kafka\.acks"):
        parse_sink_options(SERVERS | {"kafka.ack": "all"})
    with pytest.raises(OptionError, match=r"option linger\.mss: is unknown. Did you mean linger\.ms"):
        parse_sink_options(SERVERS | {"linger.mss": "5"})


def test_the_prefix_of_kafkas_names_is_optional():
    bare = parse_sink_options({"bootstrap.servers": "broker:9092", "acks": "1", "compression.type": "zstd"})
    full = parse_sink_options(SERVERS | {"kafka.acks": "1", "kafka.compression.type": "zstd"})
    assert (bare.producer, bare.client.bootstrap) == (full.producer, full.client.bootstrap)
    with pytest.raises(OptionError, match=r"needs acks=all and enable\.idempotence=true"):
        parse_sink_options({"bootstrap.servers": "b:1", "acks": "1", "deliveryGuarantee": "exactly-once"})


@pytest.mark.parametrize("name", ["subscribe", "kafka.key.serializer", "kafka.partitioner.class", "path"])
def test_what_a_sink_cannot_do_is_refused_with_the_alternative(name):
    with pytest.raises(OptionError, match=r"is not supported\. \w+"):
        parse_sink_options(SERVERS | {name: "x"})


@pytest.mark.parametrize("name", ["kafka.group.id", "kafka.fetch.min.bytes", *sorted(PRODUCER_NO_EFFECT)])
def test_options_without_effect_are_accepted_and_listed(name):
    ((ignored, reason),) = parse_sink_options(SERVERS | {name: "1"}).ignored
    assert ignored == name
    assert reason


def test_other_acks_than_all_turn_idempotence_off():
    assert not parse(kafka__acks="1").producer.idempotent
    with pytest.raises(OptionError, match="contradicts"):
        parse(kafka__acks="1", kafka__enable__idempotence="true")


def test_W4_exactly_once_needs_an_idempotent_producer():
    with pytest.raises(OptionError, match="deliveryGuarantee"):
        parse(deliveryGuarantee="exactly-once", kafka__acks="1")


def test_compression_levels_belong_to_their_codec():
    given = {"kafka.compression.type": "zstd", "kafka.compression.zstd.level": "7", "kafka.compression.lz4.level": "3"}
    assert parse_sink_options(SERVERS | given).producer.level == 7
    with pytest.raises(OptionError, match="at most 22"):
        parse_sink_options(SERVERS | {"kafka.compression.zstd.level": "23"})


def test_foreach_batch_needs_both_ids():
    with pytest.raises(OptionError, match="batchId: is missing"):
        parse(queryId="q")
    with pytest.raises(OptionError, match="queryId: is missing"):
        parse(batchId="1")
    assert parse(queryId="q", batchId="1").batch_id == 1


def test_notes_need_the_name_of_a_topic():
    with pytest.raises(OptionError, match="noteTopic"):
        check_notes(parse())
    check_notes(parse(topic="out"))
    options = parse(noteTopic="notes")
    check_notes(options)
    assert options.notes_in == "notes"


def test_every_option_is_described_in_sentences():
    for option in SINK_OPTIONS.values():
        assert option.doc.endswith("."), option.name
