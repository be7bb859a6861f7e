"""Add the new records of a topic to a Parquet table. Every run continues where the last one ended.

python examples/stream_to_parquet.py localhost:9092 shop-events /tmp/shop
python examples/stream_to_parquet.py localhost:9092 shop-events /tmp/shop --follow --group shop
"""

import argparse
import os
import signal
import sys
import time

# Spark's workers must use this Python, which has Penstock; the first `python3` on the PATH may be another one.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

from pyspark.sql import SparkSession

from penstock.spark import LagListener

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("address", help="bootstrap servers: host:port,host:port")
parser.add_argument("topic")
parser.add_argument("folder", help="folder for the table and the checkpoint")
parser.add_argument("--follow", action="store_true", help="run until Ctrl-C, not only to the end of the topic")
parser.add_argument("--group", help="commit to this consumer group, so that Kafka's tools show the lag")
arguments = parser.parse_args()

spark = SparkSession.builder.appName("stream_to_parquet").config("spark.ui.showConsoleProgress", False).getOrCreate()
listener = LagListener()  # prints the lag to standard error, every ten seconds
spark.streams.addListener(listener)
# PySpark's own handler would cancel the current batch. This one only sets a flag: a signal handler may interrupt code
# that holds a lock, so it must not wait for one.
stop: list[int] = []
signal.signal(signal.SIGINT, lambda number, frame: stop.append(number))

options = {
    "kafka.bootstrap.servers": arguments.address,
    "subscribe": arguments.topic,
    "startingOffsets": "earliest",  # first run only: later runs continue at the checkpoint
    "maxOffsetsPerTrigger": "500000",
}
if arguments.group:
    options["kafka.group.id"] = arguments.group
records = spark.readStream.format("penstock").options(**options).load()
rows = records.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)", "partition", "offset", "timestamp")
table = f"{arguments.folder}/table"
query = (
    rows.writeStream.queryName(arguments.topic)
    .format("parquet")
    .option("checkpointLocation", f"{arguments.folder}/checkpoint")
    .trigger(**({"processingTime": "1 second"} if arguments.follow else {"availableNow": True}))
    .start(table)
)
print(f"{arguments.topic} -> {table}" + (", until Ctrl-C" if arguments.follow else ""), flush=True)
while query.isActive and not stop:
    time.sleep(0.2)
query.stop()
query.awaitTermination()  # raises the error if the query failed
print(f"{spark.read.schema(rows.schema).parquet(table).count():,} records of {arguments.topic} in {table}")
spark.stop()
