"""F26: metrics from Spark's progress of a source, whatever its text holds."""

from __future__ import annotations

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from penstock.eventtime.tracker import EventTimeStatus, PartitionEventTime
from penstock.metrics import source as module
from penstock.metrics import worker as worker_module
from penstock.metrics.prometheus import register
from penstock.metrics.source import METRICS, SourceMetrics
from penstock.metrics.worker import WorkerMetrics
from penstock.model.topic_partition import TopicPartition

UNREAD = PartitionEventTime(None, False, False)
MADE = "2023-11-14T22:13:30.500Z"
START = '{"orders": {"0": 100, "1": 200}}'
END = '{"orders": {"0": 110, "1": 230}}'
LATEST = {"orders": {"0": 150, "1": 230}}
REPORT = {
    "commitsSucceeded": 3,
    "commitsFailed": 1,
    "committedOffsets": {"orders": {"0": 100}},
    "bytesPerRecord": {"orders": {"0": 50.0, "1": 100.0}},
    "lostRanges": 2,
    "malformedRecords": 9,
    "droppedRecords": 4,
    "deadLetters": 5,
    "skippedRecords": 6,
    "readRecords": 9,
    "passedRecords": 4,
    "watermark": 1_700_000_000_500,
    "watermarks": {"orders": {"0": 1_700_000_000_500, "1": 1_700_000_009_000}},
    "idlePartitions": {"orders": [0]},
    "heldPartitions": {"orders": [1]},
    "lateRecords": 7,
    "workers": {
        "node-1:17": {"fetches": 10, "awaited": 4, "fetch_seconds": 0.5, "throttle_seconds": 1.5, "retries": 3}
    },
    "finished": False,
}


def reported(**changes: object) -> str:
    return json.dumps(LATEST | {"#penstock": REPORT | changes})


def of(start: str | None = START, end: str | None = END, latest: str | None = None, rows: int = 40) -> SourceMetrics:
    found = SourceMetrics.from_progress(start, end, reported() if latest is None else latest, rows, 500, MADE)
    assert found is not None
    return found


def test_F26_current_latest_and_committed_offset_and_lag_of_each_partition():
    first, second = of().partitions
    assert (str(first), first.current_offset, first.latest_offset, first.committed_offset) == (
        "orders-0",
        110,
        150,
        100,
    )
    assert (first.lag, second.lag) == (40, 0)
    assert second.committed_offset is None, "nothing was committed for it"


def test_F12_partitions_of_the_checkpoint_that_are_not_read_have_no_metrics():
    end = '{"orders": {"0": 110, "1": 230}, "clicks": {"0": 105240}}'
    [only] = of(end=end, latest=reported(unreadPartitions={"clicks": [0], "orders": [1]})).partitions
    assert str(only) == "orders-0"
    assert of(end=end, latest=reported(unreadPartitions="clicks")).partitions[0].topic == "clicks", "not a report"


def test_F26_totals():
    found = of()
    assert found.lag == 40
    assert str(found.worst) == "orders-0"
    assert found.records_per_second == 80
    assert found.bytes_per_second == (10 * 50 + 30 * 100) / 0.5
    assert (found.commits_succeeded, found.commits_failed, found.lost_ranges) == (3, 1, 2)
    assert (found.malformed_records, found.dropped_records, found.dead_letters) == (9, 4, 5)
    assert (found.skipped_records, found.read_records, found.passed_records) == (6, 9, 4)
    assert found.finished is False
    assert found.reported
    assert found.workers == (WorkerMetrics("node-1:17", 10, 0.5, 0.125, 0.0, 1.5, 3, 0),)


def test_E5_F19_event_time_of_the_source_and_of_each_partition():
    found = of()
    assert (found.watermark, found.event_time_lag, found.late_records) == (1_700_000_000_500, 10.0, 7)
    assert [(each.watermark, each.idle, each.held) for each in found.partitions] == [
        (1_700_000_000_500, True, False),
        (1_700_000_009_000, False, True),
    ]


def test_F19_unknown_event_time_is_left_out():
    found = of(latest=reported(watermark=None, watermarks={}, idlePartitions={}, heldPartitions={}, lateRecords=0))
    assert (found.watermark, found.event_time_lag, found.late_records) == (None, None, 0)
    assert [(each.watermark, each.idle, each.held) for each in found.partitions] == [(None, False, False)] * 2
    without = of(latest=json.dumps(LATEST))
    assert (without.watermark, without.event_time_lag, without.late_records) == (None, None, None)
    assert [(each.watermark, each.idle, each.held) for each in without.partitions] == [(None, None, None)] * 2


def test_F19_records_of_the_future_and_of_before_1970_have_event_time_too():
    assert of(latest=reported(watermark=1_700_000_020_500)).event_time_lag == -10
    assert of(latest=reported(watermark=-1, watermarks={"orders": {"0": -5}})).partitions[0].watermark == -5


