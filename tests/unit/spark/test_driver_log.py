"""Logging in the processes in which Spark plans (H18)."""

from __future__ import annotations

import logging

import pytest

from penstock.spark import driver_log
from penstock.spark.driver_log import log_to_driver


@pytest.fixture
def bare(monkeypatch):
    """A logger of its own, in a process that has configured no logging."""
    logger = logging.Logger("penstock")  # without a parent: pytest has handlers at the root
    monkeypatch.setattr(driver_log, "_handler", None)
    monkeypatch.setattr(driver_log, "LOGGER", logger)
    return logger


def test_H18_info_is_visible_without_an_option(bare):
    log_to_driver()
    log_to_driver()
    assert bare.isEnabledFor(logging.INFO)
    assert len(bare.handlers) == 1


def test_H18_a_process_that_a_later_query_uses_gets_its_level(bare):
    log_to_driver(logging.ERROR)
    assert not bare.isEnabledFor(logging.WARNING)
    log_to_driver()
    assert bare.isEnabledFor(logging.INFO)


def test_H18_a_program_that_has_configured_logging_keeps_it_unless_the_option_says_otherwise(bare):
    own = logging.NullHandler()
    bare.addHandler(own)
    bare.setLevel(logging.WARNING)
    log_to_driver()
    assert (bare.handlers, bare.level) == ([own], logging.WARNING)
    log_to_driver(logging.DEBUG)
    assert (bare.handlers, bare.level) == ([own], logging.DEBUG)
