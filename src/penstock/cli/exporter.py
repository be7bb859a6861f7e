"""`penstock exporter`: serves the metrics of a cluster to Prometheus, until Ctrl-C."""

from __future__ import annotations

import argparse
import signal
import threading
from typing import Any

from penstock.cli.connection import add_connection_arguments
from penstock.cli.exit_codes import INTERRUPTED, OK
from penstock.cli.monitoring import add_monitoring_arguments, make_collector
from penstock.cli.output import counted, say
from penstock.errors import PenstockError

DESCRIPTION = """\
Serve the lag of all consumer groups, in records and in seconds, and the sizes and rates of all topics to Prometheus.
The brokers are asked at a fixed interval. A scrape reads what was asked last, and asks no broker.
"""
EPILOG = """\
examples:
  penstock exporter -b localhost:9092
  penstock exporter -b broker:9093 --options-file client.properties --address 0.0.0.0 --port 9777
  penstock exporter -b localhost:9092 --exclude-groups '^console-consumer-' --no-partitions

GET /metrics has the metrics. GET /health answers 200, or 503 if brokers have not answered for three intervals.

The lag in seconds is the age of the next record, by its timestamp. Where timestamps rise, no unread record is older.
A record that was deleted before the group read it, or not looked up yet, makes it a bound: the metric
penstock_group_partition_lag_inexact says which.

exit codes: 0 done (after SIGTERM), 1 failed (the port is in use), 2 wrong usage, 130 Ctrl-C
"""

ADDRESS, PORT, INTERVAL = "127.0.0.1", 9777, 15.0
STALE_ROUNDS = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.epilog = EPILOG
    parser.add_argument(
        "--address",
        default=ADDRESS,
        metavar="ADDRESS",
        help=f"the address to listen on; 0.0.0.0 is every one of this machine (default {ADDRESS})",
    )
    parser.add_argument(
        "--port", type=_port, default=PORT, help=f"the port to listen on; 0 is a free one (default {PORT})"
    )
    parser.add_argument(
        "--host-name",
        action="append",
        default=[],
        metavar="NAME",
        help="a name of this machine that requests may use, besides localhost and addresses; may be repeated. Without "
        "it, an exporter that other machines can reach accepts any name",
    )
    parser.add_argument(
        "--no-partitions", action="store_true", help="only whole groups and topics: far fewer series in large clusters"
    )
    add_monitoring_arguments(parser, interval=INTERVAL)
    add_connection_arguments(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    collector = make_collector(arguments)
    try:
        import prometheus_client  # noqa: F401 (the extra)
    except ImportError:
        raise PenstockError(
            "penstock exporter requires the package prometheus-client: pip install 'penstock[prometheus]'"
        ) from None
    from penstock.monitor.exporter import Exporter
    from penstock.serving.hosts import is_loopback

    names = frozenset(name.lower() for name in arguments.host_name)
    ended = threading.Event()
    previous = signal.signal(signal.SIGTERM, lambda number, _: ended.set())
    stale_after = max(STALE_ROUNDS * arguments.interval, arguments.interval + 30)
    try:
        with (
            Exporter(
                arguments.address,
                arguments.port,
                lambda: collector.snapshot,
                stale_after=stale_after,
                by_partition=not arguments.no_partitions,
                hosts=names if names or is_loopback(arguments.address) else None,
            ) as exporter,
            collector,
        ):
            host = f"[{arguments.address}]" if ":" in arguments.address else arguments.address
            say(f"http://{host}:{exporter.port}/metrics", flush=True)
            return _report(collector, ended)
    finally:
        signal.signal(signal.SIGTERM, previous)


def _report(collector: Any, ended: threading.Event) -> int:
    """Print a line when the cluster is reached, lost, or answers otherwise than before. Returns the exit code."""
    number, last = 0, ""
    try:
        while not ended.is_set():
            snapshot = collector.wait_for(number, 0.5)
            if snapshot is None:
                continue
            number = snapshot.number
            if snapshot.problems:
                text = "\n".join(snapshot.problems)
            else:
                text = (
                    f"{counted(len(snapshot.groups), 'group')}, {counted(len(snapshot.topics), 'topic')}, "
                    f"{counted(len(snapshot.brokers), 'broker')}"
                )
            kind = text if snapshot.problems else "all answered"
            if kind != last:
                last = kind
                say(text, flush=True)
    except KeyboardInterrupt:
        return INTERRUPTED
    return OK


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port")
    return int(text)
