"""`penstock broker`: runs a real Kafka in the foreground until Ctrl-C."""

from __future__ import annotations

import argparse
import signal
import sys
import textwrap

from penstock.cli.output import say
from penstock.progress import waiting
from penstock.testing import KAFKA_VERSION, EmbeddedKafka, get_distribution
from penstock.testing.listeners import PROTOCOLS

_DESCRIPTION = f"""\
Start a real Apache Kafka {KAFKA_VERSION} on this machine and keep it running until Ctrl-C.
The first start downloads it (about 45 MB) into the cache folder. It needs Java 17 or newer.
"""
_EPILOG = """\
examples:
  penstock broker --topic words:4
  penstock broker --nodes 3 --rack a --rack b --rack c --setting auto.create.topics.enable=false

exit codes: 0 after SIGTERM, 1 it could not start or a node ended, 2 wrong usage, 130 Ctrl-C
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = _DESCRIPTION
    parser.epilog = _EPILOG
    parser.add_argument("--nodes", type=int, choices=(1, 2, 3), default=1, help="number of brokers (default 1)")
    parser.add_argument("--port", type=int, help="port of the first broker, the others follow (default: free ports)")
    parser.add_argument(
        "--listener",
        choices=PROTOCOLS,
        default="PLAINTEXT",
        help="security protocol of the listener (default PLAINTEXT)",
    )
    parser.add_argument("--rack", action="append", metavar="ID", help="rack of a broker; repeat for each broker")
    parser.add_argument(
        "--topic",
        action="append",
        default=[],
        type=_topic,
        metavar="NAME[:PARTITIONS]",
        help="create this topic; may be repeated",
    )
    parser.add_argument(
        "--setting",
        action="append",
        default=[],
        type=_setting,
        metavar="NAME=VALUE",
        help="a broker setting; may be repeated",
    )
    parser.add_argument(
        "--data-dir", metavar="DIR", help="keep the data in this folder (default: removed with the broker)"
    )
    parser.add_argument("--heap-mb", type=int, default=512, help="Java heap of each broker in MB (default 512)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    # SIGTERM stops the broker like Ctrl-C.
    previous = signal.signal(signal.SIGTERM, _terminated)
    try:
        return _serve(arguments)
    except _Terminated:
        return 0
    finally:
        signal.signal(signal.SIGTERM, previous)


def _serve(arguments: argparse.Namespace) -> int:
    cluster = EmbeddedKafka(
        arguments.nodes,
        listener=arguments.listener,
        racks=arguments.rack,
        settings=dict(arguments.setting),
        port=arguments.port,
        data_dir=arguments.data_dir,
        heap_mb=arguments.heap_mb,
    )
    get_distribution()  # shows its own progress if it downloads
    with waiting(f"starting Apache Kafka {KAFKA_VERSION}"):
        cluster.start()
    with cluster as kafka:
        existing = kafka.topics() if arguments.data_dir else ()
        for name, partitions in arguments.topic:
            if name not in existing:
                kafka.create_topic(name, partitions)
        say(_greeting(kafka, [name for name, _ in arguments.topic]), flush=True)
        dead = kafka.wait()
        say(f"penstock broker: node {dead} has ended:\n{kafka.logs(dead)[-2000:]}", file=sys.stderr)
        return 1


def _greeting(kafka: EmbeddedKafka, topics: list[str]) -> str:
    options = kafka.client_options()
    lines = [f'    .option("{name}", {_literal(value)})' for name, value in options.items()]
    lines.append(f'    .option("subscribe", "{topics[0] if topics else "TOPIC"}")')
    snippet = "\n".join(['(spark.read.format("penstock")', *lines, "    .load())"])
    return (
        f"Apache Kafka {KAFKA_VERSION} is ready at {kafka.bootstrap_servers}\n\n"
        f"{textwrap.indent(snippet, '  ')}\n\nCtrl-C stops it."
    )


def _literal(value: str) -> str:
    escaped = value.replace("\\", "\\\\")
    return f"'{escaped}'" if '"' in value and "'" not in value else '"' + escaped.replace('"', '\\"') + '"'


def _topic(text: str) -> tuple[str, int]:
    name, colon, count = text.partition(":")
    if not name or (colon and not (count.isdigit() and int(count) > 0)):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME or NAME:PARTITIONS")
    return name, int(count) if colon else 1


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


class _Terminated(BaseException):
    """Raised by SIGTERM. Not an Exception, like KeyboardInterrupt, so that no handler swallows it."""


def _terminated(*_: object) -> None:
    raise _Terminated