@pytest.mark.parametrize("timestamp", [None, "", "yesterday", "2023-11-14T22:13:30.500"])
def test_F19_without_the_time_of_the_progress_there_is_no_event_time_lag(timestamp):
    found = SourceMetrics.from_progress(START, END, reported(), 40, 500, timestamp)
    assert found is not None
    assert found.event_time_lag == (10.0 if timestamp and timestamp.startswith("2023") else None)
    assert found.watermark == 1_700_000_000_500


def test_F19_a_status_is_reported_as_it_is():
    a, b, c = (TopicPartition("orders", number) for number in range(3))
    status = EventTimeStatus(
        5, {a: PartitionEventTime(5, True, False), b: PartitionEventTime(9, False, True), c: UNREAD}
    )
    assert module.event_time_figures(status, 4) == {
        "watermark": 5,
        "watermarks": {"orders": {"0": 5, "1": 9}},
        "idlePartitions": {"orders": [0]},
        "heldPartitions": {"orders": [1]},
        "lateRecords": 4,
    }


def test_F26_lag_is_never_below_zero():
    behind = of(latest='{"orders": {"0": 105, "1": 500}}')
    assert [each.lag for each in behind.partitions] == [0, 270]
    assert behind.lag == 270


def test_F26_a_new_partition_counts_and_one_that_vanished_does_not():
    found = of(end='{"orders": {"1": 230, "2": 7}}', latest='{"orders": {"1": 230, "2": 9, "5": 100}}')
    assert [(str(each), each.lag) for each in found.partitions] == [("orders-1", 0), ("orders-2", 2)]


def test_F26_a_partition_without_known_end_has_no_lag_and_does_not_hide_that_of_others():
    found = of(latest='{"orders": {"1": 235}}')
    assert [each.lag for each in found.partitions] == [None, 5]
    assert found.lag == 5
    assert str(found.worst) == "orders-1"


@pytest.mark.parametrize("latest", [None, "null", "None", "", "{", "[]", "5"])
def test_F26_without_latest_offsets_the_lag_is_unknown(latest):
    found = SourceMetrics.from_progress(START, END, latest, 40, 500)
    assert found is not None
    assert found.lag is None
    assert found.partitions[0].current_offset == 110


def test_F26_sparks_own_kafka_source_has_lag_and_rates_but_no_commits_and_no_bytes():
    found = of(latest=json.dumps(LATEST))
    assert (found.lag, found.records_per_second) == (40, 80)
    assert (found.bytes_per_second, found.commits_succeeded, found.commits_failed) == (None, None, None)
    assert (found.lost_ranges, found.finished, found.reported) == (None, None, False)


def test_F26_bytes_of_a_partition_of_unknown_record_size_are_taken_as_average():
    found = of(latest=reported(bytesPerRecord={"orders": {"0": 50}}))
    assert found.bytes_per_second == 40 * 50 / 0.5


@pytest.mark.parametrize("start", [None, "None", "null"])
def test_F26_bytes_of_a_first_batch_follow_its_rows(start):
    assert of(start=start, rows=10).bytes_per_second == 10 * 75 / 0.5


def test_F26_idle_is_zero_bytes_also_where_no_size_is_known():
    found = of(start=END, latest=json.dumps(LATEST), rows=0)
    assert (found.records_per_second, found.bytes_per_second) == (0, 0)


def test_F26_a_pattern_that_matches_nothing_yet_is_a_source_without_partitions():
    found = SourceMetrics.from_progress(None, "{}", '{"#penstock": {"commitsSucceeded": 0}}', 0, 10)
    assert found is not None
    assert (found.partitions, found.lag, found.worst) == ((), 0, None)


@pytest.mark.parametrize(
    "offset",
    [
        None,
        "None",
        "null",
        "",
        "5",
        "-1",
        '"text"',
        "[1]",
        "{}",
        '{"logOffset": 3}',  # files
        '{"offset": 12, "timestamp": 1700000000000}',  # rate-micro-batch
        '{"sourceVersion": 1, "reservoirVersion": 4, "index": -1, "isStartingVersion": true}',  # Delta
        '{"shard-0": {"iteratorType": "AFTER_SEQUENCE_NUMBER", "iteratorPosition": "49"}}',  # Kinesis
        '{"orders": {"0": "12"}}',
        '{"orders": {"0": true}}',
        '{"orders": {"0": -2}}',
        '{"orders": {"0": 1.5}}',
        '{"orders": {"zero": 1}}',
        '{"orders": {"²": 1}}',
        '{"orders": {"' + "9" * 5000 + '": 1}}',
        '{"orders": {"0": ' + "9" * 5000 + "}}",
        "[" * 100_000,
    ],
)
def test_F26_offsets_of_other_sources_are_ignored(offset):
    assert SourceMetrics.from_progress(offset, offset, offset, 5, 100) is None


