"""Options as Spark's SQL hands them over: among keys of its own, and those of reads and writes together.

Names are in lower case: Spark's maps of options ignore case.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.config.option import OptionTable, merged
from penstock.config.sink import SINK_OPTIONS
from penstock.config.source import SOURCE_OPTIONS, SUBSCRIPTIONS
from penstock.errors import OptionError
from penstock.masking import is_secret

FORMAT = "penstock"

_TWIN = "option."
"""CREATE TABLE passes each of its OPTIONS twice, as `name` and as `option.name`."""

_SERVERS = "kafka.bootstrap.servers"

_SUBSCRIPTIONS = {name.lower() for name in SUBSCRIPTIONS}


def is_create_table(given: Mapping[str, str]) -> bool:
    """Whether these are the properties of CREATE TABLE. Neither of the two keys is an option."""
    return given.get("provider", "").lower() == FORMAT and "owner" in given


def written_options(given: Mapping[str, str]) -> dict[str, str]:
    """The options that the user wrote, without Spark's own keys.

    CREATE TABLE passes its options among `provider`, `owner`, `comment`, `location`, `external` and the user's
    TBLPROPERTIES. Only the prefix `option.` tells which of them are options. `path` stands for LOCATION, and is kept
    because it is refused. All other statements, and temporary views, pass nothing but options.
    """
    folded = {name.lower(): value for name, value in given.items()}
    if not is_create_table(folded):
        return folded
    written = {name.removeprefix(_TWIN): value for name, value in folded.items() if name.startswith(_TWIN)}
    return written | {name: folded[name] for name in ("path",) if name in folded}


def read_options(given: Mapping[str, str]) -> dict[str, str]:
    """The options of a read, out of those of a view that is also written."""
    return _without_others(written_options(given), SOURCE_OPTIONS, SINK_OPTIONS)


def write_options(given: Mapping[str, str]) -> dict[str, str]:
    """The options of a write, out of those of a view that is also read."""
    return _without_others(written_options(given), SINK_OPTIONS, SOURCE_OPTIONS)


def _without_others(given: dict[str, str], own: OptionTable, other: OptionTable) -> dict[str, str]:
    """The options without those that only the other direction has.

    Only `topic` together with a subscription says that a view is read and written. Otherwise nothing is left out: an
    option of the other direction is a mistake then, such as `subscribe` for a sink, whose rows would go back to where
    they came from if they have a column `topic`. A name that neither direction has is left for the parser's error.
    """
    if "topic" not in given or _SUBSCRIPTIONS.isdisjoint(given):
        return given
    return {name: value for name, value in given.items() if own.declares(name) or not other.declares(name)}


def options_of_table(given: Mapping[str, str]) -> dict[str, str]:
    """The options that a table keeps for its reads. Raises OptionError for a secret: the table's columns carry them,
    and columns are visible to all who may read the table."""
    kept = read_options(given)
    for name, value in kept.items():
        is_plain_address = name == "schemaregistry.url" and "@" not in value
        if is_secret(name) and not is_plain_address:
            raise OptionError(
                SOURCE_OPTIONS.declared_name(name),
                None,
                "is a secret, which all who may read the table would see",
                "Leave it out of CREATE TABLE and give it with each read: spark.read.option(...).table(...)",
            )
    return kept


def read_of_table(given: Mapping[str, str], kept: Mapping[str, str]) -> dict[str, str]:
    """The options of a read of a table: those that the table keeps, and over them those that the query gives.

    A query that names brokers gives all of its options. It is a read without a table, with a schema that came from one.
    """
    options = read_options(given)
    if SOURCE_OPTIONS.gives(options, _SERVERS):
        return options
    if not kept:
        SOURCE_OPTIONS.parse(options)  # a misspelt name is the better error
        raise OptionError(
            _SERVERS,
            None,
            "is missing, and Spark passes no options of a table whose CREATE TABLE lists columns",
            "Leave the columns out, or use CREATE TEMPORARY VIEW, or give the options with the read: "
            "spark.read.options(...).table(...)",
        )
    return merged(kept, options)


def write_to_table(given: Mapping[str, str]) -> dict[str, str]:
    """The options of a write, which may be to a table."""
    options = write_options(given)
    if SINK_OPTIONS.gives(options, _SERVERS):
        return options
    SINK_OPTIONS.parse(options)  # a misspelt name is the better error
    raise OptionError(
        _SERVERS,
        None,
        "is missing, and Spark passes no options of a table to writes",
        "Give the options with the write, as in INSERT INTO t WITH (...) or writeTo(...).options(...), or use CREATE "
        "TEMPORARY VIEW",
    )
