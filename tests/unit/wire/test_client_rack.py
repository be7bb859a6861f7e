"""The rack by name, by environment variable and by function, in the process that reads."""

import pickle
import sys
import types

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config.consumer import parse_config
from penstock.config.source import parse_options
from penstock.errors import OptionError
from penstock.wire.client_rack import rack_of


@pytest.fixture(autouse=True)
def forget():
    rack_of.cache_clear()
    yield
    rack_of.cache_clear()


@pytest.fixture
def zones(monkeypatch):
    """A module with functions; `calls` counts them."""
    module = types.ModuleType("zones")
    module.calls = []

    def zone():
        module.calls.append(1)
        return " eu-1a "

    module.zone, module.none, module.number = zone, lambda: None, lambda: 5
    module.broken = lambda: 1 // 0
    module.deep = types.SimpleNamespace(zone=lambda: "deep")
    monkeypatch.setitem(sys.modules, "zones", module)
    return module


def client(rack):
    return parse_config({"bootstrap.servers": "h:1", "group.id": "g", "client.rack": rack}).client


@pytest.mark.parametrize("name", ["r1", "us-east-1a", "use1-az1:b", "environment"])
def test_a_name_is_the_rack(name):
    assert client(name).rack == name


def test_a_variable_is_read_in_the_process_that_reads(monkeypatch):
    monkeypatch.delenv("ZONE", raising=False)
    given_ = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", "kafka.client.rack": "env:ZONE"}
    sent = pickle.dumps(parse_options(given_))
    monkeypatch.setenv("ZONE", "eu-1b")
    assert pickle.loads(sent).client.rack == "eu-1b"


def test_a_variable_that_is_not_set_is_a_warning_once(monkeypatch, caplog):
    monkeypatch.delenv("ZONE", raising=False)
    assert [client("env:ZONE").rack for _ in range(3)] == ["", "", ""]
    assert caplog.text.count("environment variable ZONE is not set") == 1


def test_a_function_is_called_once(zones):
    assert [client("python:zones:zone").rack for _ in range(3)] == ["eu-1a"] * 3
    assert zones.calls == [1]
    assert client("python:zones:deep.zone").rack == "deep"
    assert client("python:zones:none").rack == ""


@pytest.mark.parametrize(
    ("rack", "says"),
    [
        ("python:zones:missing", "cannot be imported: .* has no attribute 'missing'. The module must be on the path"),
        ("python:no_such_module:zone", "cannot be imported: No module named"),
        ("python:zones:broken", "failed: ZeroDivisionError"),
        ("python:zones:number", "returned a int. Return the rack as a str"),
    ],
)
def test_a_function_that_gives_no_rack_is_an_error(zones, rack, says):
    found = client(rack)
    with pytest.raises(OptionError, match=says):
        _ = found.rack


@pytest.mark.parametrize(
    "rack", ["env:", "env: ZONE", "env:A=B", "python:", "python:zones", "python:a:b:c", "python:1:f"]
)
def test_a_place_that_cannot_exist_is_an_error_at_once(rack):
    with pytest.raises(OptionError, match=r"names no variable or function.*Examples: env:ZONE, python:my_module:zone"):
        client(rack)


@given(st.text(min_size=1).map(str.strip).filter(bool))
def test_any_text_is_a_rack_or_an_option_error(name):
    try:
        found = client(name)
    except OptionError:
        assert name.startswith(("env:", "python:"))
    else:
        assert name.startswith(("env:", "python:")) or found.rack == name
