"""Durable names of exactly-once. A change of one breaks running queries: it needs a new version."""

from __future__ import annotations

from penstock.writer.names import SinkScope

SCOPE = SinkScope("penstock-sink", "query", "8f1c", "out")


def test_W5_names_are_pinned():
    assert SCOPE.task(3) == "penstock-sink:v1:query:8f1c:out:3"
    assert SCOPE.intent == "penstock-sink:v1:query:8f1c:out:intent"


def test_W5_each_task_of_each_writer_has_its_own_id():
    scopes = [SCOPE, SinkScope("p", "query", "8f1c", "out"), SinkScope("penstock-sink", "job", "8f1c", "out")]
    scopes += [SinkScope("penstock-sink", "query", "9", "out"), SinkScope("penstock-sink", "query", "8f1c", "*")]
    assert len({scope.task(task) for scope in scopes for task in range(3)}) == len(scopes) * 3
