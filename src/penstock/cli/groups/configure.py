"""`penstock groups configure GROUP NAME=VALUE`: a dry run unless --execute is given."""

from __future__ import annotations

import argparse
from typing import Any

from penstock.cli.groups.event_time import refuse_event_time
from penstock.cli.groups.lookup import EXIT_CODES, group_admin
from penstock.cli.output import counted, say
from penstock.cli.verb import add_verb
from penstock.errors import OptionError

EPILOG = f"""\
The brokers keep settings of a group, which need not exist yet. An empty value removes a setting: the default of the
brokers counts again. The brokers check the names and values, without --execute too. Some names:
  share.auto.offset.reset          where a share group starts: latest (the default), earliest, by_duration:PT1H
  share.record.lock.duration.ms    how long a record is locked for the member that has acquired it
  share.delivery.count.limit       how often a record is delivered at most
  share.isolation.level            read_uncommitted (the default) or read_committed
  consumer.session.timeout.ms      the session of members of group.protocol=consumer

example:
  penstock groups configure orders share.auto.offset.reset=earliest -b localhost:9092 --execute

{EXIT_CODES}"""


def add_parser(verbs: Any) -> None:
    parser = add_verb(verbs, "configure", "change settings of a group (dry run by default)", EPILOG, run)
    parser.add_argument("group", metavar="GROUP")
    parser.add_argument("settings", metavar="NAME=VALUE", nargs="+")
    parser.add_argument("--execute", action="store_true", help="change them; without it they are only checked")


def run(arguments: argparse.Namespace) -> int:
    refuse_event_time(arguments)
    settings = dict(_setting(text) for text in arguments.settings)
    admin, group = group_admin(arguments), arguments.group
    admin.configure(group, settings, validate_only=not arguments.execute)
    for name, value in settings.items():
        say(f"{name}: {'the default of the brokers' if value is None else value}")
    changed = counted(len(settings), "setting")
    if arguments.execute:
        say(f"Changed {changed} of group {group}.")
    else:
        say(f"Dry run: nothing was changed. To change {changed} of group {group}, add --execute.")
    return 0


def _setting(text: str) -> tuple[str, str | None]:
    name, separator, value = text.partition("=")
    if not name or not separator:
        raise OptionError("NAME=VALUE", text, "is not a setting", "Example: share.auto.offset.reset=earliest")
    return name, value or None
