"""Keeps secrets out of everything that is shown.

Every error (`PenstockError`), every log record of Penstock (`mask_logs`) and every line of the command line passes
through `masked`. Values that are secret as a whole are known by their option's name (`is_secret`).
"""

from __future__ import annotations

import functools
import re

MASK = "***"

_NAMES = (
    r"pass(?:word|wd|phrase)|pwd|secret|jaas\.config|user\.info|keystore\.key|certificate\.chain|token(?!\.endpoint)"
    r"|proxy|api[._-]?key|private[._-]?key(?![._-](?:file|location))|schemaregistry\.(?:url|headers)"
)
"""What the names of secret settings have in them, in Kafka's clients, schema registries and databases."""


def is_secret(name: str) -> bool:
    """Whether the value of a setting with this name is never shown, in whichever client's words it is written."""
    return re.search(_NAMES, name, re.IGNORECASE) is not None


def masked(text: str) -> str:
    """A text without passwords, tokens and private keys, for a reader who does not have to know them."""
    for pattern, replacement in _patterns():
        text = pattern.sub(replacement, text)
    return text


@functools.cache  # when the first error is made, and not with `import penstock`: they take 3 ms to compile
def _patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    # Do not simplify: bounded lengths keep a hostile text, such as a registry's, from costing the square of its length.
    name = rf"[\w.-]{{0,100}}?(?:{_NAMES})[\w.-]{{0,60}}"
    quoted = r"""(?P<open>\\?["'])(?:[^"'\\]|\\.|(?!(?P=open))["'])*(?P=open)"""
    return (
        (re.compile(r"(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(?:(?=-----END )|\Z)", re.DOTALL), rf"\1 {MASK} "),
        # From :// to the last @ before a blank: a password may hold anything else, and a word too much does no harm.
        (re.compile(r"://\S{0,500}@"), f"://{MASK}@"),
        # name=value, as in a JAAS line, in a database's DSN and in an OptionError. It begins where a name begins.
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


def mask_logs() -> None:
    """Mask every log record that Penstock makes in this process, its tracebacks included. Called where options are
    read, which is where secrets come in."""
    import logging
    import traceback

    make = logging.getLogRecordFactory()
    if getattr(make, "masks_penstock", False):
        return

    def make_masked(name: str, *args: object, **named: object) -> logging.LogRecord:
        record = make(name, *args, **named)
        if name == "penstock" or name.startswith("penstock."):
            record.msg, record.args = masked(record.getMessage()), ()
            if record.exc_info and record.exc_info[0] is not None:
                record.exc_text = masked("".join(traceback.format_exception(*record.exc_info)).rstrip("\n"))
        return record

    make_masked.masks_penstock = True  # type: ignore[attr-defined]
    logging.setLogRecordFactory(make_masked)
