"""`LagListener` in a notebook: with a made-up IPython, and without any."""

from __future__ import annotations

import sys
import threading
import types
from html.parser import HTMLParser

import pytest

from penstock.spark import LagListener
from penstock.spark import live_cell as module
from penstock.spark.live_cell import MAX_CELLS, MAX_ROWS, as_html, plain_text
from penstock.watch.query_report import QueryReport
from support.made_progress import run_query
from support.made_reports import partition, report
from support.made_snapshots import HOSTILE

DEADLINE = 30.0
ALLOWED = {"table", "thead", "tbody", "tr", "th", "td", "pre", "p", "a", "b", "svg", "title", "rect"}


class Elements(HTMLParser):
    """The elements, attributes and text of a document."""

    def __init__(self, text):
        super().__init__()
        self.names, self.attributes, self.text = set(), set(), ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data):
        self.text += data


def test_a_query_with_all_its_figures():
    found = Elements(as_html([report()], "http://127.0.0.1:1/"))
    for text in ("orders", "running", "500", "750", "14", "t-0: 7", "1 idle", "3.5 s", "0.7 s", "shows more"):
        assert text in found.text
    assert found.names <= ALLOWED


@pytest.mark.parametrize("text", [HOSTILE, "</td><script>alert(1)</script>", "<svg onload=alert(1)>", "&lt;b&gt;"])
def test_hostile_names_and_errors_are_text(text):
    given = report(name=text, topic=text, error=f"{text}\n\tat {text}", state="failed", partitions=2)
    found = Elements(as_html([given]))
    assert found.names <= ALLOWED
    assert not {name for name in found.attributes if name.startswith("on")}
    assert "\x1b" not in found.text
    assert "\u202e" not in found.text
    if "script" in text:
        assert found.text.count("<script>alert(1)</script>") >= 3
    assert "\x1b" not in plain_text([given])


def test_what_is_shown_is_bounded():
    many = [report(f"run-{number}", name=f"query {number}", error="x" * 8000) for number in range(100)]
    text = as_html(many)
    assert len(text) < 200_000
    assert text.count("<pre") == MAX_ROWS
    assert "query 99" in text
    assert "query 79<" not in text
    assert "80 older queries are not shown" in text
    partitions = tuple(partition(each, "x" * 249) for each in range(1000))
    assert len(as_html([QueryReport("q", "r", partitions=partitions)])) < 10_000


def test_before_the_first_query():
    assert "addListener" in as_html([])
    assert "addListener" in LagListener()._repr_html_()
    assert "addListener" in plain_text([])


def test_without_ipython_it_prints(capsys, monkeypatch):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    listener = LagListener(log_interval=None)
    run_query(listener)
    listener._ipython_display_()
    assert "finished, 1 record behind" in capsys.readouterr().out


class Notebook:
    """IPython's display, and what it was given."""

    def __init__(self, *, has_kernel=True):
        self.bundles = []
        self.updates = 0
        self.fails = False
        self.changed = threading.Condition()
        package = types.ModuleType("IPython")
        package.display = types.SimpleNamespace(display=self.display)
        package.get_ipython = lambda: types.SimpleNamespace(**({"kernel": object()} if has_kernel else {}))
        self.package = package

    def display(self, bundle, *, raw, display_id=None):
        assert raw
        number = len(self.bundles)
        self.bundles.append(bundle)

        def update(bundle, *, raw):
            assert raw
            with self.changed:
                self.updates += 1
                self.changed.notify_all()
                if self.fails:
                    raise OSError("the kernel is going down")
                self.bundles[number] = bundle

        return types.SimpleNamespace(update=update) if display_id else None

    def until(self, condition):
        with self.changed:
            assert self.changed.wait_for(condition, DEADLINE), self.bundles


@pytest.fixture
def notebook(monkeypatch):
    made = Notebook()
    monkeypatch.setitem(sys.modules, "IPython", made.package)
    monkeypatch.setattr(module, "UPDATE_SECONDS", 0.001)
    return made


def test_a_cell_follows_the_queries(notebook):
    listener = LagListener(log_interval=None)
    listener._ipython_display_()
    assert "addListener" in notebook.bundles[0]["text/html"]
    run_query(listener)
    notebook.until(lambda: "finished" in notebook.bundles[0]["text/html"])
    assert "finished" in notebook.bundles[0]["text/plain"]
    listener.close()
    assert not [each for each in threading.enumerate() if each.name == "penstock-live-cell"]


def test_only_the_last_cells_follow(notebook):
    listener = LagListener(log_interval=None)
    for _ in range(MAX_CELLS + 2):
        listener._ipython_display_()
    run_query(listener)
    notebook.until(lambda: all("finished" in each["text/html"] for each in notebook.bundles[2:]))
    assert ["finished" in each["text/html"] for each in notebook.bundles[:2]] == [False, False]
    listener.close()


def test_a_front_end_that_fails_does_not_disturb_the_query(notebook):
    notebook.fails = True
    listener = LagListener(log_interval=None)
    listener._ipython_display_()
    run_query(listener)
    notebook.until(lambda: notebook.updates)
    run_query(listener)
    assert listener.lag(HOSTILE) == 1
    listener.close()


def test_a_terminal_shows_a_cell_once(monkeypatch):
    terminal = Notebook(has_kernel=False)
    monkeypatch.setitem(sys.modules, "IPython", terminal.package)
    listener = LagListener(log_interval=None)
    listener._ipython_display_()
    assert len(terminal.bundles) == 1
    assert not [each for each in threading.enumerate() if each.name == "penstock-live-cell"]
