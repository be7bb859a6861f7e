"""`python -m benchmarks`: start a broker, load it, let everybody read, print the table, write the results."""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

from benchmarks import environments, memory, report, speed
from benchmarks.arena import Arena
from benchmarks.consumer import latency, readers, throughput
from benchmarks.event_time import catching_up as even
from benchmarks.event_time import figures as event_time
from benchmarks.event_time import planning, replay
from benchmarks.formats import figures as formats
from benchmarks.formats import reading
from benchmarks.machine import load_average, machine, versions
from benchmarks.measurement import Measurement
from benchmarks.memory import PARTITION_BYTES, Peak
from benchmarks.processes import ContestantFailed
from benchmarks.progress import Progress
from benchmarks.speed import CONTESTANTS, Result, Rivals
from benchmarks.streaming import catching_up, idling, steadiness, triggers
from benchmarks.streaming.measurement import (
    CATCH_UP,
    FIGURES,
    IDLE,
    MICRO_BATCH,
    PLANNING,
    STEADINESS,
    Growth,
)
from benchmarks.streaming.sides import FLINK, JVM, SIDES
from benchmarks.topics import BATCH_SIZE, RECORD_BYTES, load
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
PARTS = {
    STREAMS: FIGURES,
    CONSUMER: readers.FIGURES,
    FORMATS: formats.FIGURES,
    EVENT_TIME: event_time.FIGURES,
}
"""Figures that a name stands for in `--only`, and that have a file of results of their own."""

NAMES = (*CONTESTANTS, MEMORY, *FIGURES, *readers.FIGURES, *formats.FIGURES, *event_time.FIGURES)
ALL_SIDES = tuple(dict.fromkeys((*SIDES, *readers.READERS, *formats.SIDES, *event_time.SIDES)))
PARTITIONS = 4
ROWS = 6_000_000
QUICK = 10
"""--quick divides by this."""

