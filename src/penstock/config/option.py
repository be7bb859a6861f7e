"""Options: declared once in a table, which parses them, knows their defaults and fills the fields of config values.

`Option` is one declaration, `OptionTable` holds many and parses what a user gives, and `OptionValues` is the result:
the given values, with the table's defaults for the others. `docs/options.md` and `--help` are written from the tables.

Only this file knows the prefix `kafka.`: Spark's Kafka source has it before the names of Kafka's settings, and Kafka's
own clients do not. A table accepts both, and errors repeat names as the user writes them.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from penstock.errors import OptionError, did_you_mean
from penstock.masking import MASK, get_logger, is_secret, masked

log = get_logger(__name__)

PREFIX = "kafka."
"""Before the names of Kafka's settings, in the options of Spark's Kafka source. Optional everywhere."""

Value = TypeVar("Value")

Parser: TypeAlias = Callable[[str, str], Any]
"""Takes the name of an option, for errors, and its text."""

Ignored: TypeAlias = tuple[tuple[str, str], ...]
"""Options that have no effect, each with the reason."""


def bare_name(name: str) -> str:
    """The name of a Kafka setting without the prefix."""
    return name.removeprefix(PREFIX)


def option_key(name: str) -> str:
    """The same text for all ways to write a name: with or without the prefix, in any case."""
    return bare_name(name.lower())


def merged(*layers: Mapping[str, Value]) -> dict[str, Value]:
    """Options of several origins. Later ones replace earlier ones, in whichever way either name is written."""
    found = {option_key(name): (name, value) for layer in layers for name, value in layer.items()}
    return dict(found.values())


@dataclass(frozen=True, slots=True)
class Option:
    """The declaration of one option."""

    name: str
    parse: Parser
    default: str | None
    """As a user would write it. The only place where a default is written."""
    doc: str
    field: str = ""
    """The field that it fills in the config value of its table. Empty: code derives something from it."""

    @property
    def secret(self) -> bool:
        """Whether its value is never shown."""
        return is_secret(self.name)


class OptionTable(Mapping[str, Option]):
    """Options by name, in the order of the docs, and the parser of what a user gives."""

    def __init__(
        self,
        *options: Option,
        aliases: Mapping[str, str] | None = None,
        refused: Mapping[str, str] | None = None,
        no_effect: Mapping[str, str] | None = None,
        ignores_case: bool = False,
        kafka: Iterable[str] = (),
        hint: Callable[[str], str] | None = None,
    ) -> None:
        """`aliases`: other names of the options. `refused`: names that cannot be supported, each with the alternative.
        `no_effect`: names that are accepted with a warning, each with the reason. `kafka`: the names of Kafka's
        settings, in a table that declares them without the prefix. `hint`: what to say about an unknown name that
        resembles none of these; it comes before the nearest name where it is not empty."""
        self._options = {option.name: option for option in options}
        self._refused = refused or {}
        self._no_effect = no_effect or {}
        self._ignores_case = ignores_case
        self._hint = hint
        self._names = [*self._options, *(aliases or {}), *self._no_effect]
        known = [*self._options, *self._no_effect, *self._refused]
        self._known = {self._folded(name): name for name in known} | dict(aliases or {})
        prefixed = [name for name in self._known if name.startswith(PREFIX)]
        self._kafka = {option_key(name) for name in (*prefixed, *kafka)}
        self._prefix = PREFIX if prefixed else ""
        for key in self._kafka:
            name = self._known[self._folded(self._prefix + key)]
            for other in (PREFIX + key, key):
                self._known.setdefault(other, name)
        self._defaults: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Option:
        return self._options[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._options)

    def __len__(self) -> int:
        return len(self._options)

    def default(self, name: str) -> Any:
        """The default of an option as a value; None if it has none."""
        if name not in self._defaults:
            option = self._options[name]
            self._defaults[name] = None if option.default is None else option.parse(name, option.default)
        return self._defaults[name]

    def declares(self, name: str) -> bool:
        """Whether a name, in any case that the table accepts, is that of an option: not of one refused or ignored."""
        return self._known.get(self._folded(name)) in self._options

    def declared_name(self, name: str) -> str:
        """A name as it is declared; unchanged if the table does not have it."""
        return self._known.get(self._folded(name), name)

    def gives(self, given: Iterable[str], name: str) -> bool:
        """Whether the option of a declared name is among those given."""
        return any(self.declared_name(each) == name for each in given)

    def prefix_of(self, given: Iterable[str]) -> str:
        """The prefix before Kafka's names as the user writes them. As in the declarations if none of them is given."""
        names = [name.lower() for name in given]
        if any(name.startswith(PREFIX) for name in names):
            return PREFIX
        return "" if not self._kafka.isdisjoint(names) else self._prefix

    def spelled(self, text: str, prefix: str, given: Iterable[str] = ()) -> str:
        """A text in which Kafka's settings have the prefix, with their names as the user writes them."""
        written = {option_key(name): name for name in given}
        written |= {name: name for name in given}  # a name that is given in both ways stays

        def spell(found: re.Match[str]) -> str:
            name = found[0]
            return written.get(name) or written.get(option_key(name)) or prefix + bare_name(name)

        return self._prefixed_names.sub(spell, text)

    @functools.cached_property
    def _prefixed_names(self) -> re.Pattern[str]:
        # Longest first: ssl.keystore.key is also the beginning of another name.
        names = "|".join(re.escape(key) for key in sorted(self._kafka, key=len, reverse=True))
        return re.compile(rf"(?<![\w.]){re.escape(PREFIX)}(?:{names})(?!\w)" if names else r"(?!)")

    @contextlib.contextmanager
    def names_as_written(self, given: Mapping[str, object]) -> Iterator[None]:
        """Around parsing: errors name Kafka's settings with or without the prefix, as the user does."""
        try:
            yield
        except OptionError as error:
            prefix, name = self.prefix_of(given), error.name
            if name not in given and option_key(name) in self._kafka:
                name = prefix + option_key(name)
            reason, hint = (self.spelled(text, prefix, given) for text in (error.reason, error.hint))
            if (name, reason, hint) == (error.name, error.reason, error.hint):
                raise
            raise OptionError(name, error.value, reason, hint) from None

    def parse(self, given: Mapping[str, object]) -> OptionValues:
        """Parse a user's options. Raises OptionError for the first wrong one, under the name the user gave it."""
        with self.names_as_written(given):
            return self._parse(given)

    def _parse(self, given: Mapping[str, object]) -> OptionValues:
        values: dict[str, Any] = {}
        written: dict[str, str] = {}
        ignored: dict[str, str] = {}
        for key, raw in given.items():
            name = self._known.get(self._folded(key))
            if name is None:
                # Without its value: a misspelt name may stand before a password.
                raise OptionError(key, None, "is unknown", self._nearest(key))
            if name in self._refused:
                raise OptionError(key, raw, "is not supported", self._refused[name])
            if name in self._no_effect:
                ignored[key] = self.spelled(self._no_effect[name], self.prefix_of(given), given)
                continue
            value = self._parse_one(self._options[name], key, raw)
            if name in values and values[name] != value:
                other = written[name]
                raise OptionError(key, raw, f"contradicts {other} = {given[other]!r}", f"Set only {name}")
            values[name], written[name] = value, key
        shown = tuple((key, _shown(self._options[name], given[key])) for name, key in written.items())
        return OptionValues(self, values, written, tuple(ignored.items()), shown)

    def _folded(self, name: str) -> str:
        return name.lower() if self._ignores_case else name

    def _nearest(self, key: str) -> str:
        hint = self._hint(key) if self._hint is not None else ""
        prefix = PREFIX if key.lower().startswith(PREFIX) else ""
        names = (prefix + bare_name(name) if option_key(name) in self._kafka else name for name in self._names)
        return hint or did_you_mean(key.replace("_", "."), names)

    def _parse_one(self, option: Option, key: str, raw: object) -> Any:
        name = option.name if key.lower() == option.name.lower() else key
        try:
            return option.parse(name, as_text(name, raw))
        except OptionError as error:
            if error.value is None or isinstance(raw, str):
                raise
            raise OptionError(error.name, raw, error.reason, error.hint) from None


