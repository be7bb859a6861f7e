"""Durable names of dead letters. A change here repeats the letters of running queries: see dead_letters/scope.py."""

from __future__ import annotations

import pytest

from penstock.dead_letters.scope import LetterNames, LetterScope, letter_names
from penstock.model.topic_partition import TopicPartition

QUERY = "42707d0f-b1ae-4eb3-8224-f501ea66064f"


@pytest.mark.parametrize(
    ("scope", "name"),
    [
        (LetterScope("query", QUERY, ("string", "json")), f"v2:query:{QUERY}:string:json"),
        (LetterScope("query", QUERY, ("raw", "shop.orders:Order"), "1f"), f"v2:query:{QUERY}:raw:shop.orders:Order"),
        (LetterScope("source", "0123456789abcdef", ("raw", "avro")), "v2:source:0123456789abcdef:raw:avro"),
        (LetterScope("batch", "a1"), "v2:batch:a1"),
        (LetterScope("read", "a1"), "v2:read:a1"),
    ],
)
def test_a_scope_is_named_by_its_version_and_its_fields(scope, name):
    assert scope.name == name


def test_the_group_and_the_transactional_id_of_a_partition():
    names = letter_names(f"v2:query:{QUERY}:raw:json", "dead", TopicPartition("orders", 3))
    group = f"penstock-letters:v2:query:{QUERY}:raw:json:dead"
    assert names == LetterNames(group, f"{group}:orders-3")


def test_names_of_version_1_are_written_the_same_way():
    names = letter_names("4df42a58a031a2f8", "golden-letters", TopicPartition("golden-orders", 1))
    assert names.group == "penstock-letters:4df42a58a031a2f8:golden-letters"
    assert names.transactional_id == "penstock-letters:4df42a58a031a2f8:golden-letters:golden-orders-1"
