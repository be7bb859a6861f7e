"""What `--to` means: `parquet:DIR`, `adbc:URI?table=T`, `stdout`."""

from __future__ import annotations

import re
import threading
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode

from penstock.cli.output import say
from penstock.cli.records import Look
from penstock.errors import OptionError, SinkError
from penstock.model.columns import checked_columns

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.streamer.sinks.sink import Sink

EXAMPLES = "parquet:DIR, adbc:postgresql://host/name?table=T, adbc:sqlite:FILE?table=T, or stdout"
PASSWORD = re.compile(r"(?<=://)([^/@:]*):\S*@")


@dataclass(frozen=True, slots=True)
class Target:
    sink: Sink
    shown: str
    """Without a password."""
    columns: tuple[str, ...] | None = None
    """What it needs, if anything."""
    is_stdout: bool = False
    place: str | None = None
    """Where it is, from wherever one looks, if `shown` does not tell: a path may be relative."""

    def group(self, topic: str) -> str:
        """A group's name that is the same whenever the same command is given, and another for another target: with one
        name for both, the second would find what the first has not read."""
        return f"penstock-{topic}-{zlib.crc32((self.place or self.shown).encode()):08x}"


def parse_target(text: str, topic: str, columns: Sequence[str] | None) -> Target:
    kind, _, rest = text.partition(":")
    if kind in ("postgresql", "postgres", "sqlite"):
        kind, rest = "adbc", text
    place, _, query = rest.partition("?")
    if "@" in query and re.fullmatch(r"\S+://[^/@]*:(?!\d+$)[^/@]*", place):
        # Not shown: what looks like the target is the first part of a password.
        raise OptionError("--to", None, "has a ? in its user or password", "Write it as %3F, and an @ as %40")
    given = dict(parse_qsl(query, keep_blank_values=True))
    match kind:
        case "parquet" if place:
            return _parquet(place, given)
        case "adbc" if place:
            return _adbc(place, given)
        case "stdout" | "-" if not rest:
            look = Look(topic, headers=columns is not None and "headers" in columns)
            for name in checked_columns(columns, include_headers=True) if columns else ():
                if name not in ("topic", *look.columns):
                    raise OptionError("--columns", name, "is nothing that stdout shows")
            return Target(_stdout(look, columns), "stdout", tuple(look.columns), is_stdout=True)
    # Without what follows a question mark: a password may stand there, too.
    raise OptionError("--to", PASSWORD.sub(r"\1@", text.partition("?")[0]), "is no target", f"Give {EXAMPLES}")


def _parquet(place: str, given: Mapping[str, str]) -> Target:
    from penstock.streamer.sinks.parquet import ParquetSink

    _no_others(given, ("partition_by",))
    by = [name for name in given.get("partition_by", "").split(",") if name]
    return Target(ParquetSink(place, partition_by=by), f"parquet:{place}", place=f"parquet:{Path(place).resolve()}")


def _adbc(place: str, given: dict[str, str]) -> Target:
    from penstock.streamer.sinks.adbc import AdbcSink

    # What is not ours belongs to the database: sslmode and the like.
    ours = {name: given.pop(name, None) for name in ("table", "schema", "mode", "driver", "duplicates")}
    if not ours["table"]:
        raise OptionError("--to", None, "which table? The target names none", f"Example: adbc:{_plain(place)}?table=T")
    if ours["duplicates"] not in (None, "skip"):
        raise OptionError("--to", None, f"duplicates may be skip, and not {ours['duplicates']!r}")
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


def _no_others(given: Mapping[str, str], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            raise OptionError("--to", None, f"has no {name!r}", f"It may have {', '.join(known)}")


def _stdout(look: Look, columns: Sequence[str] | None) -> Sink:
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
            raise SinkError("whoever reads the output has seen enough") from error

    return CallableSink(write)


def broken_pipe(error: BaseException) -> BrokenPipeError | None:
    """The broken pipe that an error comes from."""
    cause = error.__cause__
    return cause if isinstance(cause, BrokenPipeError) else None
