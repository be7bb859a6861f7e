"""What the page of `penstock watch` costs with ten browsers: `python -m benchmarks.live_page`, two minutes.

Ten pages in Debian's Chromium look at a simulated cluster of 1,000 topics of 10 partitions and 1,000 groups, of which
every position moves in each round; and then one page at 10,000 groups, which all change. The targets: the server below
10% of a core and 150 MB, a first paint below 1 s, an update of 10,000 rows below 100 ms of script.

It needs `apt-get install chromium` and `pip install --group browser`.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.monitored_cluster import MonitoredCluster, monitored_cluster

TOPICS, PARTITIONS, GROUPS = 1000, 10, 1000
VIEWS = ("", "topics", "groups", "group/g1", "group/g2") * 2
"""What the ten browsers look at. The first search of records loads pyarrow, so it comes last."""
WIDE, UPDATES = 10_000, 10
SETTLE_SECONDS, SECONDS = 15.0, 60.0
INTERVAL = 5.0
"""Seconds from one round to the next: the default of `penstock watch`."""
DEADLINE = 60.0
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
NUMBER, UPDATE_MS = "Number(document.documentElement.dataset.number ?? 0)", "document.documentElement.dataset.updateMs"


def main() -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("live_page: chromium is missing: apt-get install chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        sys.exit("live_page: Playwright is missing: make .venv/.browser")

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        print_server(browser)
        print_update(browser)
        browser.close()


def print_server(browser: Any) -> None:
    with ExitStack() as stack:
        cluster = stack.enter_context(monitored_cluster(TOPICS, PARTITIONS, GROUPS))
        stack.enter_context(moving(cluster))
        url, pid = stack.enter_context(watching(cluster))
        pages, paints, rows = [], [], []
        for view in VIEWS:
            began = time.monotonic()
            page = stack.enter_context(opened(browser, f"{url}#/{view}"))
            paints.append(until(page, PAINT))
            until(page, f"{NUMBER} > 0")
            rows.append((time.monotonic() - began) * 1000)
            pages.append(page)
        time.sleep(SETTLE_SECONDS)
        began, processor = time.monotonic(), processor_seconds(pid)
        first = [page.evaluate(NUMBER) for page in pages]
        time.sleep(SECONDS)
        took, used = time.monotonic() - began, processor_seconds(pid) - processor
        rounds = [page.evaluate(NUMBER) - number for page, number in zip(pages, first, strict=True)]
        script = [float(page.evaluate(UPDATE_MS)) for page in pages]
        print(f"{len(pages)} browsers, {TOPICS * PARTITIONS:,} partitions, {GROUPS:,} groups, all of which move")
        print(f"server: {used / took:.1%} of a core, {resident_mb(pid):.0f} MB at most (targets: 10%, 150 MB)")
        print(f"updates in {took:.0f} s: {min(rounds)} to {max(rounds)} for each browser; script {max(script):.0f} ms")
        print(f"first paint: {statistics.median(paints):.0f} ms, at most {max(paints):.0f} ms (target: 1000 ms)")
        # The first of them waits for the first round of questions.
        print(f"first rows, with the start of a page: {statistics.median(rows):.0f} ms")
        pages[0].goto(f"{url}#/topic/t1")
        until(pages[0], "document.querySelector('.error')?.textContent")  # the simulated records have no checksum
        print(f"server after a search of records: {resident_mb(pid):.0f} MB at most")


def print_update(browser: Any) -> None:
    with ExitStack() as stack:
        cluster = stack.enter_context(monitored_cluster(100, 1, WIDE))
        stack.enter_context(moving(cluster))
        url, _ = stack.enter_context(watching(cluster))
        page = stack.enter_context(opened(browser, f"{url}#/groups"))
        until(page, f"document.querySelector('[role=grid]')?.ariaRowCount === '{WIDE + 1}'")
        changed = changed_groups(url)
        taken = {}
        for _ in range(UPDATES):
            number = page.evaluate(NUMBER)
            until(page, f"{NUMBER} > {number}")
            number, milliseconds = page.evaluate(f"[{NUMBER}, Number({UPDATE_MS})]")
            taken[number] = milliseconds
        whole = [each for number, each in taken.items() if changed.get(number) == WIDE]
        others = [each for number, each in taken.items() if changed.get(number) != WIDE]
        for rows, found in ((f"in which all {WIDE:,} rows change", whole), ("in which fewer rows change", others)):
            if found:
                text = f"{statistics.median(found):.0f} ms of script, at most {max(found):.0f} ms"
                print(f"{len(found)} updates {rows}: {text} (target: 100 ms)")


def changed_groups(url: str) -> dict[int, int]:
    """Filled by a thread until the server ends: the number of an update -> how many rows of groups it changes."""
    found: dict[int, int] = {}

    def read() -> None:
        connection = http.client.HTTPConnection(urlsplit(url).netloc)
        connection.request("GET", "/api/events")
        with connection.getresponse() as response:
            while line := response.readline():
                data = json.loads(line[6:]) if line.startswith(b"data: ") else {}
                if "base" in data:
                    found[data["head"]["number"]] = len(data["groups"]["set"])

    threading.Thread(target=read, daemon=True).start()
    return found


@contextmanager
def moving(cluster: MonitoredCluster) -> Iterator[None]:
    """Every position moves twice in each round."""
    ended = threading.Event()

    def move() -> None:
        while not ended.wait(INTERVAL / 2):
            cluster.advance()

    thread = threading.Thread(target=move)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def watching(cluster: MonitoredCluster) -> Iterator[tuple[str, int]]:
    """`penstock watch` with its defaults: its URL and process id."""
    command = [sys.executable, "-m", "penstock.cli", "watch", "-b", cluster.bootstrap, "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), process.pid
    finally:
        process.terminate()
        process.communicate()


@contextmanager
def opened(browser: Any, url: str) -> Iterator[Any]:
    """A page in a profile of its own, without any cache."""
    context = browser.new_context()
    try:
        page = context.new_page()
        page.goto(url)
        yield page
    finally:
        context.close()


def until(page: Any, expression: str) -> Any:
    """Wait until an expression is true in the page, and return its value."""
    deadline = time.monotonic() + DEADLINE
    while not (value := page.evaluate(expression)):
        if time.monotonic() > deadline:
            sys.exit(f"live_page: this does not become true: {expression}")
        page.wait_for_timeout(20)
    return value


def processor_seconds(pid: int) -> float:
    """CPU time of a process, of its user and system mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    """The most memory that a process has had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


if __name__ == "__main__":
    main()
