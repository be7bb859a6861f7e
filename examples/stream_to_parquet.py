"""Add what is new in a topic to a Parquet table. Every run goes on where the last one ended.

python examples/stream_to_parquet.py localhost:9092 shop-events /tmp/shop
python examples/stream_to_parquet.py localhost:9092 shop-events /tmp/shop --follow --group shop
"""

import argparse
import logging
import os
import signal
import sys
import time

# Spark's workers must be the Python that has Penstock, and the first `python3` on the PATH may be another one.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

from pyspark.sql import SparkSession

from penstock.spark import LagListener

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("address", help="brokers to ask first: host:port,host:port")
parser.add_argument("topic")
parser.add_argument("folder", help="gets the table and, beside it, the checkpoint")
parser.add_argument("--follow", action="store_true", help="go on until Ctrl-C, not only to the end of what is there")
parser.add_argument("--group", help="commit to this consumer group, so that Kafka's tools see how far it is")
arguments = parser.parse_args()

# A line about the lag now and then, on standard error.
logging.basicConfig(format="%(message)s")
logging.getLogger("penstock.lag").setLevel(logging.INFO)

spark = SparkSession.builder.appName("stream_to_parquet").config("spark.ui.showConsoleProgress", False).getOrCreate()
listener = LagListener()
spark.streams.addListener(listener)
# PySpark's own handler would cancel the batch that is being written. This one only leaves a note: it may come in the
# middle of anything, and a lock that is held there would never be free for it.
stop: list[int] = []
signal.signal(signal.SIGINT, lambda number, frame: stop.append(number))

options = {
    "kafka.bootstrap.servers": arguments.address,
    "subscribe": arguments.topic,
    "startingOffsets": "earliest",  # of the first run: later ones have the checkpoint
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
query.awaitTermination()  # raises what it failed with
print(f"{spark.read.schema(rows.schema).parquet(table).count():,} records of {arguments.topic} in {table}")
spark.stop()
