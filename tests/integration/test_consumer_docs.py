"""Every snippet of docs/consumer.md runs, and so do the examples of the consumer: see fixtures/snippets.py for how."""

from __future__ import annotations

import signal
import time

import pytest

import penstock as package
from fixtures.consumer import eventually
from fixtures.snippets import CONSUMER_PAGE, blocks, commands, example, penstock, run_until_signal

JOIN = package.ConsumerConnector.create_message_streams


def joined(connector, *arguments, **more):
    """Streams that have messages: so long a busy machine may take, and a time-out counts from then on."""
    streams = JOIN(connector, *arguments, **more)
    eventually(lambda: all(queue.size for queue in connector.metrics().queues), "messages in each stream")
    return streams


def test_python_snippets_run(documented, tmp_path, monkeypatch):
    namespace = {"__name__": "__docs__"}
    snippets = blocks(CONSUMER_PAGE, "python")
    assert len(snippets) >= 15
    for block in snippets:
        code = block.filled_in(documented.bootstrap_servers, tmp_path)
        if block.directive:
            run_until_signal(code, signal.Signals[block.directive], tmp_path)
        else:
            # Five seconds are for snippets that end by them. Others may take longer to join where much else goes on.
            ends_by_it = "ConsumerTimeout" in code
            namespace.get("kafka", {})["consumer.timeout.ms"] = 5000 if ends_by_it else 60_000
            with monkeypatch.context() as patch:
                if ends_by_it:
                    patch.setattr(package.ConsumerConnector, "create_message_streams", joined)
                block.execute(code, namespace)
    # Not only that they run: what they say of their results is so.
    assert sum(messages for _, messages in namespace["seen"]) == 400
    assert namespace["clicks"].num_rows == 200
    assert namespace["visits"].num_rows == 97
    assert sum(batch.num_rows for batch in namespace["stored"]) == 200
    assert list(namespace["closed"].values()) == [40] * 4
    assert namespace["archive"].metrics().rows == namespace["into_table"].metrics().rows == 200


@pytest.mark.parametrize("line", commands(CONSUMER_PAGE))
def test_documented_commands_run(line, documented, tmp_path):
    with penstock(line, documented, tmp_path) as process:
        out, err = process.communicate(timeout=240)
    assert process.returncode == 0, out + err
    assert "Traceback" not in err
    assert out or err


def test_the_word_count_counts_until_ctrl_c(documented):
    with example("word_count.py", documented) as process:
        assert "until Ctrl-C" in process.stdout.readline()
        deadline = time.monotonic() + 120
        while " 200 messages" not in (said := process.stdout.readline()):
            assert said, process.stderr.read()
            assert time.monotonic() < deadline, said
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    assert "200  user" in out
    assert "67  p0" in out
    assert "Traceback" not in err


def test_the_dataframe_example_reads_what_is_new(documented):
    for library, words in (("polars", "200 events of clicks with polars"), ("pandas", "nothing is new in clicks")):
        show_frames(documented, words, "--library", library)


def test_the_dataframe_example_has_pandas_too(documented):
    show_frames(documented, "200 events of clicks with pandas", "--library", "pandas", "--group", "pandas")


def show_frames(kafka, words, *arguments):
    with example("kafka_to_dataframe.py", kafka, "--by", "page", *arguments) as process:
        out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    assert words in out
    assert err == ""
