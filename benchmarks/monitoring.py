"""How many requests a monitor sends per round, and what a round costs: `python -m benchmarks.monitoring`.

Against simulated brokers in a process of their own: 1,000 topics of 10 partitions, 1,000 groups that read one topic
each, and every position moves between two rounds. Also counts what others would send, by their sources
(docs/monitoring.md).
"""

from __future__ import annotations

import ast
import os
import resource
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from penstock.config.source import parse_options
from penstock.monitor.collector import Collector
from penstock.monitor.settings import MonitorSettings

TESTS = Path(__file__).parents[1] / "tests"
TOPICS, PARTITIONS, GROUPS, BROKERS = 1000, 10, 1000, 3
ROUNDS = 10
DEADLINE = 120.0


def main() -> None:
    command = [sys.executable, "-m", "support.simulated_cluster", *map(str, (TOPICS, PARTITIONS, GROUPS))]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": str(TESTS)}
    ) as cluster:
        assert cluster.stdin is not None
        assert cluster.stdout is not None
        stdin, stdout = cluster.stdin, cluster.stdout

        def advance() -> Counter[str]:
            stdin.write("advance\n")
            stdin.flush()
            return Counter(ast.literal_eval(stdout.readline().split(" ", 1)[1]))

        client = parse_options({"bootstrap.servers": stdout.readline().strip(), "subscribePattern": ".*"}).client
        counts, processor = [], []
        with Collector(client, MonitorSettings(interval=5.0, requests_per_second=1e6)) as collector:
            for number in range(ROUNDS):
                began = time.process_time()
                snapshot = collector.wait_for(number, DEADLINE)
                assert snapshot is not None, "the simulated cluster does not answer"
                assert len(snapshot.groups) == GROUPS
                counts.append(advance())
                processor.append(time.process_time() - began)
        stdin.close()
    first, rest = counts[0], counts[-1] - counts[0]
    print(f"{TOPICS * PARTITIONS:,} partitions, {GROUPS:,} groups, {BROKERS} brokers, {ROUNDS} rounds")
    print(f"first round: {first.total() - first['ApiVersions']} requests")
    print(f"others: {rest.total() / (ROUNDS - 1):.1f} requests per round: {dict(rest)}")
    print(f"CPU per round: {sum(processor[1:]) / (ROUNDS - 1):.2f} s")
    print(f"memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
    # Metadata, ListGroups, DescribeGroups, first and end offsets by broker, and one OffsetFetch per group.
    print(f"kminion (adminApi), by its sources: {1 + 4 * BROKERS + GROUPS:,} requests per scrape")
    # End offsets by broker; commits come from __consumer_offsets, where its consumer fetches all the time.
    print(f"Burrow, by its sources: {BROKERS} requests per 10 s, and all records of __consumer_offsets")


if __name__ == "__main__":
    main()
