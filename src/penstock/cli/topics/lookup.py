"""The parts of `penstock topics` that several verbs share: the clients."""

from __future__ import annotations

import argparse

from penstock.cli.connection import connection_options
from penstock.config.source import parse_options
from penstock.wire.api.topic_admin import Admin
from penstock.wire.client_config import ClientConfig

EXIT_CODES = "exit codes: 0 done, 1 failed (no broker, no such topic, not allowed), 2 wrong usage, 130 Ctrl-C\n"


def client_config(arguments: argparse.Namespace) -> ClientConfig:
    return parse_options(connection_options(arguments) | {"subscribePattern": ".*"}).client


def topic_admin(client: ClientConfig) -> Admin:
    return Admin(client.bootstrap_text, client.security, seconds=client.api_timeout)
