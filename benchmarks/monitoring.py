"""What monitors cost: `python -m benchmarks.monitoring`. It takes about three minutes, on an otherwise idle machine.

Against simulated brokers in a process of their own: 1,000 topics of 10 partitions, 1,000 groups that read one topic
each, and every position moves between two rounds. First the requests and the cost of a round, and what others would
send, by their sources (docs/monitoring.md). Then the page with ten browsers (live_page.py).
"""

from __future__ import annotations

import resource
import time

from benchmarks import live_page
from benchmarks.monitored_cluster import monitored_cluster
from penstock.config.source import parse_options
from penstock.monitor.collector import Collector
from penstock.monitor.settings import MonitorSettings

TOPICS, PARTITIONS, GROUPS, BROKERS = 1000, 10, 1000, 3
ROUNDS = 10
DEADLINE = 120.0


def main() -> None:
    print_rounds()
    print(flush=True)
    live_page.main()


def print_rounds() -> None:
    with monitored_cluster(TOPICS, PARTITIONS, GROUPS) as cluster:
        client = parse_options({"bootstrap.servers": cluster.bootstrap, "subscribePattern": ".*"}).client
        counts, processor = [], []
        with Collector(client, MonitorSettings(interval=5.0, requests_per_second=1e6)) as collector:
            for number in range(ROUNDS):
                began = time.process_time()
                snapshot = collector.wait_for(number, DEADLINE)
                assert snapshot is not None, "the simulated cluster does not answer"
                assert len(snapshot.groups) == GROUPS
                counts.append(cluster.advance())
                processor.append(time.process_time() - began)
    first, rest = counts[0], counts[-1] - counts[0]
    print(f"{TOPICS * PARTITIONS:,} partitions, {GROUPS:,} groups, {BROKERS} brokers, {ROUNDS} rounds")
    print(f"first round: {first.total() - first['ApiVersions']} requests")
    print(f"others: {rest.total() / (ROUNDS - 1):.1f} requests per round: {dict(rest)}")
    print("a scrape of the exporter: 0 requests, as it reads the last round")
    print(f"CPU per round: {sum(processor[1:]) / (ROUNDS - 1):.2f} s")
    print(f"memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
    # Metadata, ListGroups, DescribeGroups, first and end offsets by broker, and one OffsetFetch per group.
    print(f"kminion (adminApi), by its sources: {1 + 4 * BROKERS + GROUPS:,} requests per scrape")
    # End offsets by broker; commits come from __consumer_offsets, where its consumer fetches all the time.
    print(f"Burrow, by its sources: {BROKERS} requests per 10 s, and all records of __consumer_offsets")


if __name__ == "__main__":
    main()
