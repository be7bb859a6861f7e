"""The live cell of `LagListener` in a real kernel, as a notebook's front end sees it.

Needs `pip install --group notebook`.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.extended

TESTS = Path(__file__).parents[1]

FRONT_END = """
import nbformat
from nbclient import NotebookClient

cells = [
    "import sys; sys.path.insert(0, TESTS)\\n"
    "from support.made_progress import run_query\\n"
    "from penstock.spark import LagListener\\n"
    "listener = LagListener(log_interval=None)".replace("TESTS", repr(__import__("sys").argv[1])),
    "listener",
    "run_query(listener, 'an error of <b>it</b>')\\nlistener.close()",
]
notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in cells])
NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
(shown,) = notebook.cells[1].outputs
print(shown.data["text/html"])
"""


def test_a_cell_that_was_displayed_before_the_query_shows_how_it_failed():
    missing = [name for name in ("ipykernel", "nbclient", "nbformat") if find_spec(name) is None]
    assert not missing, f"this test needs {', '.join(missing)}: pip install --group notebook"
    command = [sys.executable, "-W", "ignore", "-c", FRONT_END, str(TESTS)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "an error of &lt;b&gt;it&lt;/b&gt;" in ran.stdout
    assert "<b>failed</b>" in ran.stdout
    assert "&lt;img src=x onerror=alert(1)&gt;" in ran.stdout
