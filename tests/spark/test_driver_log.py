"""What Penstock logs while it plans is in the driver's log (F5, H18), and no traceback of a read that Spark ends."""

from __future__ import annotations

from chaos.processes import Driver
from fixtures.produce import Rec


def test_F5_H18_ignored_options_and_the_start_of_a_stream_are_in_the_drivers_log(kafka, topic, produce, tmp_path):
    options = kafka.client_options() | {"subscribe": topic(1)}
    # More than the buffers of the connection to a worker: Spark closes it while the worker writes.
    many = topic(1)
    produce(many, [Rec(bytes(1000), partition=0)] * 50_000)
    read = {"do": "read", "format": "penstock", "path": str(tmp_path / "read")}
    stream = {
        "do": "stream",
        "format": "penstock",
        "path": str(tmp_path / "stream"),
        "checkpoint": str(tmp_path / "checkpoint"),
        "trigger": {"availableNow": True},
    }
    steps = [
        {"do": "take", "format": "penstock", "options": options | {"subscribe": many}, "rows": 5},
        read | {"options": options | {"kafka.check.crcs": "false"}},
        stream | {"options": options | {"kafka.send.buffer.bytes": "1000"}},
        stream | {"options": options},
        read | {"options": options | {"logLevel": "warning"}, "path": str(tmp_path / "quiet")},
    ]
    with Driver(steps, tmp_path) as driver:
        assert driver.answers()[0] == 5
        lines = driver.log().splitlines()
    assert [line for line in lines if "Traceback" in line or "BrokenPipeError" in line] == []
    # Once per query, though Spark reads the options in several processes.
    assert [line.partition(" WARNING ")[2] for line in lines if "has no effect" in line] == [
        "penstock.config.option: option kafka.check.crcs has no effect: checksums are always checked",
        "penstock.config.option: option kafka.send.buffer.bytes has no effect: requests are small",
    ]
    assert [line for line in lines if " INFO penstock.planner.stream: the stream starts at " in line]
    assert [line for line in lines if " INFO penstock.planner.stream: the stream continues at " in line]
    starts = [line for line in lines if " starts: penstock " in line]
    assert ["a stream" in line for line in starts] == [False, False, True, True], "logLevel=warning hides the last read"
    assert all(f"subscribe={options['subscribe']}" in line for line in starts[1:])
