"""Arguments that stand for options of typed values, and errors that name the arguments."""

from __future__ import annotations

import argparse
import contextlib
import re
from collections.abc import Iterator

from penstock.errors import OptionError

FORMAT_ARGUMENTS = {
    "format": "valueFormat",
    "schema": "valueSchema",
    "message": "valueMessage",
    "registry": "schemaRegistry.url",
    "framing": "valueFraming",
    "mode": "mode",
}
"""Arguments that stand for options."""


def format_options(arguments: argparse.Namespace) -> dict[str, str]:
    """The options that the user gave as arguments."""
    given = {option: getattr(arguments, name, None) for name, option in FORMAT_ARGUMENTS.items()}
    return {option: value for option, value in given.items() if value is not None}


_NAMES = {option: f"--{name}" for name, option in FORMAT_ARGUMENTS.items()}
_WORDS = re.compile(rf"(?<![\w.-])(?:{'|'.join(map(re.escape, _NAMES))})(?![\w-])")


@contextlib.contextmanager
def argument_names() -> Iterator[None]:
    """Name the arguments instead of the options in errors."""
    try:
        yield
    except OptionError as error:
        name, reason, hint = (
            _WORDS.sub(lambda found: _NAMES[found[0]], text) for text in (error.name, error.reason, error.hint)
        )
        raise OptionError(name, error.value, reason, hint) from error