BROKER_HEAP_MB = 2048
BROKER_SETTINGS = {
    "auto.create.topics.enable": False,
    # Nothing but reading goes on while the clocks run.
    "log.cleaner.enable": False,
    "log.retention.check.interval.ms": 2**40,
}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"a {QUICK}th of the records: for work on this program")
    parser.add_argument(
        "--only",
        action="append",
        metavar="NAME",
        choices=(*NAMES, *PARTS),
        help=f"this one alone, may be repeated: {', '.join(NAMES)}; or {STREAMS} for all that begin with stream-, "
        f"{CONSUMER} for all that begin with consumer-, {FORMATS} for all that begin with formats-, {EVENT_TIME} for "
        "all that begin so",
    )
    parser.add_argument(
        "--side",
        action="append",
        choices=ALL_SIDES,
        help="of the stream, consumer, format and event-time figures this side alone, may be repeated",
    )
    parser.add_argument("--codecs", default=",".join(CODECS), help="with commas between them (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="timed runs of each contestant (default: %(default)s)")
    parser.add_argument(
        "--stream-rounds",
        type=int,
        default=3,
        help="rounds of each stream, consumer, format and event-time figure (default: %(default)s)",
    )
    parser.add_argument(
        "--batch-size", type=int, default=BATCH_SIZE, help="batch.size of the producer (default: %(default)s, Kafka's)"
    )
    arguments = parser.parse_args()
    arguments.codecs = arguments.codecs.split(",")
    if unknown := set(arguments.codecs) - {*CODECS, "gzip", "snappy"}:
        parser.error(f"no such codec: {', '.join(sorted(unknown))}")
    if min(arguments.rounds, arguments.stream_rounds) < 1:
        parser.error("at least one round is needed")
    if arguments.only:
        arguments.only = [figure for name in arguments.only for figure in PARTS.get(name, (name,))]
    return arguments


def main() -> int:
    arguments = parse_arguments()
    # A plain SIGTERM would end us without leaving the `with` blocks.
    signal.signal(signal.SIGTERM, _interrupt)
    progress = Progress()
    scratch = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
    try:
        run(arguments, scratch, progress)
    except KeyboardInterrupt:
        progress.note("interrupted: broker and contestants are gone, nothing was written")
        return 130
    except (ContestantFailed, environments.EnvironmentMissing, speed.WrongRead, PenstockError) as error:
        progress.note(f"failed: {error}")
        return 1
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return 0


def run(arguments: argparse.Namespace, scratch: Path, progress: Progress) -> None:
    names = arguments.only or list(NAMES)
    busy = load_average()
    if busy > 0.5:
        progress.note(f"the machine is not idle (load {busy}): figures will be lower than they could be")
    distribution = get_distribution()
    rivals = make_rivals(arguments, names, distribution, progress)
    progress("starting the broker")
    with EmbeddedKafka(heap_mb=BROKER_HEAP_MB, jvm_options=(), settings=BROKER_SETTINGS) as kafka:
        results = measure_speed(arguments, names, kafka, rivals, scratch, progress)
        peaks = measure_memory(arguments, kafka, distribution, progress) if MEMORY in names else []
        arena = Arena(kafka, rivals, sides_of(arguments), arguments.stream_rounds, arguments.quick, scratch, progress)
        consumers = measure_consumers(names, arena)
        typed = reading.measure(arena, names)
        timed = measure_event_time(names, arena)
        streams, growths = measure_streams(names, arena)
    progress.clear()
    sys.stdout.write("\n" + report.text(results, peaks, streams, growths, consumers, typed, timed) + "\n\n")
    path = write_results(
        arguments, names, results, peaks, streams, growths, consumers, typed, timed, busy, distribution
    )
    sys.stdout.write(f"Written to {path.relative_to(Path(__file__).parent.parent)}\n")


def make_rivals(
    arguments: argparse.Namespace, names: list[str], distribution: Distribution, progress: Progress
) -> Rivals:
    """The environments of those who take part, made before anything is measured."""
    sides = sides_of(arguments)
    beside_jvm = {CATCH_UP, MICRO_BATCH, IDLE, PLANNING, formats.FROM_JSON, formats.FROM_MALFORMED, event_time.REPLAY}
    jvm_source = speed.SPARK_JVM in names or (JVM in sides and beside_jvm & set(names))
    group = {side for side in sides if set(readers.FIGURES) & set(names)}
    confluent = {speed.PYTHON_CONFLUENT, speed.CONFLUENT_TUNED} & set(names) or (
        {readers.CONFLUENT, readers.CONFLUENT_TUNED} & group
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
    if not set(names) & set(CONTESTANTS):
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
        kafka.delete_topic(topic.name)  # its pages would only push others out
    return sorted(results, key=lambda result: CONTESTANTS.index(result.contestant))


def measure_memory(
    arguments: argparse.Namespace, kafka: EmbeddedKafka, distribution: Distribution, progress: Progress
) -> list[Peak]:
    if sys.platform != "linux":
        progress.note("memory is read from /proc, which this system does not have: left out")
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


def measure_consumers(names: list[str], arena: Arena) -> list[Measurement]:
    measured = throughput.measure(arena, names)
    if readers.LATENCY in names:
        measured += latency.measure(arena)
    return measured


def measure_event_time(names: list[str], arena: Arena) -> list[Measurement]:
    parts = {event_time.CATCH_UP: even, event_time.REPLAY: replay, event_time.PLANNING: planning}
    return [one for name, part in parts.items() if name in names for one in part.measure(arena)]


def measure_streams(names: list[str], arena: Arena) -> tuple[list[Measurement], list[Growth]]:
    measured: list[Measurement] = []
    growths: list[Growth] = []
    if CATCH_UP in names:
        measured += catching_up.measure(arena)
    if MICRO_BATCH in names:
        measured += triggers.measure_micro_batch(arena)
    if IDLE in names:
        measured += idling.measure(arena)
    if STEADINESS in names:
        growths += steadiness.measure(arena)
    if PLANNING in names:  # last, for a broker of 2,000 partitions is another broker
        measured += triggers.measure_planning(arena)
    return measured, growths


def write_results(
    arguments: argparse.Namespace,
    names: list[str],
    results: list[Result],
    peaks: list[Peak],
    streams: list[Measurement],
    growths: list[Growth],
    consumers: list[Measurement],
    typed: list[Measurement],
    timed: list[Measurement],
    busy: float,
    distribution: Distribution,
) -> Path:
    """`latest.json` is a whole run, `streams.json`, `consumer.json` and so on one of all figures of that part;
    anything shorter goes to `partial.json`, which git ignores."""
    full = not arguments.quick and not arguments.side
    name = "partial"
    if full and not arguments.only and set(CODECS) <= set(arguments.codecs):
        name = "latest"
    elif full:
        name = next((part for part, figures in PARTS.items() if set(names) == set(figures)), name)
    path = RESULTS / f"{name}.json"
    written: dict[str, Any] = {
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
        "figures": [
            figure.as_json() for figure in report.figures(results, peaks, streams, growths, consumers, typed, timed)
        ],
        "speed": [result.as_json() for result in results],
        "memory": [peak.as_json() for peak in peaks],
        "streams": [one.as_json() for one in streams],
        "stream_memory": [growth.as_json() for growth in growths],
        "consumers": [one.as_json() for one in consumers],
        "formats": [one.as_json() for one in typed],
        "event_time": [one.as_json() for one in timed],
    }
    RESULTS.mkdir(exist_ok=True)
    path.write_text(json.dumps(written, indent=2) + "\n", "utf-8")
    return path


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
