"""The exporter: what a scrape gets, health, hostile names, and the end."""

from __future__ import annotations

import http.client
import json
import socket

import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock.errors import PenstockError
from penstock.model.topic_partition import TopicPartition
from penstock.monitor.cluster_metrics import CLUSTER_METRICS
from penstock.monitor.exporter import REQUESTS_AT_ONCE, Exporter, MetricsText
from support.fake_survey import FakeSurvey, snapshot_of

WALL = 1_800_000_000.0
HOSTILE = 'g"}\n\x1b[31m\\ü 1\n# HELP x'
A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def full():
    survey = FakeSurvey(
        {A: 100, B: 50},
        begins={A: 10},
        commits={"g": {A: 90, B: 50}, "late": {A: 5}, HOSTILE: {A: 100}},
        members={"g": [[A], [B]]},
        times={(A, 90): int((WALL - 30) * 1000), (A, 10): int((WALL - 600) * 1000)},
    )
    return snapshot_of(survey, 2)


def samples(text):
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(found, name, **labels):
    return found[f"penstock_{name}", tuple(sorted(labels.items()))]


@pytest.fixture
def serve():
    started = []

    def run(snapshot, **more):
        started.append(Exporter("127.0.0.1", 0, lambda: snapshot, stale_after=60, clock=lambda: WALL + 5, **more))
        return started[-1]

    yield run
    for exporter in started:
        exporter.close()


def get(exporter, path, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", exporter.port, timeout=60)
    try:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return response.status, response.headers["Content-Type"], response.read().decode()
    finally:
        connection.close()


def test_a_scrape_has_groups_topics_and_brokers(serve):
    status, content_type, text = get(serve(full()), "/metrics")
    assert (status, content_type.split(";")[0]) == (200, "text/plain")
    found = samples(text)
    assert value(found, "cluster_up") == 1
    assert value(found, "group_pending_records", group="g") == 10
    assert value(found, "group_lag_seconds", group="g") == 30
    assert value(found, "group_members", group="g") == 2
    assert value(found, "group_state", group="g", kind="classic", state="Stable") == 1
    assert value(found, "group_records_lag", group="g", topic="t", partition="0") == 10
    assert value(found, "group_partition_lag_seconds", group="g", topic="t", partition="1") == 0
    assert value(found, "group_deleted_records", group="late") == 5
    inexact = {"group": "late", "topic": "t", "partition": "0", "certainty": "at least"}
    assert value(found, "group_partition_lag_inexact", **inexact) == 1
    assert value(found, "topic_bytes", topic="t") == 2048
    assert value(found, "topic_retention_seconds", topic="t") == 60
    assert value(found, "partition_end_offset", topic="t", partition="1") == 50


def test_every_metric_has_help():
    text, _ = MetricsText(full).text("text/plain")
    families = {family.name: family for family in text_string_to_metric_families(text.decode())}
    assert families.keys() == {metric.prometheus_name for metric in CLUSTER_METRICS}
    assert all(family.documentation for family in families.values())


def test_hostile_names_are_label_values(serve):
    found = samples(get(serve(full()), "/metrics")[2])
    assert value(found, "group_pending_records", group=HOSTILE) == 0


def test_without_partitions_there_are_far_fewer_series(serve):
    found = samples(get(serve(full(), by_partition=False), "/metrics")[2])
    assert value(found, "group_lag_seconds", group="g") == 30
    assert not [name for name, labels in found if "partition" in dict(labels)]


def test_a_snapshot_is_written_once_per_format_and_no_broker_is_asked():
    survey = FakeSurvey({A: 1}, commits={"g": {A: 1}})
    snapshot = snapshot_of(survey)
    asked = list(survey.asked)
    text = MetricsText(lambda: snapshot)
    plain = text.text("")
    assert text.text("")[0] is plain[0]
    assert text.text("application/openmetrics-text; version=1.0.0")[0].endswith(b"# EOF\n")
    assert survey.asked == asked


def test_health_says_whether_brokers_answer(serve):
    assert get(serve(full()), "/health")[0] == 200
    for snapshot, reason in (
        (None, "no broker was asked yet"),
        (snapshot_of(FakeSurvey(is_up=False)), "no broker has answered yet"),
    ):
        status, content_type, body = get(serve(snapshot), "/health")
        assert (status, content_type, json.loads(body)["reason"]) == (503, "application/json", reason)
    old = Exporter("127.0.0.1", 0, full, stale_after=60, clock=lambda: WALL + 61)
    try:
        assert old.answer("/health", None, "").status == 503
    finally:
        old.close()


def test_before_the_first_round_a_scrape_fails_and_other_paths_do_not_exist(serve):
    exporter = serve(None)
    assert get(exporter, "/metrics")[0] == 503
    assert get(exporter, "/")[0] == 200
    assert get(exporter, "/etc/passwd")[0] == 404


def test_on_loopback_a_name_of_another_site_gets_no_metrics(serve):
    exporter = serve(full(), hosts=frozenset({"box.example"}))
    for path in ("/metrics", "/health", "/"):
        assert get(exporter, path, Host="evil.example:9777")[0] == 421
        for host in ("localhost:9777", "127.0.0.1", "Box.example:9777"):
            assert get(exporter, path, Host=host)[0] == 200
    assert get(serve(full()), "/metrics", Host="exporter.monitoring:9777")[0] == 200, "not checked by default"


def test_silent_clients_cost_a_few_threads_and_no_more(serve):
    exporter = serve(full())
    silent = [socket.create_connection(("127.0.0.1", exporter.port)) for _ in range(REQUESTS_AT_ONCE)]
    try:
        for opened in silent:
            opened.sendall(b"GET /metrics HTTP/1.1\r\n")  # and never the end of the headers
        refused = socket.create_connection(("127.0.0.1", exporter.port), timeout=60)
        with refused:
            assert refused.recv(100).startswith(b"HTTP/1.1 503")
    finally:
        for opened in silent:
            opened.close()


def test_a_port_in_use_is_an_error_that_names_it(serve):
    port = serve(None).port
    with pytest.raises(PenstockError, match=f"cannot listen on 127.0.0.1:{port}"):
        Exporter("127.0.0.1", port, lambda: None, stale_after=1)
