"""Every snippet of README.md and docs/ runs, against a real broker: see fixtures/snippets.py for how.

tests/integration/test_consumer_docs.py runs the pages of the consumer, which need no Spark.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fixtures.snippets import (
    CONSUMER_PAGES,
    PAGES,
    REGISTRY,
    ROOT,
    SAIL_PAGE,
    blocks,
    commands,
    example,
    penstock,
    program,
    run_as_test,
)
from penstock import EmbeddedKafka, read_batches

sys.path.insert(0, str(ROOT))  # for tools, which is not installed

from tools.docs.charts import FIGURES
from tools.docs.pages import PARTS, generated

# A page is many queries, one after the other; a program has a deadline of its own.
pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(900)]

PASSWORD = "correct horse"
OURS = [page for page in PAGES if page not in (*CONSUMER_PAGES, SAIL_PAGE)]
WITH_PYTHON = [page for page in OURS if blocks(page, "python")]
COMMANDS = [line for page in OURS for line in commands(page)]


@pytest.mark.parametrize("page", WITH_PYTHON, ids=lambda page: page.name)
def test_python_snippets_run(page, documented, spark, monkeypatch, tmp_path, request):
    namespace = {"__name__": "__docs__"}
    for block in blocks(page, "python"):
        code = block.filled_in(documented.bootstrap_servers, tmp_path)
        if block.directive == "pytest":
            run_as_test(code, tmp_path)
        elif block.directive == "module":
            block.write(tmp_path)
        elif block.directive == "registry":
            registry = request.getfixturevalue("documented_registry")
            block.execute(code.replace(REGISTRY, registry.url), namespace)
        elif block.directive:
            with secured(block.directive, monkeypatch) as fill_in:
                block.execute(fill_in(code), namespace)
        else:
            block.execute(code, namespace)
    if page.name == "formats.md":  # not only that they run: what they say of their results is so
        assert namespace["letters"].count() == 3
        assert namespace["table"].num_rows == 100
    if page.name == "event-time.md":
        counted = namespace["spark"].table("clicks_by_time").groupBy("window").agg({"count": "max"})
        assert sum(row["max(count)"] for row in counted.collect()) == 200
        assert namespace["spark"].table("marked").where("late").count() == 0


def test_the_documented_pipeline_runs(documented, tmp_path):
    page = ROOT / "docs" / "sql.md"
    for block in blocks(page):
        if block.directive == "module" or block.language == "yaml":
            name = re.split("[ ,]", block.text.partition("\n")[0].removeprefix("# "))[0]
            (tmp_path / name).write_text(block.filled_in(documented.bootstrap_servers, tmp_path))
    before = documented_rows(documented, "page-views")
    with subprocess.Popen(
        [Path(sys.executable).parent / "spark-pipelines", "run", "--conf", "spark.ui.enabled=false"],
        # SPARK_TESTING: a port of its own for the Connect server, not always 15002.
        env=os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_TESTING": "1"},
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            out, _ = process.communicate(timeout=600)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # its JVMs, too
            raise
    assert process.returncode == 0, out
    assert "Run is COMPLETED" in out
    assert documented_rows(documented, "page-views") - before == 200


def documented_rows(kafka, topic):
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": topic}
    return read_batches(options, columns=["offset"]).read_all().num_rows


class secured:  # noqa: N801 (a context manager, read like a function)
    """A broker with certificates (and users), and what makes a documented snippet fit it."""

    def __init__(self, listener, monkeypatch):
        users = {"reader": PASSWORD} if listener.startswith("SASL") else None
        self.broker = EmbeddedKafka(listener=listener, users=users, client_auth=listener == "SSL")
        monkeypatch.setenv("KAFKA_PASSWORD", PASSWORD)
        monkeypatch.setenv("CLIENT_SECRET", PASSWORD)

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


@pytest.mark.parametrize("line", COMMANDS)
def test_documented_commands_run(line, documented, request, tmp_path, monkeypatch):
    monkeypatch.setenv("BROWSER", "true")  # --open opens nothing
    if REGISTRY in line:
        line = line.replace(REGISTRY, request.getfixturevalue("documented_registry").url)
    for name in re.findall(r"[\w-]+\.properties", line):
        (tmp_path / name).write_text(f"bootstrap.servers={documented.bootstrap_servers}\n")
    lasting = "Ctrl-C" if "--keep" in line or line.startswith("penstock broker") else None
    if line.startswith(("penstock watch", "penstock exporter")):
        line, lasting = f"{line} --port 0", "http://"
    with penstock(line, documented, cwd=tmp_path) as process:
        if lasting:
            for said in process.stdout:
                if lasting in said:
                    break
            process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=240)
    assert process.returncode == (130 if lasting else 0), out + err
    assert err == ""
    assert lasting or out


def test_the_demo_shows_a_table_and_a_rate(documented, tmp_path):
    with penstock("penstock demo --events 30000", documented, cwd=tmp_path) as process:
        out, err = process.communicate(timeout=240)
    assert process.returncode == 0, out + err
    assert err == ""
    assert len(re.findall(r"^  \d\d:\d\d - \d\d:\d\d  ", out, re.MULTILINE)) == 6
    assert "Topic shop-windows, as readers of committed records see it:" in out
    assert re.search(r"30,000 rows read in .* rows per second", out)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("program", "target", "words"),
    [
        ("windows.py", [], "12:40:00"),
        ("to_parquet.py", ["clicks.parquet"], "200 records"),
        ("stream_to_parquet.py", ["clicks", "--group", "examples"], "200 records"),
        (
            "typed_columns.py",
            ["--schema", "user INT", "--dead-letters", "bad-clicks"],
            'field user: "u0" is not of type int',
        ),
        ("exactly_once.py", ["page-views"], '"count":40}'),
        ("own_deserializer.py", [], "|{page -> /p0}|      1|"),
    ],
    ids=lambda value: value if str(value).endswith(".py") else "",
)
def test_examples_run(program, target, words, documented, tmp_path):
    with example(program, documented, *target, cwd=tmp_path) as process:
        out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    assert words in out
    assert "Traceback" not in err


def test_the_event_time_example_shows_what_is_lost(documented):
    address, topic = documented.bootstrap_servers, "skewed-by-an-example"
    with program(str(ROOT / "examples" / "event_time.py"), address, topic, "--make", "4000") as process:
        out, err = process.communicate(timeout=240)
    documented.delete_topic(topic)
    assert process.returncode == 0, err
    lost = dict(re.findall(r"^(Penstock.*?) +4,000 +[\d,]+ +([\d,]+) +\d+$", out, re.MULTILINE))
    assert lost.keys() == {"Penstock without event time", "Penstock, eventTime.maxDrift=4h"}, out
    assert int(lost["Penstock without event time"].replace(",", "")) > 1000
    assert lost["Penstock, eventTime.maxDrift=4h"] == "0"
    assert "Traceback" not in err


def test_the_streaming_example_follows_until_ctrl_c(documented, tmp_path):
    table = tmp_path / "clicks" / "table" / "_spark_metadata"
    with example("stream_to_parquet.py", documented, "clicks", "--follow", cwd=tmp_path) as process:
        assert "until Ctrl-C" in process.stdout.readline()
        deadline = time.monotonic() + 240
        while not (table / "0").exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    assert "200 records of clicks" in out
    assert "Traceback" not in err


def test_every_example_is_listed():
    listed = (ROOT / "examples" / "README.md").read_text("utf-8")
    assert all(f"examples/{path.name} " in listed for path in (ROOT / "examples").glob("*.py"))


def test_there_is_something_to_run():
    assert sum(len(blocks(page, "python")) for page in OURS) >= 15
    assert len(COMMANDS) >= 3


@pytest.mark.parametrize("page", [*PAGES, ROOT / "DESIGN.md", ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def heading_anchors(page):
    headings = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_headings_lead_somewhere(page):
    for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]*)\)", page.read_text("utf-8")):
        linked = page.parent / target if target else page
        assert anchor in heading_anchors(linked), f"{page.name} links to {target}#{anchor}"


def test_what_is_generated_is_up_to_date():
    marked = {page.relative_to(ROOT).as_posix() for page in PAGES if "<!-- begin " in page.read_text("utf-8")}
    assert set(PARTS) == marked
    for page in PARTS:
        text = (ROOT / page).read_text("utf-8")
        assert generated(page, text) == text, f"{page}: run `make docs`"
    for figure, draw in FIGURES.items():
        assert draw() == (ROOT / figure).read_text("utf-8"), f"{figure}: run `make docs`"
