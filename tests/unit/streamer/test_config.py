"""The configuration of a Streamer: one checked value."""

from __future__ import annotations

import dataclasses

import pytest

from penstock import OptionError, Streamer
from penstock.streamer.config import DEFAULTS, StreamerSettings, streamer_config
from penstock.streamer.sinks.sink import CallableSink, Limits

KAFKA = {"bootstrap.servers": "h:1", "group.id": "g"}


def test_every_keyword_argument_has_a_default():
    assert set(StreamerSettings.__annotations__) == set(DEFAULTS)


def test_an_unknown_keyword_argument_is_a_type_error():
    with pytest.raises(TypeError, match=r"Streamer\(\) got an unexpected keyword argument 'flush_row'"):
        Streamer("t", sink=print, config=KAFKA, flush_row=1)


def test_arguments_become_one_frozen_value():
    config = streamer_config("t", 2, None, print, {"config": KAFKA, "flush_rows": 7, "columns": ["value"]})
    assert (config.topic, config.threads, config.limit, config.retry_timeout) == ("t", 2, None, 5.0)
    assert isinstance(config.sink, CallableSink)
    assert config.limits == dataclasses.replace(Limits(), rows=7)
    assert config.columns == ("value", "partition", "offset")
    assert (config.consumer.group, config.consumer.auto_commit) == ("g", False)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.topic = "other"


def test_F28_a_wrong_predicate_is_found_before_any_thread_starts():
    given = {"config": KAFKA, "where": "value.user = 1"}
    with pytest.raises(OptionError, match="user is not a field: what stands before it is BINARY"):
        streamer_config("t", 1, None, print, given)
    with pytest.raises(OptionError, match="must be a predicate in SQL"):
        streamer_config("t", 1, None, print, given | {"where": 1})
    assert streamer_config("t", 1, None, print, given | {"where": "key = 'a'"}).where == "key = 'a'"
