"""The dashboard and the alert rules of `monitoring/`, against what the exporter exports."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock.metrics.metric import Metric
from penstock.model.topic_partition import TopicPartition
from penstock.monitor.cluster_metrics import CLUSTER_METRICS
from penstock.monitor.exporter import MetricsText
from support.fake_survey import FakeSurvey, snapshot_of

SHIPPED = Path(__file__).parents[3] / "monitoring"
DASHBOARD = SHIPPED / "grafana-dashboard.json"
WALL = 1_800_000_000.0
A, B = TopicPartition("t", 0), TopicPartition("t", 1)
ADDED = {"job", "instance"}
"""Labels that Prometheus adds."""


def exported() -> bytes:
    """The text of a scrape that has samples of all metrics: one group catches up, another has lost records."""
    survey = FakeSurvey(
        {A: 100, B: 50},
        begins={A: 10},
        commits={"g": {A: 60, B: 50}, "late": {A: 5}},
        members={"g": [[A], [B]]},
        times={(A, 90): int((WALL - 30) * 1000), (A, 10): int((WALL - 600) * 1000)},
    )

    def read_more() -> None:
        survey.commits["g"][A] += 10

    snapshot = snapshot_of(survey, 3, WALL, read_more)
    return MetricsText(lambda: snapshot).text("")[0]


def series_of(metric: Metric) -> str:
    return metric.prometheus_name + ("_total" if metric.kind == "counter" else "")


def unknown_series(text: str) -> set[str]:
    return set(re.findall(r"\bpenstock_\w+", text)) - {series_of(metric) for metric in CLUSTER_METRICS}


def dashboard() -> dict:
    return json.loads(DASHBOARD.read_text("utf-8"))


def targets() -> list[dict]:
    return [target for panel in dashboard()["panels"] for target in panel.get("targets", ())]


def substituted(expression: str) -> str:
    """As Grafana sends it, with all values chosen."""
    return re.sub(r"\$(job|group|topic)\b", ".*", expression)


def promtool(*arguments: str | Path, **more) -> None:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed: apt-get install prometheus")
    ran = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60, check=False, **more)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_dashboard_is_whole_and_names_metrics_that_exist():
    text = DASHBOARD.read_text("utf-8")
    assert unknown_series(text) == set()
    panels = dashboard()["panels"]
    numbers = [panel["id"] for panel in panels]
    assert len(set(numbers)) == len(numbers)
    variables = {variable["name"] for variable in dashboard()["templating"]["list"]}
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        assert panel["title"]
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, f"{panel['title']} covers another panel"
        assert max(x for x, _ in cells) < 24
        taken |= cells
        if panel["type"] == "row":
            continue
        assert panel["description"]
        assert panel["datasource"]["uid"] == "${datasource}"
        assert panel["targets"]
        letters = [target["refId"] for target in panel["targets"]]
        assert len(set(letters)) == len(letters)
        for target in panel["targets"]:
            assert '{job=~"$job"' in target["expr"]
    assert variables == {"datasource", "job", "group", "topic"}


def test_the_variables_and_legends_of_the_dashboard_name_labels_that_are_exported():
    labels = {
        sample.name: set(sample.labels) | ADDED
        for family in text_string_to_metric_families(exported().decode())
        for sample in family.samples
    }
    variables = dashboard()["templating"]["list"][1:]
    asked = [re.fullmatch(r"label_values\((penstock_\w+).*, (\w+)\)", each["query"]["query"]) for each in variables]
    named = [(each[1], {each[2]}) for each in asked]
    named += [
        (re.search(r"penstock_\w+", each["expr"])[0], set(re.findall(r"\{\{(\w+)\}\}", each["legendFormat"])))
        for each in targets()
    ]
    named += [
        (re.search(r"penstock_\w+", each["expr"])[0], set(re.findall(r"(\w+)=~", each["expr"]))) for each in targets()
    ]
    for series, wanted in named:
        assert wanted <= labels[series], series


def test_promtool_evaluates_each_expression_of_the_dashboard_to_values_of_what_is_exported(tmp_path):
    """An expression that is misspelt, or has a label that does not exist, has no value."""
    lines = [line for line in exported().decode().splitlines() if not line.startswith("#")]
    series = [re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line) for line in lines]
    given = [
        {"series": f'{each[1]}{{{f"{each[2]}," if each[2] else ""}job="penstock"}}', "values": f"{float(each[3]):f}x10"}
        for each in series
    ]
    expected = {"eval_time": "10m", "exp_samples": [{"labels": "{}", "value": 1}]}
    asked = [{"expr": f"count({substituted(each['expr'])}) > bool 0"} | expected for each in targets()]
    test = {"interval": "1m", "input_series": given, "promql_expr_test": asked}
    (tmp_path / "test.yaml").write_text(json.dumps({"rule_files": [], "evaluation_interval": "1m", "tests": [test]}))
    promtool("test", "rules", tmp_path / "test.yaml")


def test_what_is_exported_here_has_samples_of_every_metric():
    families = text_string_to_metric_families(exported().decode())
    assert {family.name for family in families if family.samples} == {each.prometheus_name for each in CLUSTER_METRICS}


def test_the_alert_rules_name_metrics_that_exist():
    for name in ("prometheus-alerts.yaml", "prometheus-alerts-test.yaml"):
        assert unknown_series((SHIPPED / name).read_text("utf-8")) == set()


@pytest.mark.parametrize(
    "arguments", [("check", "rules", "prometheus-alerts.yaml"), ("test", "rules", "prometheus-alerts-test.yaml")]
)
def test_promtool_accepts_the_alert_rules(arguments):
    promtool(*arguments, cwd=SHIPPED)


def test_promtool_accepts_the_metrics():
    promtool("check", "metrics", input=exported().decode())
