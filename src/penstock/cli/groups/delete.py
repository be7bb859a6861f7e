"""`penstock groups delete GROUP`: a dry run unless --execute is given."""

from __future__ import annotations

import argparse
from typing import Any

from penstock.cli.groups.event_time import refuse_event_time
from penstock.cli.groups.lookup import EXIT_CODES, existing_group, group_admin, in_use_text
from penstock.cli.output import counted, say
from penstock.cli.verb import add_verb
from penstock.errors import BrokerError

EPILOG = f"""\
example:
  penstock groups delete words -b localhost:9092 --execute

{EXIT_CODES}"""


def add_parser(verbs: Any) -> None:
    parser = add_verb(verbs, "delete", "delete a group and its offsets (dry run by default)", EPILOG, run)
    parser.add_argument("group", metavar="GROUP")
    parser.add_argument("--execute", action="store_true", help="delete it; without it nothing is changed")


def run(arguments: argparse.Namespace) -> int:
    refuse_event_time(arguments)
    admin, group = group_admin(arguments), arguments.group
    described = existing_group(admin, group)
    if described.members:
        raise BrokerError(in_use_text(described, "it can be deleted"))
    offsets = counted(len(admin.all_commits(group)), "committed offset")
    if arguments.execute:
        admin.delete(group)
        say(f"Deleted group {group} with {offsets}.")
    else:
        say(f"Dry run: nothing was changed. To delete group {group} with {offsets}, add --execute.")
    return 0
