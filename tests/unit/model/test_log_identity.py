"""When a topic counts as recreated, and a log as truncated."""

from __future__ import annotations

import uuid

import pytest

from penstock.model.log_identity import is_recreated, leader_changed, truncated_at

OLD, NEW = uuid.UUID(int=1), uuid.UUID(int=2)


@pytest.mark.parametrize(
    ("known", "listed", "recreated"),
    [(OLD, NEW, True), (OLD, OLD, False), (None, NEW, False), (OLD, None, False), (None, None, False)],
)
def test_a_topic_is_recreated_if_its_name_has_another_id(known, listed, recreated):
    assert is_recreated(known, listed) is recreated


@pytest.mark.parametrize(
    ("read", "now", "changed"),
    [(3, 4, True), (0, 1, True), (4, 4, False), (5, 4, False), (-1, 4, False), (4, -1, False)],
)
def test_only_a_newer_leader_may_have_truncated_the_log(read, now, changed):
    assert leader_changed(read, now) is changed


@pytest.mark.parametrize(
    ("epoch_end", "position", "cut"),
    [(7, 10, 7), (0, 1, 0), (10, 10, None), (11, 10, None), (-1, 10, None), (0, 0, None)],
)
def test_a_log_is_truncated_where_the_epoch_that_was_read_ends_below_the_position(epoch_end, position, cut):
    assert truncated_at(epoch_end, position) == cut
