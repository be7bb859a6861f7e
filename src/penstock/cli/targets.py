"""The target of `--to`: `parquet:DIR`, `delta:DIR`, `iceberg:TABLE`, `adbc:URI?table=T`, `stdout`."""

from __future__ import annotations

import re
import threading
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode

from penstock.cli.output import say
from penstock.cli.records import RecordView
from penstock.errors import OptionError, SinkError
from penstock.model.columns import checked_columns

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.streamer.sinks.sink import Sink

EXAMPLES = (
    "parquet:DIR, delta:DIR, iceberg:NAMESPACE.TABLE?catalog=C, "
    "adbc:postgresql://host/name?table=T, adbc:sqlite:FILE?table=T, or stdout"
)
PASSWORD = re.compile(r"(?<=://)([^/@:]*):\S*@")


@dataclass(frozen=True, slots=True)
class Target:
    sink: Sink
    shown: str
    """Without a password."""
    columns: tuple[str, ...] | None = None
    """The columns that it needs; None: any."""
    is_stdout: bool = False
    place: str | None = None
    """The absolute place, if `shown` has a relative path."""

    def group(self, topic: str) -> str:
        """The default group: the same for every run of a command, and different for different targets. Two targets with
        one group would share the records."""
        return f"penstock-{topic}-{zlib.crc32((self.place or self.shown).encode()):08x}"


def parse_target(text: str, topic: str, columns: Sequence[str] | None) -> Target:
    kind, _, rest = text.partition(":")
    if kind in ("postgresql", "postgres", "sqlite"):
        kind, rest = "adbc", text
    place, _, query = rest.partition("?")
    if "@" in query and re.fullmatch(r"\S+://[^/@]*:(?!\d+$)[^/@]*", place):
        # The error does not show the value: its first part is half a password.
        raise OptionError("--to", None, "has a ? in its user or password", "Write it as %3F, and an @ as %40")
    given = dict(parse_qsl(query, keep_blank_values=True))
    match kind:
        case "parquet" if place:
            return _parquet(place, given)
        case "delta" if place:
            return _delta(place, given)
        case "iceberg" if place:
            return _iceberg(place, given)
        case "adbc" if place:
            return _adbc(place, given)
        case "stdout" | "-" if not rest:
            look = RecordView(topic, headers=columns is not None and "headers" in columns)
            for name in checked_columns(columns, include_headers=True) if columns else ():
                if name not in ("topic", *look.columns):
                    raise OptionError("--columns", name, "is not a column that stdout shows")
            return Target(_stdout(look, columns), "stdout", tuple(look.columns), is_stdout=True)
    # Without the part after the question mark: it may contain a password.
    raise OptionError("--to", PASSWORD.sub(r"\1@", text.partition("?")[0]), "is not a target", f"Use {EXAMPLES}")


def _parquet(place: str, given: Mapping[str, str]) -> Target:
    from penstock.streamer.sinks.parquet import ParquetSink

    _refuse_others(given, ("partition_by",))
    by = [name for name in given.get("partition_by", "").split(",") if name]
    return Target(ParquetSink(place, partition_by=by), f"parquet:{place}", place=f"parquet:{Path(place).resolve()}")


def _delta(place: str, given: dict[str, str]) -> Target:
    from penstock.streamer.sinks.delta import DeltaSink

    ours = _table_options(given)
    sink = DeltaSink(place, storage_options=given, **ours)  # the other parameters belong to the storage
    return Target(sink, f"delta:{place}", place=None if "://" in place else f"delta:{Path(place).resolve()}")


def _iceberg(place: str, given: dict[str, str]) -> Target:
    from penstock.streamer.sinks.iceberg import IcebergSink

    ours = _table_options(given)
    name = given.pop("catalog", "default")
    shown = f"iceberg:{place}?catalog={name}"
    # The other parameters belong to the catalog. These two say which one it is.
    catalog = [_plain(given[part]) for part in ("uri", "warehouse") if part in given]
    return Target(IcebergSink(place, catalog={"name": name, **given}, **ours), shown, place="&".join([shown, *catalog]))


def _table_options(given: dict[str, str]) -> dict[str, Any]:
    """Take out the parameters that both kinds of tables have."""
    by, create = given.pop("partition_by", ""), given.pop("create", "true")
    if create not in ("true", "false"):
        raise OptionError("--to", None, f"create must be true or false, not {create!r}")
    return {"partition_by": [name for name in by.split(",") if name], "create": create == "true"}


def _adbc(place: str, given: dict[str, str]) -> Target:
    from penstock.streamer.sinks.adbc import AdbcSink

    # The other parameters belong to the database, such as sslmode.
    ours = {name: given.pop(name, None) for name in ("table", "schema", "mode", "driver", "duplicates")}
    if not ours["table"]:
        raise OptionError("--to", None, "names no table", f"Example: adbc:{_plain(place)}?table=T")
    if ours["duplicates"] not in (None, "skip"):
        raise OptionError("--to", None, f"duplicates must be skip, not {ours['duplicates']!r}")
    uri = f"{place}?{urlencode(given)}" if given else place
    sink = AdbcSink(
        uri,
        ours["table"],
        driver=ours["driver"],
        schema=ours["schema"],
        mode=ours["mode"] or "create_append",
        skip_duplicates=ours["duplicates"] == "skip",
    )
    table = ours["table"] if not ours["schema"] else f"{ours['schema']}.{ours['table']}"
    shown = f"{_plain(place)}?table={table}"
    kind, _, file = place.partition(":")
    in_file = kind == "sqlite" and not file.startswith((":", "file:"))
    absolute = f"sqlite:{Path(file.removeprefix('///')).resolve()}?table={table}" if in_file else None
    return Target(sink, shown, place=absolute)


def _plain(place: str) -> str:
    return PASSWORD.sub(r"\1@", place)


def _refuse_others(given: Mapping[str, str], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            raise OptionError("--to", None, f"has an unknown parameter {name!r}", f"Use {', '.join(known)}")


def _stdout(look: RecordView, columns: Sequence[str] | None) -> Sink:
    from penstock.streamer.sinks.sink import CallableSink

    shown = [name for name in look.columns if columns is None or name in columns]
    one_at_a_time = threading.Lock()

    def write(rows: pa.Table) -> None:
        lines = [
            look.json_line({name: record[name] for name in shown})
            for batch in rows.select(look.columns).to_batches()
            for record in look.records(batch)
        ]
        try:
            with one_at_a_time:
                say("\n".join(lines), flush=True)
        except BrokenPipeError as error:
            raise SinkError("the reader of the pipe has ended") from error

    return CallableSink(write)


def broken_pipe(error: BaseException) -> BrokenPipeError | None:
    """The BrokenPipeError that caused an error, if one did."""
    cause = error.__cause__
    return cause if isinstance(cause, BrokenPipeError) else None
