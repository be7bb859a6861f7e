"""Which cluster a command talks to, and how: the arguments that `topics`, `read` and `groups` share."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path

from penstock.config.client import KAFKA_NO_EFFECT, KAFKA_OPTIONS
from penstock.config.source import OPTIONS, REFUSED
from penstock.errors import OptionError

BOOTSTRAP_VARIABLE = "PENSTOCK_BOOTSTRAP"

PATIENCE = {"kafka.default.api.timeout.ms": "10000"}
"""Somebody waits in front of the terminal: a minute, which suits a job in the night, is too long here."""


def add_connection_arguments(parser: argparse.ArgumentParser, *, again: bool = False) -> None:
    """`again`: for a verb under a noun that has them too. What is not given there must not undo what came before."""
    nothing = argparse.SUPPRESS if again else None
    group = parser.add_argument_group("connection")
    group.add_argument(
        "-b",
        "--bootstrap-server",
        metavar="HOST:PORT",
        default=nothing,
        help=f"brokers to ask first, with commas between them (default: ${BOOTSTRAP_VARIABLE})",
    )
    group.add_argument(
        "-o",
        "--option",
        action="append",
        dest="more_options" if again else "option",
        default=[],
        metavar="NAME=VALUE",
        type=_assignment,
        help="an option of the source, e.g. kafka.security.protocol=SSL; may be repeated",
    )
    group.add_argument(
        "--options-file",
        metavar="FILE",
        default=nothing,
        help="options as in Kafka's own client.properties; keeps passwords off the command line",
    )


def connection_options(arguments: argparse.Namespace) -> dict[str, str]:
    """What was given, as options of the source. The nearer word wins: environment, file, -o, -b."""
    given = dict(PATIENCE)
    if os.environ.get(BOOTSTRAP_VARIABLE):
        given["kafka.bootstrap.servers"] = os.environ[BOOTSTRAP_VARIABLE]
    if arguments.options_file:
        given |= {full_name(name): value for name, value in read_properties(arguments.options_file).items()}
    given |= {full_name(name): value for name, value in [*arguments.option, *getattr(arguments, "more_options", [])]}
    if arguments.bootstrap_server:
        given["kafka.bootstrap.servers"] = arguments.bootstrap_server
    if "kafka.bootstrap.servers" not in given:
        raise OptionError(
            "--bootstrap-server",
            None,
            "which broker? None was named",
            f"Add -b HOST:PORT or set {BOOTSTRAP_VARIABLE}; `penstock broker` starts one to try",
        )
    return given


def full_name(name: str) -> str:
    """An option's name, with the `kafka.` that properties of Kafka's own clients leave out."""
    known = {*map(str.lower, KAFKA_OPTIONS), *KAFKA_NO_EFFECT, *REFUSED}
    return f"kafka.{name}" if name not in OPTIONS and f"kafka.{name}".lower() in known else name


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name.strip() or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name.strip(), value


def read_properties(path: str) -> dict[str, str]:
    """Java's .properties format: comments, continued lines, `=`, `:` or a blank between name and value, escapes."""
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8 text"
        raise OptionError("--options-file", path, f"cannot be read: {reason}") from error
    found = {}
    for line in re.sub(r"(?<!\\)((?:\\\\)*)\\\n[ \t]*", r"\1", text).splitlines():
        line = line.lstrip()
        if not line or line[0] in "#!":
            continue
        # Not shown when it cannot be read: it may be the line with the password.
        match = re.match(r"((?:[^\\=:\s]|\\.)+)\s*[=:\s]\s*(.*)", line) or re.match(r"(\S+)()$", line)
        if match is None:
            raise OptionError("--options-file", path, f"line {line.split('=')[0][:20]!r}... is not name=value")
        found[_unescaped(match[1])] = _unescaped(match[2])
    return found


def _unescaped(text: str) -> str:
    words = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}

    def one(match: re.Match[str]) -> str:
        escape = match[1]
        return chr(int(escape[1:], 16)) if len(escape) == 5 else words.get(escape, escape)

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", one, text)
