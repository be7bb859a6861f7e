"""What the log shows when a read, a write or a consumer starts (H18)."""

from __future__ import annotations

import logging

import pytest

from penstock.config.consumer import parse_config
from penstock.config.in_force import options_text, versions
from penstock.config.sink import parse_sink_options
from penstock.config.source import parse_options
from penstock.errors import OptionError

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="hush";'
LOGIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": JAAS}
READ = {"bootstrap.servers": "broker:9092", "subscribe": "clicks"}


def test_H18_options_are_shown_as_their_user_wrote_them_without_secrets():
    shown = options_text(parse_options(READ | LOGIN | {"MaxOffsetsPerTrigger": "5"}).shown)
    assert shown == (
        "bootstrap.servers=broker:9092, subscribe=clicks, security.protocol=SASL_PLAINTEXT, sasl.mechanism=PLAIN, "
        "sasl.jaas.config=***, MaxOffsetsPerTrigger=5"
    )


@pytest.mark.parametrize("parse", [parse_sink_options, lambda given: parse_config(given | {"group.id": "g"})])
def test_H18_writes_and_consumers_show_theirs_too(parse):
    shown = options_text(parse({"bootstrap.servers": "broker:9092"} | LOGIN).shown)
    assert "sasl.jaas.config=***" in shown
    assert "hush" not in shown


def test_H18_a_secret_within_another_option_is_masked():
    given = {"valueFormat": "json", "valueSchema": "password=hush INT"}
    with pytest.raises(OptionError, match="deadLetterTopic") as caught:
        parse_options(READ | given | {"mode": "DEADLETTER"})
    assert "hush" not in str(caught.value)
    assert "hush" not in options_text(parse_options(READ | given).shown)


def test_H18_a_long_text_is_cut_and_takes_one_line():
    schema = ",\n".join(f"column_{number} INT" for number in range(100))
    _, text = parse_options(READ | {"valueFormat": "json", "valueSchema": schema}).shown[-1]
    assert "\n" not in text
    assert text.endswith(f"... ({len(schema)} characters)")


def test_H18_versions_name_what_a_bug_report_needs():
    text = versions()
    for name in ("penstock ", "pyarrow ", "Python 3."):
        assert name in text


@pytest.mark.parametrize(
    ("text", "level"), [("debug", logging.DEBUG), ("INFO", logging.INFO), ("warning", logging.WARNING)]
)
def test_H18_one_option_sets_the_level(text, level):
    assert parse_options(READ | {"logLevel": text}).log_level == level
    assert parse_sink_options({"bootstrap.servers": "broker:9092", "logLevel": text}).log_level == level


def test_H18_an_unknown_level_is_refused_with_the_nearest():
    with pytest.raises(OptionError, match="Did you mean warning"):
        parse_options(READ | {"logLevel": "warnings"})
