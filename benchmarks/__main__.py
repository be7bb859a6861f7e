"""`python -m benchmarks`: starts a broker, loads topics, runs all readers, prints a table and writes the results."""

from __future__ import annotations

import argparse
import json
import logging
import shutil
import signal
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

from benchmarks import environments, memory, report, sail, search, speed, streamer
from benchmarks.consumer import joining, latency, protocols, readers, throughput
from benchmarks.event_time import catch_up as event_time_catch_up
from benchmarks.event_time import figures as event_time
from benchmarks.event_time import planning, replay
from benchmarks.formats import figures as formats
from benchmarks.formats import reading
from benchmarks.machine import load_average, machine, versions
from benchmarks.measured import Measured
from benchmarks.measurement import Measurement
from benchmarks.memory import PARTITION_BYTES, Peak
from benchmarks.processes import ReaderFailed
from benchmarks.progress import Progress
from benchmarks.run import BenchmarkRun
from benchmarks.scale import figures as scale
from benchmarks.scale import measuring as scale_measuring
from benchmarks.speed import READERS, Result, Rivals
from benchmarks.streaming import catch_up, idle, memory_growth, micro_batch, triggers, yahoo
from benchmarks.streaming.measurement import (
    CATCH_UP,
    FIGURES,
    IDLE,
    MICRO_BATCH,
    PLANNING,
    STEADINESS,
    YAHOO,
    Growth,
)
from benchmarks.streaming.sides import FLINK, JVM, SIDES
from benchmarks.topics import BATCH_SIZE, RECORD_BYTES, load
from benchmarks.writing import figures as writing
from benchmarks.writing import measuring
from penstock.errors import PenstockError
from penstock.testing import Distribution, EmbeddedKafka, get_distribution

RESULTS = Path(__file__).parent / "results"
CODECS = ("none", "lz4", "zstd")
MEMORY_CODECS = ("none", "zstd")
MEMORY = "memory"
STREAMS = "streams"
CONSUMER = "consumer"
FORMATS = "formats"
EVENT_TIME = "event-time"
WRITE = "write"
SEARCH = "search"
SAIL = "sail"
STREAMER_DELTA = streamer.STREAMER_DELTA
SCALE = "scale"
PARTS = {
    STREAMS: FIGURES,
    CONSUMER: readers.FIGURES,
    FORMATS: formats.FIGURES,
    EVENT_TIME: event_time.FIGURES,
    WRITE: writing.FIGURES,
    SEARCH: (SEARCH,),
    SAIL: (SAIL,),
    STREAMER_DELTA: (STREAMER_DELTA,),
    SCALE: scale.FIGURES,
}
"""Groups of figures for `--only`. Each group has its own file of results."""

NAMES = (*READERS, MEMORY, *(name for figures in PARTS.values() for name in figures))
ALL_SIDES = tuple(
    dict.fromkeys(
        (
            *(*SIDES, *readers.READERS, *formats.SIDES, *event_time.SIDES, *writing.SIDES),
            *(*search.SIDES, *sail.SIDES, *streamer.SIDES),
        )
    )
)
PARTITIONS = 4
ROWS = 6_000_000
ROUNDS = 5
STREAM_ROUNDS = 3
QUICK = 10
"""--quick divides the number of records by this."""

