"""Read a topic of JSON events with a custom deserializer that replaces users by pseudonyms before Spark sees them.

python examples/own_deserializer.py localhost:9092 shop-events
"""

import hashlib
import json
import os
import sys


class Pseudonymous:
    """Penstock creates one per task. `schema` runs on the driver, the other methods where the records are fetched."""

    columns = ("value", "headers")  # the Kafka columns that `deserialize_record` reads

    def __init__(self):
        self.pseudonyms = {}

    def schema(self):
        return "user STRING, event MAP<STRING, STRING>, headers INT"

    def deserialize_record(self, record):
        """Return a row, or None to skip the record. If this raises an error, option `mode` decides about the record."""
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
    # Spark's workers must use this Python, which has Penstock; the first `python3` on the PATH may be another one.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

    from pyspark.sql import SparkSession

    bootstrap, topic = sys.argv[1:3]
    spark = SparkSession.builder.appName("own deserializer").getOrCreate()
    spark.sparkContext.addPyFile(__file__)  # the workers import the class above from this file
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
