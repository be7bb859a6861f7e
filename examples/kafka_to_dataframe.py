"""Read the new JSON events of a topic into a Polars or pandas DataFrame, through Arrow. Each run continues where the
last one ended.

python examples/kafka_to_dataframe.py localhost:9092 shop-events --by action
"""

import argparse
import importlib.util
from io import BytesIO

import pyarrow as pa
import pyarrow.json

import penstock

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("address", help="bootstrap servers: host:port,host:port")
parser.add_argument("topic")
parser.add_argument("--by", metavar="FIELD", help="also count the events by this field")
parser.add_argument("--group", default="dataframe", help="consumer group that keeps the offsets (default: %(default)s)")
parser.add_argument("--library", choices=["polars", "pandas"], help="default: polars if it is installed")
arguments = parser.parse_args()
library = arguments.library or ("polars" if importlib.util.find_spec("polars") else "pandas")

config = {
    "bootstrap.servers": arguments.address,
    "group.id": arguments.group,
    "auto.offset.reset": "earliest",  # first run only: later runs continue at the group's offsets
    "enable.auto.commit": False,  # committed below, after the DataFrame is built: a failed run reads the events again
    "consumer.timeout.ms": 10_000,  # stop after 10 s without a message
}


def read(stream: penstock.Stream) -> pa.Table | None:
    """Read until no more messages arrive."""
    batches = []
    try:
        for batch in stream.batches(["value", "timestamp", "partition", "offset"]):
            batches.append(batch)
    except penstock.ConsumerTimeout:
        pass
    return pa.Table.from_batches(batches) if batches else None


def parsed(records: pa.Table) -> pa.Table:
    """Parse the fields of the events into columns, with Arrow's own reader, and add the record time."""
    records = records.filter(records["value"].is_valid())
    events = pa.json.read_json(BytesIO(b"\n".join(records["value"].to_pylist())))
    return events.append_column("record_time", records["timestamp"])


def show_with_polars(events: pa.Table) -> None:
    import polars as pl

    frame = pl.from_arrow(events)
    keys = [pl.col("record_time").dt.truncate("10m"), *([pl.col(arguments.by)] if arguments.by else [])]
    print(frame.head())
    print(frame.group_by(keys).len("events").sort(pl.all()))


def show_with_pandas(events: pa.Table) -> None:
    frame = events.to_pandas()
    keys = [frame["record_time"].dt.floor("10min"), *([frame[arguments.by]] if arguments.by else [])]
    print(frame.head())
    print(frame.groupby(keys).size().rename("events"))


with penstock.ConsumerConnector(config) as connector:
    (stream,) = connector.create_message_streams({arguments.topic: 1})[arguments.topic]
    records = read(stream)
    if records is None:
        print(f"no new events in {arguments.topic}")
    else:
        events = parsed(records)
        {"polars": show_with_polars, "pandas": show_with_pandas}[library](events)
        connector.commit_offsets()
        print(f"{events.num_rows:,} events of {arguments.topic} with {library}")
