"""Exactly once with a driver that is killed: the short form of tests/chaos/test_exactly_once*.py."""

import pytest

from chaos.pipeline import END, Pipeline

pytestmark = [pytest.mark.spark, pytest.mark.broker]


@pytest.mark.timeout(600)
def test_W6_a_driver_killed_between_the_ends_of_transactions_writes_each_row_once(kafka, tmp_path):
    pipeline = Pipeline(kafka, tmp_path)
    with pipeline.load() as load:
        pipeline.crash(f"kill after +2 {END}")
        produced = load.stop()
    pipeline.check(produced)
