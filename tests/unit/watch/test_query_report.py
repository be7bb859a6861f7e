"""Reports come from outside: what is not exactly one is refused."""

from __future__ import annotations

import json

import pytest

from penstock.watch.query_report import MAX_BYTES, BadReport, QueryReport, encode_report, parse_report
from support.made_reports import report
from support.made_snapshots import HOSTILE


@pytest.mark.parametrize(
    "given",
    [
        report(),
        QueryReport("q", "r"),
        report(name=HOSTILE, topic=HOSTILE, state="failed", error=HOSTILE, ended_at=1.0),
        report(name="\ud800 alone"),
        report(batch=-(2**62), input_rate=1e-300),
    ],
    ids=["full", "new", "hostile", "surrogate", "numbers"],
)
def test_a_report_comes_back_as_it_was(given):
    assert parse_report(encode_report(given)) == given


def test_a_report_of_a_thousand_partitions_fits_and_one_with_hostile_names_is_made_to_fit():
    usual = report(partitions=1000, topic="orders.of.the.north-west")
    assert len(encode_report(usual)) < 300_000
    hostile = report(partitions=1000, topic="\u2028" * 250)
    encoded = encode_report(hostile)
    assert len(encoded) <= MAX_BYTES
    read = parse_report(encoded)
    assert 0 < len(read.partitions) < 1000
    assert read.partition_count == 1000


def changed(**more):
    return json.loads(encode_report(report())) | more


def without(name):
    document = changed()
    del document[name]
    return document


@pytest.mark.parametrize(
    "document",
    [
        [],
        {},
        None,
        "text",
        changed(unknown=1),
        without("lag"),
        without("lag") | {"gal": 1},
        changed(id=""),
        changed(run_id=None),
        changed(run_id=5),
        changed(name="x" * 251),
        changed(error="x" * 8001),
        changed(state="lost"),
        changed(state=["running"]),
        changed(lag=1.5),
        changed(lag=True),
        changed(lag=2**63),
        changed(lag="7"),
        changed(input_rate="1"),
        changed(input_rate=True),
        changed(input_rate=10**400),
        changed(phases={}),
        changed(phases=[{"name": "a", "milliseconds": 1}] * 33),
        changed(phases=[{"name": "a"}]),
        changed(phases=[["a", 1]]),
        changed(batches=[None]),
        changed(partitions=changed()["partitions"] * 501),
        changed(partitions=[changed()["partitions"][0] | {"idle": 1}]),
    ],
    ids=lambda document: json.dumps(document)[:40],
)
def test_what_is_not_exactly_a_report_is_refused(document):
    with pytest.raises(BadReport):
        parse_report(json.dumps(document).encode())


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff",
        b"[" * 100_000,
        b" " * (MAX_BYTES + 1),
        encode_report(report()).replace(b'"lag":14', b'"lag":NaN'),
        encode_report(report()).replace(b'"input_rate":500.0', b'"input_rate":1e999'),
        encode_report(report()).replace(b'"input_rate":500.0', b'"input_rate":-Infinity'),
        encode_report(report()).replace(b'"batch":3', b'"batch":' + b"9" * 10_000),
    ],
    ids=["empty", "cut", "not-text", "deep", "large", "nan", "beyond-floats", "infinity", "digits"],
)
def test_what_is_not_json_is_refused(body):
    with pytest.raises(BadReport):
        parse_report(body)
