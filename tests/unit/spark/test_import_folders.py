"""Where planning processes find a user's own classes."""

from __future__ import annotations

import sys

from penstock.spark.import_folders import add_folders, known_folders


def test_folders_of_the_process_that_made_the_data_frame_come_last(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", ["", "/here"])
    assert known_folders() == ("/here",)
    add_folders(("/here", str(tmp_path), str(tmp_path / "gone")))
    assert sys.path == ["", "/here", str(tmp_path)]
