"""A user's class is opened before its first record and closed after its last one (F2)."""

import asyncio

import pytest

from fixtures.produce import Rec
from penstock import AsyncStream, WatermarkStrategy

CALLS = []
"""What was called, with the number of the instance."""


class Lines:
    columns = ("value", "topic", "partition")

    def __init__(self, prefix):
        self.prefix = prefix
        self.is_open = False

    def schema(self):
        return "line STRING"

    def open(self, options):
        assert options == {"prefix": "> "}
        self.is_open = True
        CALLS.append(("open", id(self)))

    def close(self):
        assert self.is_open
        self.is_open = False
        CALLS.append(("close", id(self)))

    def deserialize_record(self, record):
        assert self.is_open
        return {"line": self.prefix + record.value.decode()}

    def is_end_of_stream(self, row):
        return row == {"line": "> end"}


@pytest.fixture(autouse=True)
def no_calls():
    CALLS.clear()
    yield
    CALLS.clear()


def opened_and_closed():
    opened = [which for what, which in CALLS if what == "open"]
    return len(opened), sorted(opened) == sorted(which for what, which in CALLS if what == "close")


@pytest.mark.parametrize("way", ["batches", "timed", "async"])
def test_F2_each_partition_opens_a_class_and_the_end_of_the_iteration_closes_it(consumers, topic, produce, way):
    name = topic(partitions=2)
    produce(name, [Rec(b"a", partition=0), Rec(b"b", partition=1)])
    more = {"valueFormat": f"{__name__}:Lines", "valueFormatArguments": '{"prefix": "> "}'}
    watermarks = WatermarkStrategy.bounded("1s") if way == "timed" else None
    connector = consumers.connector(watermarks=watermarks, **more)
    (stream,) = connector.create_message_streams({name: 1})[name]
    found = []

    def take(batch):
        rows = batch.column("value").to_pylist() if way != "timed" else batch.records.column("value").to_pylist()
        found.extend(row["line"] for row in rows)
        if len(found) == 2:
            assert opened_and_closed() == (2, False)
            produce(name, [Rec(b"end", partition=0)])

    async def read():
        async for batch in AsyncStream(stream).batches(["value"]):
            take(batch)

    if way == "async":
        asyncio.run(read())
    else:
        for batch in stream.batches(["value"]):
            take(batch)
    assert sorted(found) == ["> a", "> b"]
    assert opened_and_closed() == (2, True)
