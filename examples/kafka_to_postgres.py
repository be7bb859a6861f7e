"""A topic of JSON events into a table of PostgreSQL, each event once: offsets are committed after the rows, and what
comes twice after a crash is left out by its key. Every run goes on where the last one ended.

python examples/kafka_to_postgres.py localhost:9092 shop-events postgresql://me@localhost/shop
python examples/kafka_to_postgres.py localhost:9092 shop-events postgresql://me@localhost/shop --follow --threads 4
"""

import argparse
import logging

import adbc_driver_postgresql.dbapi
import pyarrow as pa

import penstock

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("address", help="brokers to ask first: host:port,host:port")
parser.add_argument("topic")
parser.add_argument("database", help="postgresql://user@host/name; a password may be in it, or in PGPASSWORD")
parser.add_argument("--table", default="events", help="made if it is not there (default events)")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--follow", action="store_true", help="go on until Ctrl-C, not only to the end of what is there")
parser.add_argument("--dead-letter", metavar="TOPIC", help="where events go that are no JSON (default: skipped)")
arguments = parser.parse_args()
logging.basicConfig(format="%(message)s")  # what is skipped, and why, on standard error

with adbc_driver_postgresql.dbapi.connect(arguments.database) as connection, connection.cursor() as cursor:
    cursor.execute(
        f'CREATE TABLE IF NOT EXISTS "{arguments.table}" ("partition" int, "offset" bigint, at timestamptz, key text, '
        'event jsonb, PRIMARY KEY ("partition", "offset"))'
    )
    connection.commit()


def row(message: penstock.Message) -> tuple:
    key = None if message.key is None else message.key.decode()
    # PostgreSQL refuses what is no JSON. That row is then found and left out, and the others are written.
    return message.partition, message.offset, message.timestamp, key, message.value.decode()


schema = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("at", pa.timestamp("ms", "UTC")),
        ("key", pa.string()),
        ("event", pa.string()),
    ]
)
config = {
    "bootstrap.servers": arguments.address,
    "group.id": f"{arguments.topic}-to-{arguments.table}",
    "auto.offset.reset": "earliest",  # of the first run: later ones go on where the group was
}
streamer = penstock.Streamer(
    arguments.topic,
    arguments.threads,
    row,
    penstock.AdbcSink(arguments.database, arguments.table, skip_duplicates=True),
    config=config,
    schema=schema,
    dead_letter=arguments.dead_letter,
    until_end=not arguments.follow,
)
print(f"{arguments.topic} -> {arguments.table}" + (", until Ctrl-C" if arguments.follow else ""), flush=True)
with streamer:
    try:
        while not streamer.wait(5):
            print(f"{streamer.metrics().rows:,} rows, lag {streamer.metrics().lag}", flush=True)
    except KeyboardInterrupt:
        pass  # the end of the block lets it write and commit what it has
done = streamer.metrics()
print(f"{done.records:,} events of {arguments.topic} read, {done.failed:,} of them failed")
