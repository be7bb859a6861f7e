"""The command line: `penstock NOUN ...`, one short file per command.

A command's file offers `add_parser(subparsers)`, which sets `run`: a function from the parsed arguments to an exit
code. What goes wrong is told here, once for all of them: one or a few lines on standard error, no traceback.
"""

from __future__ import annotations

import argparse
import errno
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

from penstock.cli.output import PrintableFormatter, printable_lines, say
from penstock.errors import OptionError, PenstockError
from penstock.masking import masked

OK, FAILED, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

EXIT_CODES = """\
exit codes:
  0    done
  1    it failed: a broker that does not answer, an unknown topic, data that is gone
  2    wrong usage: an argument or option that does not exist or makes no sense
  130  Ctrl-C
"""

EXAMPLES = """\
examples:
  penstock demo                                       see it work, with a broker of its own
  penstock broker --topic words:4                     a real Kafka for trying things out
  penstock topics -b localhost:9092                   what is there
  penstock read clicks -b localhost:9092 --from -10   the last records of a topic
  penstock stream clicks -b localhost:9092 --to parquet:clicks
                                                      a topic into files, or a database
  penstock groups -b localhost:9092 list              who reads, and how far they are
"""


def main(argv: Sequence[str] | None = None) -> int:
    try:
        return _run(argv)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # `penstock read ... | head`: the reader has seen enough.
        _forget_output()
        return OK


def _run(argv: Sequence[str] | None) -> int:
    parser = make_parser()
    try:
        arguments = parser.parse_args(argv)
    except SystemExit:  # the help was shown, or usage
        _flush()
        raise
    if not hasattr(arguments, "run"):
        parser.print_help()
        _flush()
        return OK
    debug = getattr(arguments, "debug", False)
    # In one line each, as the errors are; `log.warning` is how the engine tells what it works around.
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
        _tell(f"penstock {arguments.command}: {error}", debug)
        return WRONG_USAGE if isinstance(error, OptionError) else FAILED
    except Exception as error:
        name = type(error).__name__
        what = f"unexpected {name}: {error}. This is a bug; --debug shows where"
        if isinstance(error, OSError) and error.errno in FULL:
            _forget_output()
            what = f"the output cannot be written: {error.strerror}"
        _tell(f"penstock {arguments.command}: {what}", debug)
        return FAILED


def _tell(what: str, debug: bool) -> None:
    """Without secrets, which errors of databases and other libraries may hold. With --debug: where it happened."""
    say(masked(traceback.format_exc().rstrip("\n") if debug else what), file=sys.stderr)


def _flush() -> None:
    """Now, while somebody can tell of what does not get through: when Python exits, it is a traceback of sorts."""
    print(end="", flush=True)


def _forget_output() -> None:
    """What is left would be written when Python exits, and fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def make_parser() -> argparse.ArgumentParser:
    # Here, and not above: whoever presses Ctrl-C while this is loaded shall see no traceback.
    from penstock.cli import broker, demo, groups, read, stream, topics

    parser = Parser(
        prog="penstock",
        description="Kafka for PySpark, without a JAR. This is its command line: look into topics, start a broker.",
        epilog=f"{EXAMPLES}\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=Version)
    parser.add_argument("--debug", action="store_true", help="log what happens, and show tracebacks")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for command in (demo, topics, read, stream, groups, broker):
        command.add_parser(subparsers)
    for sub in subparsers.choices.values():
        # After the command too, where one types it when something has just gone wrong.
        sub.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    return parser


class Parser(argparse.ArgumentParser):
    """Its subparsers are of this class, too. Its errors repeat what was given."""

    def error(self, message: str) -> NoReturn:
        super().error(printable_lines(masked(message)))


class Version(argparse.Action):
    """`--version`, looked up only when asked for."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, help="show the version and exit")

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        import penstock

        say(f"penstock {penstock.__version__}")
        parser.exit()
