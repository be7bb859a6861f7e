"""Count the actions in a topic of JSON events, by ten minutes of event time.

python examples/windows.py localhost:9092 shop-events
"""

import os
import sys

# Spark's workers must use this Python, which has Penstock; the first `python3` on the PATH may be another one.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

bootstrap, topic = sys.argv[1:3]
spark = SparkSession.builder.appName("windows").getOrCreate()
events = spark.read.format("penstock").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic).load()
action = f.get_json_object(f.col("value").cast("string"), "$.action")
counts = (
    events.groupBy(f.window("timestamp", "10 minutes").alias("window"), action.alias("action"))
    .count()
    .select("window.start", "action", "count")
    .orderBy("start", "action")
)
counts.show(50, truncate=False)
spark.stop()