BROKER_HEAP_MB = 2048
BROKER_SETTINGS = {
    "auto.create.topics.enable": False,
    # Only reads run while times are measured.
    "log.cleaner.enable": False,
    "log.retention.check.interval.ms": 2**40,
}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"a {QUICK}th of the records, to test the benchmark")
    parser.add_argument(
        "--only",
        action="append",
        metavar="NAME",
        choices=tuple(dict.fromkeys((*NAMES, *PARTS))),
        help=f"run only this figure (repeatable): {', '.join(NAMES)}; or {STREAMS} for all stream- figures, "
        f"{CONSUMER} for all consumer- figures, {FORMATS} for all formats- figures, {EVENT_TIME} for all "
        f"event-time- figures, {WRITE} for all write- figures, {SCALE} for all scale- figures",
    )
    parser.add_argument(
        "--side",
        action="append",
        choices=ALL_SIDES,
        help="run only this side of the stream, consumer, format, event-time and write figures (repeatable)",
    )
    parser.add_argument("--codecs", default=",".join(CODECS), help="comma-separated codecs (default: %(default)s)")
    parser.add_argument("--rounds", type=int, help=f"timed runs of each reader (default: {ROUNDS})")
    parser.add_argument(
        "--stream-rounds",
        type=int,
        help="rounds of each stream, consumer, format, event-time and write figure "
        f"(default: --rounds if given, else {STREAM_ROUNDS})",
    )
    parser.add_argument(
        "--batch-size", type=int, default=BATCH_SIZE, help="batch.size of the producer (default: %(default)s, Kafka's)"
    )
    parser.add_argument(
        "--update",
        action="store_true",
        help="write these figures into the results of their group, and keep its other figures as they were recorded",
    )
    arguments = parser.parse_args()
    arguments.codecs = arguments.codecs.split(",")
    if unknown := set(arguments.codecs) - {*CODECS, "gzip", "snappy"}:
        parser.error(f"unknown codec: {', '.join(sorted(unknown))}")
    arguments.stream_rounds = arguments.stream_rounds or arguments.rounds or STREAM_ROUNDS
    arguments.rounds = arguments.rounds or ROUNDS
    if min(arguments.rounds, arguments.stream_rounds) < 1:
        parser.error("at least one round is needed")
    if arguments.update and (arguments.quick or arguments.side or not arguments.only):
        parser.error("--update needs --only, and takes whole figures: neither --quick nor --side")
    if arguments.only:
        arguments.only = [figure for name in arguments.only for figure in PARTS.get(name, (name,))]
    return arguments


def main() -> int:
    arguments = parse_arguments()
    # SIGTERM would end this process without leaving the `with` blocks.
    signal.signal(signal.SIGTERM, _interrupt)
    logging.getLogger("penstock").setLevel(logging.ERROR)  # warnings would break into the line of progress
    progress = Progress()
    scratch = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
    try:
        run(arguments, scratch, progress)
    except KeyboardInterrupt:
        progress.note("interrupted: broker and readers were stopped, no results were written")
        return 130
    except (ReaderFailed, environments.EnvironmentMissing, speed.WrongRead, PenstockError) as error:
        progress.note(f"failed: {error}")
        return 1
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return 0


def run(arguments: argparse.Namespace, scratch: Path, progress: Progress) -> None:
    names = arguments.only or list(NAMES)
    busy = load_average()
    if busy > 0.5:
        progress.note(f"the machine is not idle (load {busy}): figures will be too low")
    distribution = get_distribution()
    rivals = make_rivals(arguments, names, distribution, progress)
    progress("starting the broker")
    with EmbeddedKafka(heap_mb=BROKER_HEAP_MB, jvm_options=(), settings=BROKER_SETTINGS) as kafka:
        measured = Measured(speed=measure_speed(arguments, names, kafka, rivals, scratch, progress))
        if MEMORY in names:
            measured.memory = measure_memory(arguments, kafka, distribution, progress)
        bench = BenchmarkRun(
            kafka, rivals, sides_of(arguments), arguments.stream_rounds, arguments.quick, scratch, progress
        )
        measured.consumers = measure_consumers(names, bench)
        measured.formats = reading.measure(bench, names)
        measured.event_time = measure_event_time(names, bench)
        measured.write = measuring.measure(bench, names)
        measured.search = search.measure(bench) if SEARCH in names else []
        measured.sail = sail.measure(bench) if SAIL in names else []
        measured.streamer = streamer.measure(bench) if STREAMER_DELTA in names else []
        measured.streams, measured.stream_memory = measure_streams(names, bench)
        measured.scale = scale_measuring.measure(bench, names)  # last: the broker is slower with 10,000 partitions
    progress.clear()
    sys.stdout.write("\n" + report.text(measured) + "\n\n")
    path = write_results(arguments, names, measured, busy, distribution)
    sys.stdout.write(f"Written to {path.relative_to(Path(__file__).parent.parent)}\n")


