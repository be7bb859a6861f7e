"""Write the JSON events of a topic into a PostgreSQL table, each event once.

The Streamer commits offsets after the rows. Events that arrive twice after a crash are skipped by their key. Every run
continues where the last one ended.

python examples/kafka_to_postgres.py localhost:9092 shop-events postgresql://me@localhost/shop
python examples/kafka_to_postgres.py localhost:9092 shop-events postgresql://me@localhost/shop --follow --threads 4
"""

import argparse
import logging

import adbc_driver_postgresql.dbapi
import pyarrow as pa

import penstock

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("address", help="bootstrap servers: host:port,host:port")
parser.add_argument("topic")
parser.add_argument("database", help="postgresql://user@host/name, with the password in the URL or in PGPASSWORD")
parser.add_argument("--table", default="events", help="created if it does not exist (default: %(default)s)")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--follow", action="store_true", help="run until Ctrl-C, not only to the end of the topic")
parser.add_argument("--dead-letter", metavar="TOPIC", help="topic for events that are not JSON (default: skip them)")
arguments = parser.parse_args()
logging.basicConfig(format="%(message)s")  # log skipped events, with the reason, to standard error

with adbc_driver_postgresql.dbapi.connect(arguments.database) as connection, connection.cursor() as cursor:
    cursor.execute(
        f'CREATE TABLE IF NOT EXISTS "{arguments.table}" ("partition" int, "offset" bigint, at timestamptz, key text, '
        'event jsonb, PRIMARY KEY ("partition", "offset"))'
    )
    connection.commit()


def row(message: penstock.Message) -> tuple:
    key = None if message.key is None else message.key.decode()
    # PostgreSQL rejects a value that is not JSON. The sink finds that row, skips it and writes the others.
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
    "auto.offset.reset": "earliest",  # first run only: later runs continue at the group's offsets
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
        pass  # at the end of the block, the Streamer writes and commits the rows it holds
done = streamer.metrics()
print(f"{done.records:,} events of {arguments.topic} read, {done.failed:,} of them failed")
