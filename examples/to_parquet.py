"""Write a topic into a Parquet file without Spark, batch by batch: memory does not grow with the topic.

python examples/to_parquet.py localhost:9092 shop-events events.parquet
"""

import sys

import pyarrow.parquet as pq

import penstock

bootstrap, topic, path = sys.argv[1:4]
rows = 0
writer = None
for batch in penstock.read_batches({"kafka.bootstrap.servers": bootstrap, "subscribe": topic}):
    if writer is None:
        writer = pq.ParquetWriter(path, batch.schema, compression="zstd")
    writer.write_batch(batch)
    rows += batch.num_rows
if writer is not None:
    writer.close()
print(f"{rows:,} records of {topic} in {path}")