@pytest.mark.parametrize(
    "report",
    [
        None,
        7,
        [],
        "x",
        {"commitsSucceeded": "3", "commitsFailed": -1, "lostRanges": True, "finished": "yes"},
        {"malformedRecords": "3", "droppedRecords": -1, "deadLetters": True, "skippedRecords": 0.5},
        {"committedOffsets": [], "bytesPerRecord": 5},
        {"committedOffsets": {"orders": 5}, "bytesPerRecord": {"orders": {"0": "a", "x": 1, "1": -4}}},
        {"bytesPerRecord": {"orders": {"0": 1e400, "1": 10**400}}},
        {"watermark": "now", "watermarks": 5, "idlePartitions": [], "heldPartitions": 1, "lateRecords": -1},
        {"watermark": True, "watermarks": {"orders": {"0": 1.5, "1": 10**400, "x": 1}}, "lateRecords": "1"},
        {"watermark": 10**30, "idlePartitions": {"orders": 5}, "heldPartitions": {"orders": ["0", -1, None]}},
    ],
)
def test_F26_an_invalid_report_is_ignored(report):
    found = of(latest=json.dumps(LATEST | {"#penstock": report}))
    assert found.lag == 40
    assert (found.commits_succeeded, found.commits_failed, found.lost_ranges) == (None, None, None)
    assert (found.malformed_records, found.dropped_records, found.dead_letters) == (None, None, None)
    assert (found.bytes_per_second, found.finished, found.skipped_records) == (None, None, None)
    assert found.partitions[0].committed_offset is None
    assert (found.watermark, found.event_time_lag, found.late_records) == (None, None, None)
    assert not any(each.watermark or each.idle or each.held for each in found.partitions)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["orders", "0", "1", "#penstock", "bytesPerRecord", ""]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(json_values, json_values, json_values)
def test_F26_no_json_makes_it_fail(start, end, latest):
    found = SourceMetrics.from_progress(json.dumps(start), json.dumps(end), json.dumps(latest), 5, 0)
    assert found is None or all(value >= 0 for _, _, value in found.samples())


# --- names and Prometheus ---------------------------------------------------------------------------------------------


def test_F26_declared_and_measured_metrics_are_the_same():
    everything = of()
    assert {metric for metric, _, _ in everything.samples()} == set(METRICS)
    names = vars(module) | vars(worker_module)
    declared = {value for value in names.values() if isinstance(value, module.Metric)}
    assert declared == set(METRICS)
    for metric, labels, _ in everything.samples():
        assert len(labels) == len(metric.labels), metric.name


def test_F26_names_are_those_of_flinks_kafka_source():
    assert {metric.name for metric in METRICS} >= {
        "commitsSucceeded",
        "commitsFailed",
        "currentOffset",
        "committedOffset",
        "pendingRecords",
        "numRecordsInPerSecond",
        "numBytesInPerSecond",
    }


def test_F26_prometheus_text():
    registry = CollectorRegistry()
    values = {("orders", "0"): of()}
    register(registry, lambda: values, dict)
    text = generate_latest(registry).decode()
    assert 'penstock_pending_records{query="orders",source="0"} 40.0\n' in text
    assert 'penstock_records_lag{partition="0",query="orders",source="0",topic="orders"} 40.0\n' in text
    assert 'penstock_committed_offset{partition="0",query="orders",source="0",topic="orders"} 100.0\n' in text
    assert 'penstock_commits_succeeded_total{query="orders",source="0"} 3.0\n' in text
    assert 'penstock_event_time_lag{query="orders",source="0"} 10.0\n' in text
    assert 'penstock_late_records_total{query="orders",source="0"} 7.0\n' in text
    assert 'penstock_partition_held{partition="1",query="orders",source="0",topic="orders"} 1.0\n' in text
    assert 'penstock_partition_held{partition="0",query="orders",source="0",topic="orders"} 0.0\n' in text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert families.keys() == {metric.prometheus_name for metric in METRICS}
    for metric in METRICS:
        assert (families[metric.prometheus_name].type, families[metric.prometheus_name].documentation) == (
            metric.kind,
            metric.help,
        )
    values.clear()
    assert generate_latest(registry) == b"", "a query that is gone leaves no series, and no empty family"


def test_F26_prometheus_labels_are_escaped():
    registry = CollectorRegistry()
    register(registry, lambda: {('the "first"\n', "0"): of()}, dict)
    text = generate_latest(registry).decode()
    assert 'query="the \\"first\\"\\n"' in text


def test_F26_a_second_listener_on_one_registry_is_refused_and_the_first_can_be_unregistered():
    registry = CollectorRegistry()
    unregister = register(registry, dict, dict)
    with pytest.raises(ValueError, match="already has a LagListener"):
        register(registry, dict, dict)
    unregister()
    register(registry, dict, dict)


def test_F26_without_the_extra_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(ImportError, match=r"pip install 'penstock\[prometheus\]'"):
        register(None, dict, dict)