class OptionValues:
    """The parsed options of one user, with the defaults of their table for the others."""

    def __init__(
        self,
        table: OptionTable,
        given: Mapping[str, Any],
        written: Mapping[str, str] | None = None,
        ignored: Ignored = (),
        shown: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self.table = table
        self.given = given
        """The values that the user gave, by the names of the table."""
        self.written = written or {}
        """The names as the user wrote them, by the names of the table."""
        self.ignored = ignored
        self.shown = shown
        """The names and texts as the user wrote them, for the log: secrets are masked, long texts are cut."""

    @property
    def prefix(self) -> str:
        """The prefix before Kafka's names as the user writes them."""
        return self.table.prefix_of(self.written.values())

    def __getitem__(self, name: str) -> Any:
        """The given value, else the default; None if there is neither."""
        return self.given[name] if name in self.given else self.table.default(name)

    def fields(self, table: OptionTable) -> dict[str, Any]:
        """The fields that the options of a table fill. Left out: options that are neither given nor have a default."""
        options = [self.table[name] for name in table]
        return {
            option.field: self[option.name]
            for option in options
            if option.field and (option.default is not None or option.name in self.given)
        }


LONGEST_SHOWN = 200
"""Characters of an option's text in the log. Schemas and offsets can have thousands."""


def _shown(option: Option, raw: object) -> str:
    if option.secret:
        return MASK
    text = masked(" ".join(as_text(option.name, raw).split()))
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}... ({len(text)} characters)"


def as_text(name: str, raw: object) -> str:
    """The text of a value: settings come from files as texts and from programs as Python values."""
    match raw:
        case bool():
            return str(raw).lower()
        case str():
            return raw
        case int():
            return str(raw)
        case float():
            return str(int(raw)) if raw.is_integer() else str(raw)
        case list() | tuple() if all(isinstance(part, str) for part in raw):
            return ",".join(raw)
        case Mapping():
            return json.dumps(dict(raw))
        case None:
            kind = "None: leave it out"
        case list() | tuple() | set():
            kind = f"a {type(raw).__name__} of other things"
        case _:
            kind = f"a {type(raw).__name__}"
    raise OptionError(name, raw, f"must be text, a number, true or false, a list of texts or a dict, not {kind}")


def warn_of_ignored(ignored: Ignored, noun: str = "option") -> None:
    """Log the options that have no effect.

    Parsing never logs: Spark parses the options of one query in several processes. Only the constructor of what plans
    a query, and a ConsumerConnector, call this.
    """
    for name, reason in ignored:
        log.warning("%s %s has no effect: %s", noun, name, reason)
