"""The topic that `penstock write` and `penstock copy` write to, created on request."""

from __future__ import annotations

import argparse

from penstock.cli.output import counted, say
from penstock.errors import BrokerError, UnknownTopic
from penstock.wire.client_config import ClientConfig
from penstock.wire.cluster import Cluster, Topic

MOST_PARTITIONS = 10_000


def add_create_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--create",
        type=partition_count,
        metavar="N",
        help="create the topic with N partitions if it does not exist (default: that is an error)",
    )


def target_topic(client: ClientConfig, name: str, create: int | None) -> Topic:
    """The metadata of a topic. With `create`, a missing one is created with so many partitions."""
    try:
        return Cluster(client).metadata((name,)).topics[name]
    except UnknownTopic as error:
        if create is None:
            raise UnknownTopic(name, None, "--create N creates it with N partitions") from error
    # Not at the top: it loads kafka-python, which takes 0.2 s, and only a missing topic needs it.
    from penstock.wire.api.topic_admin import Admin

    admin = Admin(client.bootstrap_text, client.security, seconds=client.api_timeout)
    try:
        admin.create_topic(name, create)
    except BrokerError:
        if name not in admin.topics():  # another program may have created it meanwhile
            raise
    else:
        say(f"created topic {name} with {counted(create, 'partition')}")
    return Cluster(client).metadata((name,)).topics[name]


def partition_count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST_PARTITIONS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of partitions")
    return int(text)
