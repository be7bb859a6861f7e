"""Count a topic by windows of event time after `withWatermark`, and show the loss when some partitions are ahead.

python examples/event_time.py localhost:9092 skewed --make
python examples/event_time.py localhost:9092 skewed --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0

`--make` writes a topic whose partitions begin up to a day apart. Spark's own source needs its JARs (`--packages` or
`--jars`). Without them, the program compares with Penstock without event time.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

# Spark's workers must use this Python, which has Penstock; the first `python3` on the PATH may be another one.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

PARTITIONS, DAY = 8, 86_400_000
DRIFT = "4 hours"
TRIGGERS = 8

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("address", help="bootstrap servers: host:port,host:port")
parser.add_argument("topic")
parser.add_argument(
    "--make", type=int, nargs="?", const=20_000, metavar="RECORDS", help="create the topic first (%(const)s records)"
)
parser.add_argument("--packages", help="Maven coordinates of Spark's own Kafka source, for the installed Spark")
parser.add_argument("--jars", help="JAR files of Spark's own Kafka source, separated by commas")
arguments = parser.parse_args()


def make_topic(records):
    """Create a topic in which each partition holds one day, in order; the last begins 24 hours after the first."""
    admin = KafkaAdminClient(bootstrap_servers=arguments.address)
    admin.create_topics([NewTopic(arguments.topic, PARTITIONS, 1)])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=arguments.address, linger_ms=100)
    begin, each = int(time.time() * 1000) - 2 * DAY, records // PARTITIONS
    for number in range(each * PARTITIONS):
        partition, offset = number % PARTITIONS, number // PARTITIONS
        timestamp = begin + DAY * partition // (PARTITIONS - 1) + DAY * offset // each
        producer.send(arguments.topic, b"%d" % number, partition=partition, timestamp_ms=timestamp)
    producer.flush(60)
    producer.close()
    print(f"{arguments.topic}: {each * PARTITIONS:,} records in {PARTITIONS} partitions that begin up to 24 h apart")


def counted(source, folder, **options):
    """Count all records by ten minutes of event time. Return rows read, rows in the counts, and triggers."""
    options |= {"kafka.bootstrap.servers": arguments.address, "subscribe": arguments.topic}
    records = spark.readStream.format(source).options(startingOffsets="earliest", **options).load()
    counts = records.withWatermark("timestamp", DRIFT).groupBy(f.window("timestamp", "10 minutes")).count()
    windows = {}

    def keep(batch, number):
        windows.update({row["window"]["start"]: row["count"] for row in batch.collect()})

    query = (
        counts.writeStream.outputMode("update")
        .foreachBatch(keep)
        .option("checkpointLocation", str(folder))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    triggers = [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]
    return sum(triggers), sum(windows.values()), len(triggers)


if arguments.make:
    make_topic(arguments.make)
builder = SparkSession.builder.appName("event time").config("spark.ui.showConsoleProgress", False)
builder = builder.config("spark.sql.shuffle.partitions", 2)
if arguments.packages:
    builder = builder.config("spark.jars.packages", arguments.packages)
if arguments.jars:
    builder = builder.config("spark.jars", arguments.jars)
spark = builder.getOrCreate()

everything = {"kafka.bootstrap.servers": arguments.address, "subscribe": arguments.topic}
limit = max(1, spark.read.format("penstock").options(**everything).load().count() // TRIGGERS)
runs = {"Penstock, eventTime.maxDrift=4h": ("penstock", {"eventTime.maxDrift": "4h"})}
if arguments.packages or arguments.jars:
    runs = {"Spark's own source": ("kafka", {})} | runs
else:
    print("No JARs of Spark's own source (--packages): comparing with Penstock without event time, which plans alike")
    runs = {"Penstock without event time": ("penstock", {})} | runs

print(f"{'':32}{'read':>12}{'counted':>12}{'lost':>12}{'triggers':>12}")
with tempfile.TemporaryDirectory() as folder:
    for number, (name, (source, options)) in enumerate(runs.items()):
        read, kept, triggers = counted(source, Path(folder) / str(number), maxOffsetsPerTrigger=limit, **options)
        print(f"{name:32}{read:>12,}{kept:>12,}{read - kept:>12,}{triggers:>12}", flush=True)
spark.stop()