def make_rivals(
    arguments: argparse.Namespace, names: list[str], distribution: Distribution, progress: Progress
) -> Rivals:
    """Create the environments of all selected sides before anything is measured."""
    sides = sides_of(arguments)
    beside_jvm = {
        *(CATCH_UP, MICRO_BATCH, IDLE, PLANNING, YAHOO, event_time.REPLAY, SAIL, STREAMER_DELTA, scale.BROKER),
        *(formats.FROM_JSON, formats.FROM_MALFORMED, formats.SELECT, formats.WHERE),
    }
    jvm_sink = {writing.BATCH, writing.FROM_JSON, writing.MICRO_BATCH} & set(names)
    jvm_source = (
        speed.SPARK_JVM in names
        or (JVM in sides and (beside_jvm | jvm_sink) & set(names))
        or (writing.SAME_SPARK in sides and jvm_sink)
    )
    group = {side for side in sides if set(readers.BESIDE_OTHERS) & set(names)}
    confluent = {speed.PYTHON_CONFLUENT, speed.CONFLUENT_TUNED} & set(names) or (
        {readers.CONFLUENT, readers.CONFLUENT_TUNED} & group
        or (writing.PLAIN in names and {readers.CONFLUENT_TUNED, writing.CONFLUENT_MANY} & set(sides))
    )
    flink = FLINK in sides and CATCH_UP in names
    return Rivals(
        distribution,
        environments.jvm_source(progress) if jvm_source else None,
        environments.confluent(progress) if confluent else None,
        environments.flink(progress) if flink else None,
        environments.kafka_python(progress) if readers.KAFKA_PYTHON in group else None,
        environments.aiokafka(progress) if readers.AIOKAFKA in group else None,
        environments.avro_source(progress) if JVM in sides and formats.FROM_AVRO in names else None,
        environments.sail(progress) if SAIL in names and sail.SAIL in sides else None,
        environments.search(progress) if SEARCH in names and search.KCAT in sides else None,
    )


def sides_of(arguments: argparse.Namespace) -> list[str]:
    return arguments.side or list(ALL_SIDES)


def measure_speed(
    arguments: argparse.Namespace,
    names: list[str],
    kafka: EmbeddedKafka,
    rivals: Rivals,
    scratch: Path,
    progress: Progress,
) -> list[Result]:
    if not set(names) & set(READERS):
        return []
    results: list[Result] = []
    for codec in arguments.codecs:
        topic = load(
            kafka,
            rivals.distribution,
            f"bench-{codec}",
            codec,
            ROWS // QUICK if arguments.quick else ROWS,
            partitions=PARTITIONS,
            batch_size=arguments.batch_size,
            say=progress,
        )
        results += speed.measure(topic, names, kafka.bootstrap_servers, rivals, arguments.rounds, scratch, progress)
        kafka.delete_topic(topic.name)  # frees the page cache for the next topic
    return sorted(results, key=lambda result: READERS.index(result.reader))


def measure_memory(
    arguments: argparse.Namespace, kafka: EmbeddedKafka, distribution: Distribution, progress: Progress
) -> list[Peak]:
    if sys.platform != "linux":
        progress.note("memory: skipped, because it is read from /proc, which this system does not have")
        return []
    peaks: list[Peak] = []
    size = PARTITION_BYTES // QUICK if arguments.quick else PARTITION_BYTES
    for codec in (codec for codec in MEMORY_CODECS if codec in arguments.codecs):
        topic = load(
            kafka,
            distribution,
            f"bench-memory-{codec}",
            codec,
            round(size / RECORD_BYTES),
            partitions=1,
            batch_size=arguments.batch_size,
            say=progress,
        )
        peaks += memory.measure(topic, kafka.bootstrap_servers, progress)
        kafka.delete_topic(topic.name)
    return peaks


