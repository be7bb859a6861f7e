"""The command line: `penstock COMMAND ...`, one file per command.

The file of a command has `add_arguments(parser)`, which sets `run`: a function from the parsed arguments to an exit
code. This file prints the errors of all commands: one or a few lines on standard error, without a traceback.
"""

from __future__ import annotations

import argparse
import errno
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

from penstock.cli.exit_codes import FAILED, INTERRUPTED, OK, WRONG_USAGE
from penstock.cli.output import (
    ColourMode,
    PrintableFormatter,
    add_color_argument,
    printable_lines,
    say,
    set_colour_mode,
)
from penstock.config.times import RELATIVE
from penstock.errors import OptionError, PenstockError
from penstock.masking import masked

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

COMMANDS = {
    "demo": "read a million events from Kafka with PySpark",
    "doctor": "check this machine and the way to a cluster",
    "topics": "list, create, describe and delete topics",
    "read": "show the records of a topic",
    "write": "write files or standard input to a topic",
    "copy": "copy a topic to another topic or cluster",
    "stream": "copy a topic to Parquet files or a database, continuously",
    "groups": "list, describe, reset and delete consumer groups",
    "top": "show the lag of all groups, live",
    "exporter": "serve the lag of all groups to Prometheus",
    "watch": "show the cluster on a live page in the browser",
    "broker": "start a real Kafka on this machine, to try things out",
}
"""The commands, each in the module of its name, and what `penstock --help` says about them."""

TIME_ARGUMENTS = ("--from", "--until", "--to")
"""Arguments whose value may be a time."""

EXIT_CODES = """\
exit codes:
  0    done
  1    failed: a broker does not answer, a topic does not exist, data is lost
  2    wrong usage: an argument or option is unknown or invalid
  130  Ctrl-C
"""

EXAMPLES = """\
examples:
  penstock demo                                       read a million events with PySpark
  penstock doctor -b localhost:9092                   check this machine and the way to a cluster
  penstock broker --topic words:4                     start a real Kafka to try things out
  penstock topics -b localhost:9092                   list the topics of a cluster
  penstock read clicks -b localhost:9092 --from -10   show the last records of a topic
  penstock write clicks clicks.jsonl -b localhost:9092
                                                      write a file to a topic
  penstock copy clicks clicks-copy -b localhost:9092 --create 4
                                                      copy a topic to another one
  penstock stream clicks -b localhost:9092 --to parquet:clicks
                                                      copy a topic to files or a database
  penstock groups -b localhost:9092 list              list the consumer groups
  penstock top -b localhost:9092                      show the lag of all groups, live
  penstock exporter -b localhost:9092                 serve the lag of all groups to Prometheus
  penstock watch -b localhost:9092                    show the cluster on a live page in the browser
"""


def main(argv: Sequence[str] | None = None) -> int:
    try:
        return _run(argv)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # `penstock read ... | head`: the reader of the pipe has ended.
        _discard_output()
        return OK


def _run(argv: Sequence[str] | None) -> int:
    parser = make_parser()
    try:
        arguments = parser.parse_args(with_relative_times(sys.argv[1:] if argv is None else argv))
    except SystemExit:  # after --help or wrong usage
        _flush()
        raise
    if not hasattr(arguments, "run"):
        parser.print_help()
        _flush()
        return OK
    set_colour_mode(ColourMode(arguments.color))
    debug = getattr(arguments, "debug", False)
    # One line per warning, like the errors.
    handler = logging.StreamHandler()
    handler.setFormatter(PrintableFormatter("penstock: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.DEBUG if debug else logging.WARNING)
    logging.getLogger("kafka").setLevel(logging.WARNING if debug else logging.CRITICAL)
    try:
        code = int(arguments.run(arguments))
        _flush()
        return code
    except BrokenPipeError:
        raise
    except PenstockError as error:
        _print_error(f"penstock {arguments.command}: {error}", debug)
        return WRONG_USAGE if isinstance(error, OptionError) else FAILED
    except Exception as error:
        name = type(error).__name__
        what = f"unexpected {name}: {error}. This is a bug; --debug shows the traceback"
        if isinstance(error, OSError) and error.errno in FULL:
            _discard_output()
            what = f"the output cannot be written: {error.strerror}"
        _print_error(f"penstock {arguments.command}: {what}", debug)
        return FAILED


def with_relative_times(argv: Sequence[str]) -> list[str]:
    """Attach relative times to their argument: `--from -1h` becomes `--from=-1h`.

    argparse takes `-1h` for an option. It makes an exception for negative numbers only.
    """
    given: list[str] = []
    for text in argv:
        if given and given[-1] in TIME_ARGUMENTS and "--" not in given and RELATIVE.fullmatch(text):
            given[-1] += f"={text}"
        else:
            given.append(text)
    return given


def _print_error(what: str, debug: bool) -> None:
    """Print an error without secrets, which errors of other libraries may contain. With --debug: its traceback."""
    say(masked(traceback.format_exc().rstrip("\n") if debug else what), file=sys.stderr)


def _flush() -> None:
    """Flush while errors are still handled: when Python exits, a failure would print a traceback."""
    print(end="", flush=True)


def _discard_output() -> None:
    """Drop buffered output: Python would write it at exit, and fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def make_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="penstock",
        description="Kafka for PySpark, without a JAR. The command line shows topics and groups, and moves data.",
        epilog=f"{EXAMPLES}\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=Version)
    parser.add_argument("--debug", action="store_true", help="log each step, and show tracebacks")
    add_color_argument(parser, "auto", "when to use colours: auto (default: on a terminal), always or never")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, text in COMMANDS.items():
        subparsers.add_parser(name, help=text, command=name, formatter_class=argparse.RawDescriptionHelpFormatter)
    return parser


class Parser(argparse.ArgumentParser):
    """Masks secrets in errors, which repeat the arguments. Its subparsers are of this class too.

    Options may stand between positional arguments: `write TOPIC -b HOST:PORT FILE`. argparse alone gives all positional
    arguments their values at the first one, and then refuses FILE.

    The parser of a command imports the command's module when it parses: the modules of all commands take half a second.
    """

    _is_intermixed = False

    def __init__(self, *args: Any, command: str | None = None, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._command = command

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if self._command is not None:
            command = import_module(f"{__name__}.{self._command}")
            self._command = None
            command.add_arguments(self)
            # After the command too: that is where users add it after a failure.
            self.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
            add_color_argument(self, argparse.SUPPRESS, argparse.SUPPRESS)
        takes_many = any(action.nargs == "*" for action in self._get_positional_actions())
        if not takes_many or self._is_intermixed:
            return super().parse_known_args(args, namespace)
        self._is_intermixed = True  # it calls this method
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_intermixed = False

    def error(self, message: str) -> NoReturn:
        super().error(printable_lines(masked(message)))


class Version(argparse.Action):
    """`--version`, looked up only when it is given."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, help="show the version and exit")

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        import penstock

        say(f"penstock {penstock.__version__}")
        parser.exit()
