"""Read a topic of JSON events with a deserializer of your own: users become pseudonyms before Spark sees them.

python examples/own_deserializer.py localhost:9092 shop-events
"""

import hashlib
import json
import os
import sys


class Pseudonymous:
    """Made once for each task. `schema` is asked on the driver, the rest runs where the records are fetched."""

    columns = ("value", "headers")  # of Kafka's columns, what is looked at below

    def __init__(self):
        self.pseudonyms = {}

    def schema(self):
        return "user STRING, event MAP<STRING, STRING>, headers INT"

    def deserialize_record(self, record):
        """A row, or None for none. What is raised here is up to option `mode`, record by record."""
        event = json.loads(record.value)
        user = event.pop("user", None)
        if user is None:
            return None
        texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in event.items()}
        return {"user": self.pseudonym(user), "event": texts, "headers": len(record.headers)}

    def pseudonym(self, user):
        if user not in self.pseudonyms:
            self.pseudonyms[user] = hashlib.blake2b(user.encode(), key=b"keep me secret", digest_size=6).hexdigest()
        return self.pseudonyms[user]


def main():
    # Spark's workers must be the Python that has Penstock, and the first `python3` on the PATH may be another one.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

    from pyspark.sql import SparkSession

    bootstrap, topic = sys.argv[1:3]
    spark = SparkSession.builder.appName("own deserializer").getOrCreate()
    spark.sparkContext.addPyFile(__file__)  # the workers import the class above from it
    events = (
        spark.read.format("penstock")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("valueFormat", "own_deserializer:Pseudonymous")
        .option("flatten", "true")
        .load()
    )
    events.printSchema()
    events.select("user", "event", "headers").show(10, truncate=60)
    spark.stop()


if __name__ == "__main__":
    main()
