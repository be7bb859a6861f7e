"""Read JSON events as typed columns. Show bad records with the reason, or send them to a dead-letter topic.

python examples/typed_columns.py localhost:9092 shop-events
python examples/typed_columns.py localhost:9092 shop-events --schema 'user STRING, action STRING, price INT'
python examples/typed_columns.py localhost:9092 shop-events --schema 'user STRING, price INT' --dead-letters bad-events
"""

import argparse
import os
import sys

# Spark's workers must use this Python, which has Penstock; the first `python3` on the PATH may be another one.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("address", help="bootstrap servers: host:port,host:port")
parser.add_argument("topic")
parser.add_argument("--schema", help="schema in Spark's DDL (default: inferred from the newest 1000 records)")
parser.add_argument("--dead-letters", metavar="TOPIC", help="dead-letter topic for bad records; it must exist")
arguments = parser.parse_args()

spark = SparkSession.builder.appName("typed columns").config("spark.ui.showConsoleProgress", False).getOrCreate()


def kafka(**options):
    return spark.read.format("penstock").option("kafka.bootstrap.servers", arguments.address).options(**options)


def show_with_reasons(options):
    """Show bad records as rows with nulls, their bytes and the reason."""
    events = kafka(**options, includeErrors="true").load()
    events.printSchema()
    events.where("_error IS NULL").drop("_corrupt_record", "_error").show(5)
    bad = events.where("_error IS NOT NULL")
    print(f"{bad.count():,} of {events.count():,} records do not fit")
    bad.select("kafka_partition", "kafka_offset", f.col("_corrupt_record").cast("string"), "_error").show(
        5, truncate=60
    )


def show_with_letters(options):
    """Send bad records to the dead-letter topic, with headers that name their origin and the reason. Show both."""
    events = kafka(**options, mode="DEADLETTER", deadLetterTopic=arguments.dead_letters).load()
    events.printSchema()
    events.show(5)
    print(f"{events.count():,} rows")
    letters = kafka(subscribe=arguments.dead_letters, includeHeaders="true").option(
        "kafka.isolation.level",
        "read_committed",  # hides dead letters of killed tasks
    )
    said = f.map_from_entries("headers")
    about = [said[f"penstock.{name}"].cast("string").alias(name) for name in ("topic", "partition", "offset", "reason")]
    letters.load().select(f.col("value").cast("string"), *about).show(5, truncate=60)


options = {"subscribe": arguments.topic, "valueFormat": "json", "flatten": "true"}
options |= {"valueSchema": arguments.schema} if arguments.schema else {"schemaInference": "1000"}
(show_with_letters if arguments.dead_letters else show_with_reasons)(options)
spark.stop()
