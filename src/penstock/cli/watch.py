"""`penstock watch`: a live page of a cluster, until Ctrl-C."""

from __future__ import annotations

import argparse
import html
import signal
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from penstock.cli.connection import add_connection_arguments, connection_options
from penstock.cli.exit_codes import INTERRUPTED, OK
from penstock.cli.monitoring import add_monitoring_arguments, make_collector
from penstock.cli.output import say
from penstock.cli.topic_options import TopicOptions, topic_option
from penstock.errors import OptionError

if TYPE_CHECKING:
    from penstock.watch.feed import Feed

DESCRIPTION = """\
Show the topics and groups of a cluster on a live page in the browser: lag in records and in seconds, rates, sizes, the
newest records of a topic, rebalances and commits. It only reads: nothing on the page changes the cluster.
"""
EPILOG = """\
examples:
  penstock watch -b localhost:9092
  penstock watch -b localhost:9092 --open
  penstock watch -b broker:9093 --options-file client.properties --interval 2
  penstock watch -b localhost:9092 -o schemaRegistry.url=http://localhost:8081 --topic-option 'shop.*:valueFormat=avro'
  penstock watch -b localhost:9092 --address 0.0.0.0          for other machines: the URL has a token

The page listens on this machine only, unless --address says otherwise. Then it requires a token, which is part of the
printed URL: who has it sees the topics, groups and records that this command can read. The connection is not encrypted;
on networks that you do not trust use `ssh -L 8765:localhost:8765 HOST` instead.

exit codes: 0 done (after SIGTERM), 1 failed (the port is in use), 2 wrong usage, 130 Ctrl-C
"""

ADDRESS, PORT, INTERVAL = "127.0.0.1", 8765, 5.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.epilog = EPILOG
    parser.add_argument(
        "--address",
        default=ADDRESS,
        metavar="ADDRESS",
        help=f"the address to listen on; others than this machine's own require the token (default {ADDRESS})",
    )
    parser.add_argument(
        "--port", type=_port, default=PORT, help=f"the port to listen on; 0 is a free one (default {PORT})"
    )
    parser.add_argument("--name", default="", help="what the page calls the cluster, if you have pages of several")
    parser.add_argument(
        "--token", action="store_true", help="require a token on this machine too, which other users may share"
    )
    parser.add_argument(
        "--host-name",
        action="append",
        default=[],
        metavar="NAME",
        help="a name of this machine that browsers may use, besides localhost and addresses; may be repeated",
    )
    parser.add_argument(
        "--topic-option",
        action="append",
        default=[],
        type=topic_option,
        metavar="TOPIC:NAME=VALUE",
        help="an option of docs/formats.md for the records of a topic, such as orders:valueFormat=avro; * in TOPIC "
        "stands for any characters; -o gives options for all topics; may be repeated, later ones win",
    )
    parser.add_argument("--open", action="store_true", help="open the page in the browser")
    add_monitoring_arguments(parser, interval=INTERVAL)
    add_connection_arguments(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    topics = TopicOptions(connection_options(arguments), arguments.topic_option)
    collector = make_collector(arguments, topics.connection)
    from penstock.cli.arrow_start import without_pandas
    from penstock.cli.newest_records import NewestRecords
    from penstock.serving.hosts import is_loopback
    from penstock.watch.access import Access, new_token
    from penstock.watch.feed import Feed
    from penstock.watch.queries import QueryRegistry
    from penstock.watch.server import PageServer

    without_pandas()
    if not arguments.address:
        raise OptionError("--address", "", "is empty", "Use 127.0.0.1, or 0.0.0.0 for every address of this machine")
    token = new_token() if arguments.token or not is_loopback(arguments.address) else None
    access = Access(token, frozenset(name.lower() for name in arguments.host_name))
    ended = threading.Event()
    previous = signal.signal(signal.SIGTERM, lambda number, _: ended.set())
    try:
        queries = QueryRegistry()
        feed = Feed(collector, queries, arguments.name)
        # The feed closes first, so that streams end, then the server, then the collector.
        with (
            collector,
            PageServer(arguments.address, arguments.port, feed, NewestRecords(topics), access, queries) as server,
            feed,
        ):
            url = page_url(arguments.address, server.port, token)
            say(url, flush=True)
            with ExitStack() as opened:
                if arguments.open:
                    shown = url if token is None else opened.enter_context(_redirect(url))
                    threading.Thread(target=webbrowser.open, args=(shown,), daemon=True).start()
                return _wait(feed, ended)
    finally:
        signal.signal(signal.SIGTERM, previous)


def _wait(feed: Feed, ended: threading.Event) -> int:
    try:
        while not ended.wait(0.2):
            if feed.failure is not None:
                raise feed.failure
    except KeyboardInterrupt:
        return INTERRUPTED
    return OK


@contextmanager
def _redirect(url: str) -> Iterator[str]:
    """The address of a file that only this user can read, and that leads to the URL. A browser's arguments are shown to
    all users of the machine, and the URL has the token."""
    with TemporaryDirectory(prefix="penstock-watch-") as folder:
        path = Path(folder) / "open.html"
        path.write_text(f'<!doctype html><meta http-equiv="refresh" content="0; url={html.escape(url)}">', "utf-8")
        yield path.as_uri()


def page_url(address: str, port: int, token: str | None) -> str:
    """The URL for a browser on this machine. Every address (0.0.0.0) is shown as the first one of this machine."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)  # noqa: S104 (compared, not listened on)
    host = f"[{host}]" if ":" in host else host
    return f"http://{host}:{port}/" + ("" if token is None else f"?token={token}")


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port")
    return int(text)
