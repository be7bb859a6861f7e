"""Kafka's own `kafka-consumer-groups --describe`, as text."""

from __future__ import annotations

from typing import Any

from penstock.testing.distribution import get_distribution


def described(kafka: Any, group: str) -> list[list[str]]:
    """Topic, partition, committed offset, end and lag of each partition, sorted."""
    tool = get_distribution().run_tool(
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        *("--bootstrap-server", kafka.bootstrap_servers, "--describe", "--group", group),
        *("--timeout", "60000"),  # its own default is 5 s for each answer
    )
    assert tool.returncode == 0, tool.stdout + tool.stderr
    rows = [line.split() for line in tool.stdout.splitlines() if line.startswith(group)]
    return sorted(row[1:6] for row in rows)
