"""The screen as text: hostile names are escaped, rows fit, problems are shown."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from penstock.cli.top.screen import drawn
from penstock.cli.top.view import View
from penstock.model.topic_partition import TopicPartition
from penstock.monitor.rounds import Rounds
from penstock.monitor.settings import MonitorSettings
from support.fake_survey import FakeSurvey

A = TopicPartition("t", 0)
HOSTILE = "g\x1b]0;owned\x07\x1b[2J\u202e\n[red]markup"
WALL = 1_800_000_000.0


def screen(survey, view=None, rounds=1, size=(100, 20), wall=WALL):
    monitor = Rounds(survey, MonitorSettings(), wall=lambda: WALL)
    for _ in range(rounds):
        snapshot = monitor.run()
    out = io.StringIO()
    console = Console(file=out, width=size[0], height=size[1], force_terminal=False)
    console.print(drawn(view or View(), snapshot, console, wall))
    return out.getvalue()


def test_names_of_strangers_are_shown_escaped():
    text = screen(
        FakeSurvey({A: 100}, commits={HOSTILE: {A: 90}}, problems=["groups: \x1b[31mevil\nnext"]), size=(160, 20)
    )
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\\x1b]0;owned\\x07" in text
    assert "\\n[red]markup" in text
    assert "groups: \\x1b[31mevil next" in text


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_screen_fits_and_shows_the_selected_row(width):
    commits = {f"group-{number:03d}-{'x' * 60}": {A: number} for number in range(300)}
    view = View()
    view.sort_by("GROUP", largest_first=False)
    view.selected = sorted(commits)[250]
    lines = screen(FakeSurvey({A: 1000}, commits=commits), view, size=(width, 20)).splitlines()
    assert len(lines) <= 20
    assert max(map(len, lines)) <= width
    if width > 40:
        assert any(line.startswith("group-250") for line in lines)
        assert "750" in "".join(lines)


def test_a_cluster_that_is_down_is_said_with_the_age_of_the_values():
    survey = FakeSurvey({A: 100}, commits={"g": {A: 90}})
    monitor = Rounds(survey, MonitorSettings(), wall=lambda: WALL)
    monitor.run()
    survey.is_up = False
    down = monitor.run()
    out = io.StringIO()
    console = Console(file=out, width=120, height=20)
    console.print(drawn(View(), down, console, WALL + 90))
    text = out.getvalue()
    assert "no broker answers since 1m 30s: old values" in text
    assert "groups: no broker answers" in text
    assert "\ng " in text


def test_before_the_first_snapshot_it_says_that_it_asks():
    out = io.StringIO()
    console = Console(file=out, width=80, height=20)
    console.print(drawn(View(), None, console, WALL))
    assert "asking the cluster" in out.getvalue()
    assert "no broker has answered yet" in screen(FakeSurvey(is_up=False))
