"""The arguments of the commands that watch a whole cluster, and the collector that they make of them."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.cli.connection import connection_options
from penstock.errors import OptionError

if TYPE_CHECKING:
    from penstock.monitor.collector import Collector


def add_monitoring_arguments(parser: argparse.ArgumentParser, *, interval: float) -> None:
    selection = parser.add_argument_group("selection (a name is selected if it contains a match of REGEX)")
    selection.add_argument(
        "--include-topics", metavar="REGEX", help="topics to include (default: all but internal ones)"
    )
    selection.add_argument("--exclude-topics", metavar="REGEX", help="topics to exclude (default: none)")
    selection.add_argument("--include-groups", metavar="REGEX", help="groups to include (default: all)")
    selection.add_argument("--exclude-groups", metavar="REGEX", help="groups to exclude (default: none)")
    limits = parser.add_argument_group("limits")
    limits.add_argument(
        "--interval",
        type=_positive,
        default=interval,
        metavar="SECONDS",
        help=f"seconds from one round of questions to the next (default {interval:g})",
    )
    limits.add_argument(
        "--requests-per-second",
        type=_positive,
        default=20.0,
        metavar="N",
        help="the most requests per second to all brokers together; large clusters take longer (default 20)",
    )
    limits.add_argument(
        "--lookups-per-second",
        type=_positive,
        default=200.0,
        metavar="N",
        help="the most next records per second that are looked up for the lag in seconds, each of up to 16 KB; other "
        "positions show a bound until their turn (default 200)",
    )


def make_collector(arguments: argparse.Namespace, given: Mapping[str, str] | None = None) -> Collector:
    """`given`: the options of the connection, if they are not those of the arguments alone."""
    from penstock.config.source import parse_options
    from penstock.monitor.collector import Collector
    from penstock.monitor.selection import Selection
    from penstock.monitor.settings import MonitorSettings

    def selection(noun: str) -> Selection:
        try:
            return Selection(getattr(arguments, f"include_{noun}"), getattr(arguments, f"exclude_{noun}"))
        except OptionError as error:
            raise OptionError(f"--{error.name}-{noun}", error.value, error.reason) from None

    settings = MonitorSettings(
        topics=selection("topics"),
        groups=selection("groups"),
        interval=arguments.interval,
        requests_per_second=arguments.requests_per_second,
        lookups_per_second=arguments.lookups_per_second,
    )
    options = connection_options(arguments) if given is None else dict(given)
    return Collector(parse_options(options | {"subscribePattern": ".*"}).client, settings)


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return number
