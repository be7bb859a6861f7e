"""Every snippet of the consumer's pages runs, and so do its examples: see fixtures/snippets.py for how."""

from __future__ import annotations

import signal
import time

import pytest

import penstock as package
from fixtures.consumer import eventually
from fixtures.snippets import CONSUMER_PAGES, blocks, commands, example, penstock, run_until_signal

JOIN = package.ConsumerConnector.create_message_streams


def joined(connector, *arguments, **more):
    """Wait until the streams have messages, as long as a busy machine may take. Time-outs count from then on."""
    streams = JOIN(connector, *arguments, **more)
    eventually(lambda: all(queue.size for queue in connector.metrics().queues), "messages in each stream")
    return streams


WITH_PYTHON = [page for page in CONSUMER_PAGES if blocks(page, "python")]


def test_there_is_something_to_run():
    assert sum(len(blocks(page, "python")) for page in WITH_PYTHON) >= 15


@pytest.mark.parametrize("page", WITH_PYTHON, ids=lambda page: page.stem)
def test_python_snippets_run(page, documented, tmp_path, monkeypatch):
    namespace = {"__name__": "__docs__"}
    for line in commands(page):
        if line.startswith("penstock groups configure"):  # the snippets need it
            with penstock(line, documented, tmp_path) as process:
                _, err = process.communicate(timeout=240)
            assert process.returncode == 0, err
    for block in blocks(page, "python"):
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
    check_results(page.stem, namespace)


def check_results(page, namespace):
    """Snippets must also have the results that their page states."""
    match page:
        case "consumer":
            assert sum(messages for _, messages in namespace["seen"]) == 400
            assert namespace["clicks"].num_rows == 200
            assert namespace["visits"].num_rows == 97
        case "consumer-groups":
            assert sum(batch.num_rows for batch in namespace["stored"]) == 200
            assert namespace["database"].execute("SELECT count(*) FROM pages").fetchone() == (200,)
            namespace["database"].close()
        case "share-groups":
            assert len(namespace["done"]) == 200
            assert sum(batch.num_rows for batch in namespace["kept"]) == 200
            assert set(namespace["batch"]["user"].to_pylist()) == {"u1"}
        case "consumer-event-time":
            assert list(namespace["closed"].values()) == [40] * 4
        case "writer":
            assert namespace["writer"].result.rows == 200
        case "streamer":
            assert namespace["archive"].metrics().rows == namespace["into_table"].metrics().rows == 200


@pytest.mark.parametrize("line", [line for page in CONSUMER_PAGES for line in commands(page)])
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
    for library, words in (("polars", "200 events of clicks with polars"), ("pandas", "no new events in clicks")):
        show_frames(documented, words, "--library", library)


def test_the_dataframe_example_has_pandas_too(documented):
    show_frames(documented, "200 events of clicks with pandas", "--library", "pandas", "--group", "pandas")


def show_frames(kafka, words, *arguments):
    with example("kafka_to_dataframe.py", kafka, "--by", "page", *arguments) as process:
        out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    assert words in out
    assert err == ""
