"""What happens to losses: one error for all, or a warning and a count."""

from __future__ import annotations

import logging

import pytest

from penstock.errors import DataLoss
from penstock.model.topic_partition import TopicPartition
from penstock.planner.losses import DELETED, Loss, Losses

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
LOST = [Loss(B, "from offset 5", DELETED), Loss(A, "from offset 1", "offsets from 3")]


def test_F27_one_error_names_all_losses_in_order():
    with pytest.raises(DataLoss) as caught:
        Losses(fail=True).report(LOST)
    assert [partition for _, partition, _, _ in caught.value.ranges] == [0, 1]


def test_F27_losses_are_counted_and_logged_if_the_user_wants_to_go_on(caplog):
    losses = Losses(fail=False)
    with caplog.at_level(logging.WARNING):
        losses.report(LOST)
        losses.report(LOST[:1])
    assert losses.count == 3
    assert "t-0: wanted from offset 1, the broker has offsets from 3" in caplog.text


def test_no_loss_is_not_reported(caplog):
    Losses(fail=True).report([])
    assert not caplog.records
