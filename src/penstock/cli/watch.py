"""`penstock watch`: a live page of a cluster, until Ctrl-C."""

from __future__ import annotations

import argparse
import functools
import html
import signal
import threading
import webbrowser
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from penstock.cli.connection import add_connection_arguments, cluster_options, connection_options
from penstock.cli.exit_codes import INTERRUPTED, OK
from penstock.cli.monitoring import add_monitoring_arguments, make_collector
from penstock.cli.output import say
from penstock.cli.topic_options import TopicOptions, topic_option
from penstock.errors import OptionError

if TYPE_CHECKING:
    from penstock.watch.feed import Feed
    from penstock.watch.resets import Resets
    from penstock.watch.search import Search

DESCRIPTION = """\
Show the topics and groups of a cluster on a live page in the browser: lag in records and in seconds, rates, sizes, the
newest records of a topic, rebalances and commits. It only reads, unless --allow-writes is given.
"""
EPILOG = """\
examples:
  penstock watch -b localhost:9092
  penstock watch -b localhost:9092 --open
  penstock watch -b broker:9093 --options-file client.properties --interval 2
  penstock watch -b localhost:9092 -o schemaRegistry.url=http://localhost:8081 --topic-option 'shop.*:valueFormat=avro'
  penstock watch --cluster production=production.properties --cluster staging=staging.properties
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
    parser.add_argument(
        "--cluster",
        action="append",
        default=[],
        type=_cluster,
        metavar="NAME=FILE",
        help="a cluster, and a file of its options such as Kafka's client.properties, with bootstrap.servers; may be "
        "repeated: the page switches between clusters; takes the place of -b and --options-file",
    )
    parser.add_argument("--name", default="", help="what the page calls the cluster, if you have pages of several")
    parser.add_argument(
        "--allow-writes",
        action="store_true",
        help="let the page reset the offsets of groups without members, with a preview; always requires the token",
    )
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
    clusters = _clusters(arguments)
    collectors = {name: make_collector(arguments, topics.connection) for name, topics in clusters.items()}
    from penstock.serving.hosts import is_loopback
    from penstock.watch.access import Access, new_token
    from penstock.watch.clusters import ClusterRows
    from penstock.watch.feed import Feed
    from penstock.watch.queries import QueryRegistry
    from penstock.watch.server import PageServer
    from penstock.watch.watched_cluster import WatchedCluster

    if not arguments.address:
        raise OptionError("--address", "", "is empty", "Use 127.0.0.1, or 0.0.0.0 for every address of this machine")
    is_secret = arguments.token or arguments.allow_writes or not is_loopback(arguments.address)
    token = new_token() if is_secret else None
    access = Access(token, frozenset(name.lower() for name in arguments.host_name))
    ended = threading.Event()
    previous = signal.signal(signal.SIGTERM, lambda number, _: ended.set())
    try:
        queries = QueryRegistry()
        rows = ClusterRows() if len(clusters) > 1 else None
        feeds = {
            name: Feed(collector, queries, name, clusters=rows, allows_writes=arguments.allow_writes)
            for name, collector in collectors.items()
        }
        watched = {
            name: WatchedCluster(
                feeds[name], _newest_records(topics), _resets(topics) if arguments.allow_writes else None
            )
            for name, topics in clusters.items()
        }
        with ExitStack() as opened:
            # The feeds close first, so that streams end, then the server, then the collectors.
            for collector in collectors.values():
                opened.enter_context(collector)
            server = opened.enter_context(PageServer(arguments.address, arguments.port, watched, access, queries))
            for feed in feeds.values():
                opened.enter_context(feed)
            url = page_url(arguments.address, server.port, token)
            say(url, flush=True)
            if arguments.open:
                shown = url if token is None else opened.enter_context(_redirect(url))
                threading.Thread(target=webbrowser.open, args=(shown,), daemon=True).start()
            return _wait(list(feeds.values()), ended)
    finally:
        signal.signal(signal.SIGTERM, previous)


def _clusters(arguments: argparse.Namespace) -> dict[str, TopicOptions]:
    """The options of each cluster, by its name on the page."""
    if not arguments.cluster:
        return {arguments.name: TopicOptions(connection_options(arguments), arguments.topic_option)}
    for name, given in (
        ("--bootstrap-server", arguments.bootstrap_server),
        ("--options-file", arguments.options_file),
        ("--name", arguments.name),
    ):
        if given:
            raise OptionError(name, None, "contradicts --cluster", f"Leave {name} out: FILE of NAME=FILE has it")
    found: dict[str, TopicOptions] = {}
    for name, path in arguments.cluster:
        if name in found:
            raise OptionError("--cluster", name, "is given twice")
        found[name] = TopicOptions(cluster_options(arguments, path), arguments.topic_option)
    return found


def _newest_records(topics: TopicOptions) -> Search:
    @functools.cache
    def loaded() -> Search:
        """With the first search: pyarrow takes 60 MB, which many pages do not need."""
        from penstock.cli.arrow_start import without_pandas
        from penstock.cli.newest_records import NewestRecords

        without_pandas()
        return NewestRecords(topics)

    return lambda request: loaded()(request)


def _resets(topics: TopicOptions) -> Resets:
    from penstock.cli.page_resets import PageResets

    return PageResets(topics.connection)


def _wait(feeds: Sequence[Feed], ended: threading.Event) -> int:
    try:
        while not ended.wait(0.2):
            for feed in feeds:
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


def _cluster(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if not name.strip() or not equals or not path:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=FILE")
    return name.strip(), path


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port")
    return int(text)
