"""The connection arguments that all commands share: brokers, options, and a file of options."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Mapping
from pathlib import Path

from penstock.config.option import merged
from penstock.config.sink import SINK_CLIENT_OPTIONS
from penstock.errors import OptionError

BOOTSTRAP_VARIABLE = "PENSTOCK_BOOTSTRAP"

SERVERS = "bootstrap.servers"

INTERACTIVE_OPTIONS = {"default.api.timeout.ms": "10000"}
"""Defaults of the command line: the usual minute is too long for a user at a terminal."""


def add_connection_arguments(parser: argparse.ArgumentParser, *, again: bool = False) -> None:
    """`again`: for a verb whose noun has them too. Defaults there must not replace arguments before the verb."""
    nothing = argparse.SUPPRESS if again else None
    group = parser.add_argument_group("connection")
    group.add_argument(
        "-b",
        "--bootstrap-server",
        metavar="HOST:PORT",
        default=nothing,
        help=f"brokers to connect to first, separated by commas (default: ${BOOTSTRAP_VARIABLE})",
    )
    group.add_argument(
        "-o",
        "--option",
        action="append",
        dest="more_options" if again else "option",
        default=[],
        metavar="NAME=VALUE",
        type=_assignment,
        help="an option of the source, such as security.protocol=SSL; may be repeated",
    )
    group.add_argument(
        "--options-file",
        metavar="FILE",
        default=nothing,
        help="a file of options, such as Kafka's client.properties; keeps passwords off the command line",
    )


def add_target_arguments(parser: argparse.ArgumentParser) -> None:
    """The cluster that a copy is written to, if it is another one."""
    group = parser.add_argument_group("target (default: the same connection)")
    group.add_argument(
        "--to-bootstrap-server", metavar="HOST:PORT", help="brokers of the target; none of -o is used for it then"
    )
    group.add_argument(
        "--to-option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        type=_assignment,
        help="an option of the target, such as compression.type=zstd; may be repeated",
    )
    group.add_argument("--to-options-file", metavar="FILE", help="a file of options of the target")


def target_options(arguments: argparse.Namespace) -> dict[str, str]:
    """The options of the target. Without an address of its own it is the source's cluster, with the same login.

    Otherwise it gets no option of the source: a login must not be sent to another cluster.
    """
    own = merged(
        read_properties(arguments.to_options_file, "--to-options-file") if arguments.to_options_file else {},
        dict(arguments.to_option),
        {SERVERS: arguments.to_bootstrap_server} if arguments.to_bootstrap_server else {},
    )
    if _names_brokers(own):
        return merged(INTERACTIVE_OPTIONS, own)
    shared = connection_options(arguments)
    return merged({name: value for name, value in shared.items() if SINK_CLIENT_OPTIONS.declares(name)}, own)


def connection_options(arguments: argparse.Namespace) -> dict[str, str]:
    """The arguments as options of the source. Later ones win: environment, file, -o, -b."""
    from_environment = os.environ.get(BOOTSTRAP_VARIABLE)
    given = merged(
        INTERACTIVE_OPTIONS,
        {SERVERS: from_environment} if from_environment else {},
        read_properties(arguments.options_file) if arguments.options_file else {},
        dict([*arguments.option, *getattr(arguments, "more_options", [])]),
        {SERVERS: arguments.bootstrap_server} if arguments.bootstrap_server else {},
    )
    if not _names_brokers(given):
        raise OptionError(
            "--bootstrap-server",
            None,
            "is missing",
            f"Add -b HOST:PORT or set {BOOTSTRAP_VARIABLE}; `penstock broker` starts a broker",
        )
    return given


def cluster_options(arguments: argparse.Namespace, path: str) -> dict[str, str]:
    """The options of one of several clusters: those of its file, then -o, which all of them get."""
    given = merged(INTERACTIVE_OPTIONS, read_properties(path, "--cluster"), dict(arguments.option))
    if not _names_brokers(given):
        # Without the environment: two names would show the same cluster.
        raise OptionError("--cluster", path, f"has no {SERVERS}", f"Add a line {SERVERS}=HOST:PORT")
    return given


def _names_brokers(options: Mapping[str, str]) -> bool:
    return SINK_CLIENT_OPTIONS.gives(options, SINK_CLIENT_OPTIONS.declared_name(SERVERS))


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name.strip() or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name.strip(), value


def read_properties(path: str, argument: str = "--options-file") -> dict[str, str]:
    """Read Java's .properties: comments, continued lines, `=`, `:` or a blank between name and value, escapes."""
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8 text"
        raise OptionError(argument, path, f"cannot be read: {reason}") from error
    found = {}
    for line in re.sub(r"(?<!\\)((?:\\\\)*)\\\n[ \t]*", r"\1", text).splitlines():
        line = line.lstrip()
        if not line or line[0] in "#!":
            continue
        # The error does not show the value: it may be a password.
        match = re.match(r"((?:[^\\=:\s]|\\.)+)\s*[=:\s]\s*(.*)", line) or re.match(r"(\S+)()$", line)
        if match is None:
            raise OptionError(argument, path, f"line {line.split('=')[0][:20]!r}... is not name=value")
        found[_unescaped(match[1])] = _unescaped(match[2])
    return found


def _unescaped(text: str) -> str:
    words = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}

    def one(match: re.Match[str]) -> str:
        escape = match[1]
        return chr(int(escape[1:], 16)) if len(escape) == 5 else words.get(escape, escape)

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", one, text)
