"""F26: what workers do at the brokers, through Spark's progress."""

import json

import pytest

from penstock.metrics.worker import WORKER_FAMILIES, WorkerMetrics, read_worker_figures, worker_figures
from penstock.model.worker_figures import WorkerFigures

ONE = WorkerFigures("node-1:17", 10, 4, 0.5, 0.25, 1.5, 3, 2)
TWO = WorkerFigures("node-2:4")


def test_F26_figures_survive_the_progress():
    document = json.loads(json.dumps(worker_figures([TWO, ONE])))
    assert read_worker_figures(document) == (
        WorkerMetrics("node-1:17", 10, 0.5, 0.125, 0.25, 1.5, 3, 2),
        WorkerMetrics("node-2:4"),
    )


def test_F26_each_metric_is_of_a_worker_and_an_unknown_latency_is_left_out():
    found = {metric.name: (labels, value) for metric, labels, value in WorkerMetrics.of(ONE).samples()}
    assert found.keys() == {metric.name for metric in WORKER_FAMILIES}
    assert {labels for labels, _ in found.values()} == {("node-1:17",)}
    assert found["fetchLatency"][1] == 0.125
    assert "fetchLatency" not in {metric.name for metric, _, _ in WorkerMetrics.of(TWO).samples()}


@pytest.mark.parametrize(
    "wrong", [None, [], "x", {"a:1": None}, {"a:1": []}, {"a:1": {"fetches": -1}}, {"a:1": {"other": 1}}], ids=str
)
def test_what_is_not_a_workers_figures_is_left_out(wrong):
    assert read_worker_figures(wrong) == ()
