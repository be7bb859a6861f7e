"""Every snippet of README.md and docs/ runs, against a real broker.

Python blocks of a file run in order in one namespace, with the documented address replaced by the broker's and the
documented folder by a new one. A comment before a block says where it runs otherwise: `<!-- run: pytest -->` as a test
file, `<!-- run: SSL -->` (or SASL_SSL) against a broker with that listener. Of bash blocks, every line that begins with
`penstock` is run.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from fix_produce import Rec, rdkafka, send
from penstock import EmbeddedKafka

pytestmark = [pytest.mark.broker, pytest.mark.spark]

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "examples" / "README.md"]
ADDRESS = "localhost:9092"
FOLDER = "/tmp/clicks"
NOON = 1_738_324_800_000  # 2025-01-31T12:00Z
PASSWORD = "correct horse"


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    directive: str
    text: str

    def __str__(self):
        return f"{self.page.name}:{self.line}"


FENCE = re.compile(
    r"(?:^<!-- run: (?P<run>\w+) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)


def blocks(page):
    text = page.read_text("utf-8")
    return [
        Block(page, text.count("\n", 0, found.start("text")), found["language"], found["run"] or "", found["text"])
        for found in FENCE.finditer(text)
    ]


ALL = [block for page in PAGES for block in blocks(page)]
COMMANDS = [
    (block, line)
    for block in ALL
    if block.language == "bash"
    for line in block.text.splitlines()
    if line.startswith("penstock ")
]


def filled(cluster, name):
    """A topic as the docs have it: four partitions of fifty clicks, from noon on, a record in each every minute."""
    cluster.create_topic(name, 4, configs={"retention.ms": -1})
    from confluent_kafka import Producer

    records = [
        Rec(
            b'{"user": "u%d", "page": "/p%d"}' % (i % 7, i % 3),
            b"u%d" % (i % 7),
            [("trace", b"%d" % i)],
            timestamp=NOON + i // 4 * 60_000,
            partition=i % 4,
        )
        for i in range(200)
    ]
    producer = Producer(rdkafka({"bootstrap.servers": cluster.bootstrap_servers}))
    send(producer, name, records)
    assert producer.flush(60) == 0


@pytest.fixture(scope="module")
def documented(kafka):
    """The broker with the topics and the group that the docs speak of."""
    for name in ("clicks", "orders"):
        filled(kafka, name)
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "billing"})
    consumer.commit(offsets=[TopicPartition("clicks", p, 30) for p in range(4)], asynchronous=False)
    consumer.close()
    yield kafka
    for name in ("clicks", "orders"):
        kafka.delete_topic(name)


WITH_PYTHON = sorted({block.page for block in ALL if block.language == "python"})


@pytest.mark.parametrize("page", WITH_PYTHON, ids=lambda page: page.name)
def test_python_snippets_run(page, documented, spark, monkeypatch, tmp_path):
    namespace = {"__name__": "__docs__"}
    for block in blocks(page):
        if block.language != "python":
            continue
        code = block.text.replace(ADDRESS, documented.bootstrap_servers).replace(FOLDER, str(tmp_path))
        if block.directive == "pytest":
            run_as_test(code, tmp_path)
        elif block.directive:
            with secured(block.directive, monkeypatch) as fill_in:
                execute(fill_in(code), block, namespace)
        else:
            execute(code, block, namespace)


def execute(code, block, namespace):
    # Blank lines in front, so that a traceback shows the page's own line.
    exec(compile("\n" * block.line + code, str(block.page), "exec"), namespace)


def run_as_test(code, folder):
    file = folder / "test_snippet.py"
    file.write_text(code)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={folder}", str(file)],
        capture_output=True, text=True, timeout=120, cwd=folder, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr


class secured:  # noqa: N801 (a context manager, read like a function)
    """A broker with certificates (and users), and what makes a documented snippet fit it."""

    def __init__(self, listener, monkeypatch):
        users = {"reader": PASSWORD} if listener.startswith("SASL") else None
        self.broker = EmbeddedKafka(listener=listener, users=users, client_auth=listener == "SSL")
        monkeypatch.setenv("KAFKA_PASSWORD", PASSWORD)

    def __enter__(self):
        self.broker.start()
        options = self.broker.client_options()
        self.broker.create_topic("clicks", 1)
        return lambda code: (
            code.replace("broker:9093", self.broker.bootstrap_servers)
            .replace("/etc/kafka/ca.pem", options["kafka.ssl.truststore.location"])
            .replace("/etc/kafka/client.pem", options.get("kafka.ssl.keystore.location", ""))
        )

    def __exit__(self, *_):
        self.broker.stop()


def penstock(line, kafka, **how):
    words = shlex.split(line.replace(ADDRESS, kafka.bootstrap_servers), comments=True)
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable}
    return subprocess.Popen(
        [sys.executable, "-m", "penstock.cli", *words[1:]],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, **how,
    )  # fmt: skip


@pytest.mark.parametrize(("block", "line"), COMMANDS, ids=[line for _, line in COMMANDS])
def test_documented_commands_run(block, line, documented):
    lasting = "Ctrl-C" if "--keep" in line or line.startswith("penstock broker") else None
    with penstock(line, documented) as process:
        if lasting:
            seen = ""
            for said in process.stdout:
                seen += said
                if lasting in said:
                    break
            process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=240)
    assert process.returncode == (130 if lasting else 0), f"{block}: {out}{err}"
    assert err == ""
    assert lasting or out


def test_the_demo_shows_a_table_and_a_rate(documented, tmp_path):
    with penstock("penstock demo --events 30000", documented, cwd=tmp_path) as process:
        out, err = process.communicate(timeout=240)
    assert process.returncode == 0, out + err
    assert err == ""
    assert len(re.findall(r"^  \d\d:\d\d - \d\d:\d\d  ", out, re.MULTILINE)) == 6
    assert re.search(r"30,000 rows read in .* rows per second", out)
    assert list(tmp_path.iterdir()) == []


def example(program, kafka, *arguments, **how):
    return subprocess.Popen(
        [sys.executable, str(ROOT / "examples" / program), kafka.bootstrap_servers, "clicks", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"PYSPARK_PYTHON": sys.executable}, **how,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("program", "target", "words"),
    [
        ("windows.py", [], "12:40:00"),
        ("to_parquet.py", ["clicks.parquet"], "200 records"),
        ("stream_to_parquet.py", ["clicks", "--group", "examples"], "200 records"),
    ],
    ids=lambda value: value if str(value).endswith(".py") else "",
)
def test_examples_run(program, target, words, documented, tmp_path):
    with example(program, documented, *target, cwd=tmp_path) as process:
        out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    assert words in out
    assert "Traceback" not in err


def test_the_streaming_example_follows_until_ctrl_c(documented, tmp_path):
    table = tmp_path / "clicks" / "table" / "_spark_metadata"
    with example("stream_to_parquet.py", documented, "clicks", "--follow", cwd=tmp_path) as process:
        assert "until Ctrl-C" in process.stdout.readline()
        deadline = time.monotonic() + 120
        while not (table / "0").exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "200 records of clicks" in out
    assert "Traceback" not in err


def test_every_example_is_listed():
    listed = (ROOT / "examples" / "README.md").read_text("utf-8")
    assert all(f"examples/{path.name} " in listed for path in (ROOT / "examples").glob("*.py"))


def test_there_is_something_to_run():
    assert sum(block.language == "python" for block in ALL) >= 15
    assert len(COMMANDS) >= 3


@pytest.mark.parametrize("page", [*PAGES, ROOT / "DESIGN.md", ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_what_is_generated_is_up_to_date():
    spec = importlib.util.spec_from_file_location("generate_docs", ROOT / "tools" / "generate_docs.py")
    generate_docs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate_docs)
    marked = {page.relative_to(ROOT).as_posix() for page in PAGES if "<!-- begin " in page.read_text("utf-8")}
    assert set(generate_docs.PARTS) == marked
    for page in generate_docs.PARTS:
        text = (ROOT / page).read_text("utf-8")
        assert generate_docs.generated(page, text) == text, f"{page}: run `make docs`"
