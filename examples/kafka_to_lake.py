"""Write topics into a Delta Lake or Iceberg table, each record exactly once.

The table holds the offsets: kill it whenever you like, and start it again. Several of them share the work.

python examples/kafka_to_lake.py localhost:9092 clicks,orders delta:/tmp/lake/events
python examples/kafka_to_lake.py localhost:9092 clicks iceberg:/tmp/lake --follow --threads 4
"""

import argparse
import logging
from pathlib import Path

import penstock

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("address", help="bootstrap servers: host:port,host:port")
parser.add_argument("topics", help="names, separated by commas")
parser.add_argument("table", help="delta:FOLDER, or iceberg:FOLDER with a catalog in that folder")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--follow", action="store_true", help="run until Ctrl-C, not only to the end of the topics")
arguments = parser.parse_args()
logging.basicConfig(format="%(message)s")

kind, _, place = arguments.table.partition(":")
if kind == "delta":
    sink = penstock.DeltaSink(place, partition_by=["topic", "date"], commit_seconds=10)
else:
    folder = Path(place).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    catalog = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}
    sink = penstock.IcebergSink("lake.events", catalog=catalog, partition_by=["topic", "date"], commit_seconds=10)

config = {
    "bootstrap.servers": arguments.address,
    "group.id": "kafka-to-lake",  # part of the name of the offsets in the table: keep it
    "auto.offset.reset": "earliest",  # for partitions that the table does not have yet
}
streamer = penstock.Streamer(
    arguments.topics.split(","), arguments.threads, sink=sink, config=config, until_end=not arguments.follow
)
print(f"{arguments.topics} -> {arguments.table}" + (", until Ctrl-C" if arguments.follow else ""), flush=True)
with streamer:
    try:
        while not streamer.wait(5):
            print(f"{streamer.metrics().rows:,} rows, lag {streamer.metrics().lag}", flush=True)
    except KeyboardInterrupt:
        pass  # at the end of the block, the Streamer commits the rows it holds
done = streamer.metrics()
print(f"{done.rows:,} rows of {done.records:,} records written")
