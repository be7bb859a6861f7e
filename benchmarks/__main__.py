"""`python -m benchmarks`: starts a broker, loads topics, runs all readers, prints a table and writes the results."""

from __future__ import annotations

import argparse
import logging
import shutil
import signal
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

from benchmarks import environments, memory, recording, report, sail, search, speed, streamer
from benchmarks.consumer import joining, latency, protocols, readers, share, throughput
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
from benchmarks.recording import GROUPS
from benchmarks.run import BenchmarkRun
from benchmarks.scale import figures as scale
from benchmarks.scale import measuring as scale_measuring
from benchmarks.speed import READERS, Result, Rivals
from benchmarks.streaming import catch_up, idle, memory_growth, micro_batch, triggers, yahoo
from benchmarks.streaming.measurement import (
    CATCH_UP,
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

CODECS = ("none", "lz4", "zstd")
MEMORY_CODECS = ("none", "zstd")
NAMES = tuple(figure for group in GROUPS.values() for figure in group.figures)
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
ROUNDS = 3
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
        choices=(*NAMES, *(name for name in GROUPS if name not in NAMES)),
        help=f"run only this figure, or all figures of this group (repeatable); figures: {', '.join(NAMES)}; "
        f"groups: {', '.join(GROUPS)}",
    )
    parser.add_argument(
        "--side",
        action="append",
        choices=ALL_SIDES,
        help="run only this side of the stream, consumer, format, event-time and write figures (repeatable)",
    )
    parser.add_argument("--codecs", default=",".join(CODECS), help="comma-separated codecs (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="timed runs of each side (default: %(default)s)")
    parser.add_argument(
        "--batch-size", type=int, default=BATCH_SIZE, help="batch.size of the producer (default: %(default)s, Kafka's)"
    )
    parser.add_argument(
        "--update",
        action="store_true",
        help="write these figures into the results of their group, and keep its other figures as they were recorded",
    )
    parser.add_argument(
        "--prepare",
        action="store_true",
        help="create the environments that these figures need, and measure nothing: the first time takes minutes",
    )
    arguments = parser.parse_args()
    arguments.codecs = arguments.codecs.split(",")
    if unknown := set(arguments.codecs) - {*CODECS, "gzip", "snappy"}:
        parser.error(f"unknown codec: {', '.join(sorted(unknown))}")
    if arguments.rounds < 1:
        parser.error("at least one round is needed")
    if arguments.update and (arguments.quick or arguments.side or not arguments.only):
        parser.error("--update needs --only, and takes whole figures: neither --quick nor --side")
    if arguments.only:
        arguments.only = [
            figure for name in arguments.only for figure in (GROUPS[name].figures if name in GROUPS else (name,))
        ]
        if arguments.update and 0 < len(set(arguments.only) & set(READERS)) < len(READERS):
            parser.error(f"--update takes all readers together: --only {recording.READS}")
    return arguments


def main() -> int:
    arguments = parse_arguments()
    # SIGTERM would end this process without leaving the `with` blocks.
    signal.signal(signal.SIGTERM, _interrupt)
    logging.getLogger("penstock").setLevel(logging.ERROR)  # warnings would break into the line of progress
    progress = Progress()
    scratch = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
    try:
        return run(arguments, scratch, progress)
    except KeyboardInterrupt:
        progress.note("interrupted: broker and readers were stopped; groups that were complete are written")
        return 130
    except (environments.EnvironmentMissing, PenstockError) as error:
        progress.note(f"failed: {error}")
        return 1
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def run(arguments: argparse.Namespace, scratch: Path, progress: Progress) -> int:
    """Measure all groups, and return the exit code. Each group is written at once: a later one that fails or is
    interrupted does not take it along."""
    names = arguments.only or list(NAMES)
    busy = load_average()
    if busy > 0.5:
        progress.note(f"the machine is not idle (load {busy}): figures will be too low")
    distribution = get_distribution()
    rivals = make_rivals(arguments, names, distribution, progress)
    if arguments.prepare:
        progress.note("the environments are ready")
        return 0
    progress("starting the broker")
    measured, written, failed = Measured(), dict[Path, None](), list[str]()
    with EmbeddedKafka(heap_mb=BROKER_HEAP_MB, jvm_options=(), settings=BROKER_SETTINGS) as kafka:
        bench = BenchmarkRun(kafka, rivals, sides_of(arguments), arguments.rounds, arguments.quick, scratch, progress)
        done: list[str] = []
        for name, group in GROUPS.items():
            figures = [figure for figure in group.figures if figure in names]
            if not figures:
                continue
            try:
                measure(name, figures, measured, arguments, bench)
            except (ReaderFailed, speed.WrongRead, PenstockError) as error:
                progress.note(f"{name} failed: {error}")
                failed.append(name)
                continue
            done += figures
            facts = facts_of(arguments, busy, distribution)
            if arguments.update:
                paths = recording.update(figures, measured, facts)
            else:
                paths = recording.write(done, measured, facts, whole=is_whole(arguments))
            written |= dict.fromkeys(paths)
    progress.clear()
    sys.stdout.write("\n" + report.text(measured) + "\n\n")
    for path in written:
        sys.stdout.write(f"Written to {path.relative_to(Path(__file__).parent.parent)}\n")
    if failed:
        progress.note(f"failed, and not written: {', '.join(failed)}")
    return 1 if failed else 0


def measure(
    group: str, names: list[str], measured: Measured, arguments: argparse.Namespace, bench: BenchmarkRun
) -> None:
    """Measure these figures of a group."""
    match group:
        case "reads":
            measured.speed = measure_speed(arguments, names, bench)
        case "memory":
            measured.memory = measure_memory(arguments, bench)
        case "consumer":
            measured.consumers = measure_consumers(names, bench)
        case "formats":
            measured.formats = reading.measure(bench, names)
        case "event-time":
            measured.event_time = measure_event_time(names, bench)
        case "write":
            measured.write = measuring.measure(bench, names)
        case "search":
            measured.search = search.measure(bench)
        case "sail":
            measured.sail = sail.measure(bench)
        case "streamer-delta":
            measured.streamer = streamer.measure(bench)
        case "streams":
            measured.streams, measured.stream_memory = measure_streams(names, bench)
        case "scale":
            measured.scale = scale_measuring.measure(bench, names)
        case _:
            raise ValueError(group)


def make_rivals(
    arguments: argparse.Namespace, names: list[str], distribution: Distribution, progress: Progress
) -> Rivals:
    """Create the environments of all selected sides before anything is measured."""
    sides = sides_of(arguments)
    beside_jvm = {
        *(
            CATCH_UP,
            MICRO_BATCH,
            IDLE,
            PLANNING,
            YAHOO,
            event_time.REPLAY,
            sail.FIGURE,
            streamer.STREAMER_DELTA,
            scale.BROKER,
        ),
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
        environments.sail(progress) if sail.FIGURE in names and sail.SAIL in sides else None,
        environments.search(progress) if search.SEARCH in names and search.KCAT in sides else None,
    )


def sides_of(arguments: argparse.Namespace) -> list[str]:
    return arguments.side or list(ALL_SIDES)


def measure_speed(arguments: argparse.Namespace, names: list[str], bench: BenchmarkRun) -> list[Result]:
    if not set(names) & set(READERS):
        return []
    results: list[Result] = []
    kafka, rivals, progress = bench.kafka, bench.rivals, bench.progress
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
        results += speed.measure(
            topic,
            names,
            kafka.bootstrap_servers,
            rivals,
            bench.rounds,
            bench.scratch,
            progress,
            bench.warm_seconds,
        )
        kafka.delete_topic(topic.name)  # frees the page cache for the next topic
    return sorted(results, key=lambda result: READERS.index(result.reader))


def measure_memory(arguments: argparse.Namespace, bench: BenchmarkRun) -> list[Peak]:
    if sys.platform != "linux":
        bench.progress.note("memory: skipped, because it is read from /proc, which this system does not have")
        return []
    peaks: list[Peak] = []
    size = PARTITION_BYTES // QUICK if arguments.quick else PARTITION_BYTES
    for codec in (codec for codec in MEMORY_CODECS if codec in arguments.codecs):
        topic = load(
            bench.kafka,
            bench.rivals.distribution,
            f"bench-memory-{codec}",
            codec,
            round(size / RECORD_BYTES),
            partitions=1,
            batch_size=arguments.batch_size,
            say=bench.progress,
        )
        peaks += memory.measure(topic, bench.kafka.bootstrap_servers, bench.progress)
        bench.kafka.delete_topic(topic.name)
    return peaks


def measure_consumers(names: list[str], bench: BenchmarkRun) -> list[Measurement]:
    measured = throughput.measure(bench, names)
    if readers.LATENCY in names:
        measured += latency.measure(bench)
    if readers.PROTOCOLS in names:
        measured += protocols.measure(bench)
    if readers.JOIN in names:
        measured += joining.measure(bench)
    if readers.SHARE in names:
        measured += share.measure(bench)
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


def is_whole(arguments: argparse.Namespace) -> bool:
    """Whether the figures of this run are fit to be recorded."""
    return not arguments.quick and not arguments.side and set(CODECS) <= set(arguments.codecs)


def facts_of(arguments: argparse.Namespace, busy: float, distribution: Distribution) -> dict[str, Any]:
    """What a file of results says about its run."""
    return {
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
            "warm_ups": speed.WARM_UPS,
            "spark_master": f"local[{speed.SPARK_CORES}]",
            "broker_heap_mb": BROKER_HEAP_MB,
        },
    }


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
