"""Masks secrets in errors, log records and output.

Every error (`PenstockError`), every log record of Penstock (`get_logger`) and every line of the command line passes
through `masked`. A value is secret as a whole if the name of its option says so (`is_secret`).
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging

MASK = "***"

_NAMES = (
    r"pass(?:word|wd|phrase)|pwd|secret|jaas\.config|user\.info|keystore\.key|certificate\.chain|token(?!\.endpoint)"
    r"|proxy|api[._-]?key|private[._-]?key(?![._-](?:file|location))|schemaregistry\.(?:url|headers)|formatarguments"
)
"""Parts of the names of secret settings, in Kafka's clients, schema registries and databases."""


def is_secret(name: str) -> bool:
    """Whether the value of a setting with this name is never shown. Knows the names of several clients."""
    return re.search(_NAMES, name, re.IGNORECASE) is not None


def masked(text: str) -> str:
    """The text with passwords, tokens and private keys replaced by the mask."""
    for pattern, replacement in _patterns():
        text = pattern.sub(replacement, text)
    return text


@functools.cache  # compiled for the first error, and not with `import penstock`: they take 3 ms
def _patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    # Do not simplify: bounded lengths keep the time linear for a hostile text, such as a registry's.
    name = rf"[\w.-]{{0,100}}?(?:{_NAMES})[\w.-]{{0,60}}"
    quoted = r"""(?P<open>\\?["'])(?:[^"'\\]|\\.|(?!(?P=open))["'])*(?P=open)"""
    return (
        (re.compile(r"(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(?:(?=-----END )|\Z)", re.DOTALL), rf"\1 {MASK} "),
        # From :// to the last @ before a blank: a password may contain anything else. Masking too much is harmless.
        (re.compile(r"://\S{0,500}@"), f"://{MASK}@"),
        # name=value, as in a JAAS line, in a database's DSN and in an OptionError.
        (
            re.compile(rf"(?<![\w.-])({name}\s{{0,3}}=\s{{0,3}})(?:{quoted}|[^\s;&,)\"']+)", re.IGNORECASE),
            rf"\g<1>\g<open>{MASK}\g<open>",
        ),
        # 'name': 'value', as in JSON and in the repr of a dict.
        (
            re.compile(rf"""((?P<quote>['"]){name}(?P=quote)\s{{0,3}}:\s{{0,3}}){quoted}""", re.IGNORECASE),
            rf"\g<1>\g<open>{MASK}\g<open>",
        ),
        (
            re.compile(r"(authorization['\"]?\s*[:=,]\s*['\"]?(?:basic|bearer)\s+)[^\s'\"]+", re.IGNORECASE),
            rf"\1{MASK}",
        ),
    )


def get_logger(name: str) -> logging.Logger:
    """The logger of a module of Penstock, which masks its records.

    The filter is on the logger itself: a filter on the parent `penstock` would not see the records of its children, and
    a log record factory, which would, is a global of the user's program. A test checks that every module uses this.
    """
    import logging  # not with `import penstock`, which imports this module for its errors

    logger = logging.getLogger(name)
    if _mask_record not in logger.filters:
        logger.addFilter(_mask_record)
    return logger


def _mask_record(record: logging.LogRecord) -> bool:
    import traceback

    record.msg, record.args = masked(record.getMessage()), ()
    if record.exc_info and (error := record.exc_info[1]) is not None:
        text = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
        record.exc_text = masked(text)
        if record.exc_text != text:
            # Do not rely on the text alone: formatters of JSON, such as PySpark's, read the error itself.
            stand_in = _stand_in(error)
            record.exc_info = type(stand_in), stand_in, record.exc_info[2]
    return True


def _stand_in(error: BaseException) -> BaseException:
    """An error of the same name, with a masked message and without its causes."""
    cls = type(error)
    made = type(cls.__name__, (Exception,), {"__module__": cls.__module__, "__qualname__": cls.__qualname__})
    return made(masked(str(error)))  # type: ignore[no-any-return]
