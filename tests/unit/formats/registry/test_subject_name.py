"""The names of subjects, by Confluent's strategies."""

from __future__ import annotations

import pytest

from penstock.config.registry import REGISTRY_OPTIONS
from penstock.errors import OptionError
from penstock.formats.registry.subject_name import subject_name


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        ("topic", "orders-key"),
        ("TopicNameStrategy", "orders-key"),
        ("record", "shop.Order"),
        ("io.confluent.kafka.serializers.subject.RecordNameStrategy", "shop.Order"),
        ("Topic-Record", "orders-shop.Order"),
        ("io.confluent.kafka.serializers.subject.TopicRecordNameStrategy", "orders-shop.Order"),
    ],
)
def test_subjects_are_called_as_by_confluents_strategies(strategy, subject):
    option = REGISTRY_OPTIONS["subjectNameStrategy"]
    parsed = option.parse(option.name, strategy)
    assert subject_name(parsed, "orders", "key", "shop.Order") == subject


def test_a_strategy_that_lacks_a_record_is_refused():
    assert subject_name("topic", "t", "value") == "t-value"
    with pytest.raises(OptionError, match="Set valueSubject"):
        subject_name("record", "t", "value")
