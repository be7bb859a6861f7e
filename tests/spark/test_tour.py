"""The notebook examples/tour.ipynb, cell by cell, in a kernel of its own. Needs `pip install --group notebook`."""

from __future__ import annotations

from pathlib import Path

import pytest

TOUR = Path(__file__).resolve().parents[2] / "examples" / "tour.ipynb"
CELL_SECONDS = 240

pytestmark = [
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.filterwarnings("default"),  # those of nbclient's dependencies are not ours
]


@pytest.fixture
def notebook():
    import nbformat  # not in the environment of make test

    return nbformat.read(TOUR, as_version=4)


def test_every_cell_of_the_notebook_runs(notebook, tmp_path):
    import nbclient

    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=CELL_SECONDS, kernel_name="python3", resources=resources).execute()
    texts = [shown(cell) for cell in notebook.cells if cell.cell_type == "code"]
    assert any("20000 rows" in text or "20,000 rows" in text for text in texts), texts
    assert any("slow clicks" in text for text in texts), texts
    assert any("GROUP" in text and "tour" in text for text in texts), texts
    assert not any("Traceback" in text for text in texts), texts


def shown(cell):
    """What a cell printed and displayed, as text."""
    texts = []
    for output in cell.outputs:
        assert output.output_type != "error", output
        texts.append(output.get("text", "") or output.get("data", {}).get("text/plain", ""))
    return "".join(texts)


def test_the_notebook_is_stored_without_outputs(notebook):
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert (cell.outputs, cell.execution_count) == ([], None)
