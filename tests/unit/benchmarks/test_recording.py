"""Files of benchmark results: a file for each group, and single figures that are measured again."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3]))  # for benchmarks, which is not an installed package

from benchmarks import recording
from benchmarks.measured import Measured
from benchmarks.measurement import Measurement

OLD, NEW = ({"date": day, "machine": {"cpu": cpu}, "load_before": 0.1} for day, cpu in (("1", "a"), ("2", "b")))
CATCH_UP, YAHOO, *OTHERS = recording.GROUPS["streams"].figures


def facts(of: dict[str, object]) -> dict[str, object]:
    return {**of, "versions": {"kafka": "4"}, "setting": {"rounds": 3}}


def streams(seconds: float, *figures: str) -> Measured:
    sides = {"penstock": seconds, "jvm": 3 * seconds}
    return Measured(
        streams=[
            Measurement(figure, "1 M per trigger" if figure == CATCH_UP else "", side, "s", [value])
            for figure in figures
            for side, value in sides.items()
        ]
    )


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(recording, "RESULTS", tmp_path)
    return tmp_path


def content(path):
    return json.loads(path.read_text())


def test_a_group_has_a_file_and_the_rest_is_partial(folder):
    every = recording.GROUPS["streams"].figures
    whole = recording.write([*every, "search"], streams(2.0, CATCH_UP), facts(OLD), whole=True)
    assert [path.name for path in whole] == ["search.json", "streams.json"]
    assert content(folder / "streams.json")["figures"][0]["value"] == 3.0
    assert content(folder / "search.json")["search"] == []

    [partial] = recording.write([CATCH_UP], streams(2.0, CATCH_UP), facts(OLD), whole=True)
    assert partial.name == "partial.json"
    [quick] = recording.write(every, streams(2.0, CATCH_UP), facts(OLD), whole=False)
    assert quick.name == "partial.json"


def test_an_update_keeps_other_figures_and_says_when_they_were_measured(folder):
    recording.write(recording.GROUPS["streams"].figures, streams(2.0, CATCH_UP, YAHOO), facts(OLD), whole=True)
    recording.update([YAHOO], streams(1.0, YAHOO), facts(NEW))
    found = content(folder / "streams.json")
    assert found["machine"] == NEW["machine"]
    assert [(one["figure"], one["median"]) for one in found["streams"] if one["side"] == "penstock"] == [
        (CATCH_UP, 2.0),
        (YAHOO, 1.0),
    ]
    assert found["earlier"] == [{**OLD, "rounds": 3, "figures": [CATCH_UP, *OTHERS]}]
    assert len(found["figures"]) == 2

    recording.update([CATCH_UP, *OTHERS], streams(1.0, CATCH_UP), facts(NEW))
    assert content(folder / "streams.json")["earlier"] == [{**NEW, "rounds": 3, "figures": [YAHOO]}]