def measure_consumers(names: list[str], bench: BenchmarkRun) -> list[Measurement]:
    measured = throughput.measure(bench, names)
    if readers.LATENCY in names:
        measured += latency.measure(bench)
    if readers.PROTOCOLS in names:
        measured += protocols.measure(bench)
    if readers.JOIN in names:
        measured += joining.measure(bench)
    return measured


def measure_event_time(names: list[str], bench: BenchmarkRun) -> list[Measurement]:
    parts = {event_time.CATCH_UP: event_time_catch_up, event_time.REPLAY: replay, event_time.PLANNING: planning}
    return [one for name, part in parts.items() if name in names for one in part.measure(bench)]


def measure_streams(names: list[str], bench: BenchmarkRun) -> tuple[list[Measurement], list[Growth]]:
    measured: list[Measurement] = []
    growths: list[Growth] = []
    if CATCH_UP in names:
        measured += catch_up.measure(bench)
    if YAHOO in names:
        measured += yahoo.measure(bench)
    if MICRO_BATCH in names:
        measured += micro_batch.measure(bench)
    if IDLE in names:
        measured += idle.measure(bench)
    if STEADINESS in names:
        growths += memory_growth.measure(bench)
    if PLANNING in names:  # last: the broker is slower with 2,000 partitions
        measured += triggers.measure_planning(bench)
    return measured, growths


def write_results(
    arguments: argparse.Namespace, names: list[str], measured: Measured, busy: float, distribution: Distribution
) -> Path:
    """Write `latest.json` for a full run, or the file of a group (such as `streams.json`) if exactly its figures ran.

    Anything shorter goes to `partial.json`, which git ignores.
    """
    full = not arguments.quick and not arguments.side
    name = "partial"
    if full and not arguments.only and set(CODECS) <= set(arguments.codecs):
        name = "latest"
    elif full:
        name = next((part for part, figures in PARTS.items() if set(names) == set(figures)), name)
    path = RESULTS / f"{name}.json"
    content: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "quick": arguments.quick,
        "machine": machine(),
        "load_before": busy,
        "versions": versions(distribution),
        "setting": {
            "rows": ROWS // QUICK if arguments.quick else ROWS,
            "record_bytes": RECORD_BYTES,
            "partitions": PARTITIONS,
            "producer_batch_size": arguments.batch_size,
            "rounds": arguments.rounds,
            "stream_rounds": arguments.stream_rounds,
            "warm_ups": speed.WARM_UPS,
            "spark_master": f"local[{speed.SPARK_CORES}]",
            "broker_heap_mb": BROKER_HEAP_MB,
            "contestants": names,
        },
        "figures": [figure.as_json() for figure in report.figures(measured)],
        **measured.as_json(),
    }
    if arguments.update:
        return _update(content, names)
    RESULTS.mkdir(exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n", "utf-8")
    return path


def _update(content: dict[str, Any], names: list[str]) -> Path:
    """Replace the figures of this run in the file of their group."""
    part = next((part for part, figures in PARTS.items() if set(names) <= set(figures)), None)
    if part is None:
        raise PenstockError("--update takes figures of one group")
    path = RESULTS / f"{part}.json"
    if path.exists():
        before = json.loads(path.read_text("utf-8"))
        new = {figure["figure"] for figure in content["figures"]}
        content["figures"] += [figure for figure in before["figures"] if figure["figure"] not in new]
        for key, measured in content.items():
            if isinstance(measured, list) and key != "figures":
                kept = [one for one in before.get(key, []) if one.get("figure") not in names]
                content[key] = kept + measured
        earlier = set(before["setting"]["contestants"]) | set(names)
        content["setting"]["contestants"] = [name for name in PARTS[part] if name in earlier]
    path.write_text(json.dumps(content, indent=2) + "\n", "utf-8")
    return path


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
