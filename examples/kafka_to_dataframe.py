"""What is new in a topic of JSON events as a DataFrame of Polars or pandas, through Arrow. Each run goes on where the
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
parser.add_argument("address", help="brokers to ask first: host:port,host:port")
parser.add_argument("topic")
parser.add_argument("--by", metavar="FIELD", help="a field of the events to count them by, too")
parser.add_argument("--group", default="dataframe", help="who remembers how far this was")
parser.add_argument("--library", choices=["polars", "pandas"], help="default: Polars if it is installed")
arguments = parser.parse_args()
library = arguments.library or ("polars" if importlib.util.find_spec("polars") else "pandas")

config = {
    "bootstrap.servers": arguments.address,
    "group.id": arguments.group,
    "auto.offset.reset": "earliest",  # of the first run: later ones go on where the group was
    "enable.auto.commit": False,  # only when the frame is made: what fails comes again
    "consumer.timeout.ms": 10_000,  # nothing for so long is the end
}


def read(stream: penstock.Stream) -> pa.Table | None:
    """Everything until nothing comes any more."""
    batches = []
    try:
        for batch in stream.batches(["value", "timestamp", "partition", "offset"]):
            batches.append(batch)
    except penstock.ConsumerTimeout:
        pass
    return pa.Table.from_batches(batches) if batches else None


def parsed(records: pa.Table) -> pa.Table:
    """The fields of the events as columns, beside the time of each. Arrow's own reader makes them, not Python."""
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
        print(f"nothing is new in {arguments.topic}")
    else:
        events = parsed(records)
        {"polars": show_with_polars, "pandas": show_with_pandas}[library](events)
        connector.commit_offsets()
        print(f"{events.num_rows:,} events of {arguments.topic} with {library}")
