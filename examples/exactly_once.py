"""Count by windows from topic to topic, exactly once, with PySpark.

python examples/exactly_once.py localhost:9092 shop-events windows

Kill it at any moment, and start it again: readers of committed records find each window once. The output topic must
exist, or the brokers must create topics. --follow runs until Ctrl-C instead of ending at the current end.
"""

import argparse
import tempfile

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("address", help="bootstrap servers: host:port,host:port")
parser.add_argument("topic", help="topic to read")
parser.add_argument("output", help="topic to write to")
parser.add_argument("--checkpoint", help="folder of the checkpoint: the same in every run (default: a new one)")
parser.add_argument("--follow", action="store_true", help="run until Ctrl-C")
arguments = parser.parse_args()

spark = SparkSession.builder.appName("exactly once").config("spark.sql.shuffle.partitions", 4).getOrCreate()
kafka = {"kafka.bootstrap.servers": arguments.address}
events = (
    spark.readStream.format("penstock")
    .options(**kafka, subscribe=arguments.topic, startingOffsets="earliest")
    .option("eventTime.maxDrift", "10m")  # windows wait for slow partitions
    .load()
)
windows = events.withWatermark("timestamp", "10 minutes").groupBy(f.window("timestamp", "10 minutes")).count()
query = (
    windows.select(
        f.date_format("window.start", "yyyy-MM-dd HH:mm").alias("key"),
        f.col("window.start").alias("timestamp"),
        f.struct("window.start", "window.end", "count").alias("value"),
    )
    .writeStream.format("penstock")
    .options(**kafka, topic=arguments.output, valueFormat="json", deliveryGuarantee="exactly-once")
    .option("checkpointLocation", arguments.checkpoint or tempfile.mkdtemp())
    .trigger(**({"processingTime": "1 second"} if arguments.follow else {"availableNow": True}))
    .start()
)
try:
    query.awaitTermination()
except KeyboardInterrupt:
    query.stop()

committed = kafka | {"kafka.isolation.level": "read_committed"}  # otherwise rows of aborted transactions show, too
written = spark.read.format("penstock").options(**committed, subscribe=arguments.output).load()
written.selectExpr("CAST(key AS STRING) AS window", "CAST(value AS STRING) AS value").orderBy("window").show(50, False)
spark.stop()
