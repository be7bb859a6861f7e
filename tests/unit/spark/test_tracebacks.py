"""What Spark makes of an error: the traceback of a Python source goes into Spark's own message."""

from __future__ import annotations

import inspect
import traceback

import pytest

from penstock.errors import BrokerUnavailable, OptionError, PenstockError, ProtocolError
from penstock.spark.admission_stream import AdmissionStreamReader
from penstock.spark.datasource import PenstockDataSource
from penstock.spark.tracebacks import without_traceback

NOBODY = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "clicks", "kafka.default.api.timeout.ms": "50"}


def frames(error: BaseException) -> list[str]:
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


def text(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def test_a_wrong_option_is_shown_without_the_way_to_it():
    with pytest.raises(OptionError, match="Did you mean subscribe") as caught:
        PenstockDataSource({"subscrbe": "clicks"}).schema()
    assert frames(caught.value)[1:] == ["call"]


def test_a_broker_that_does_not_answer_is_shown_without_its_causes():
    source = PenstockDataSource(NOBODY)
    reader = source.reader(source.schema())
    with pytest.raises(BrokerUnavailable, match=r"kafka\.security\.protocol") as caught:
        reader.partitions()
    assert frames(caught.value)[1:] == ["call"]
    assert "direct cause" not in text(caught.value)
    assert "Connection refused" in text(caught.value), "the message names the attempts"


def test_what_may_be_a_bug_keeps_its_traceback():
    @without_traceback
    def fails() -> None:
        deeper()

    def deeper() -> None:
        try:
            raise KeyError("x")
        except KeyError as error:
            raise ProtocolError("makes no sense") from error

    with pytest.raises(PenstockError) as caught:
        fails()
    assert frames(caught.value)[-2:] == ["fails", "deeper"]
    assert isinstance(caught.value.__cause__, KeyError)


def test_spark_still_sees_what_a_method_takes():
    assert list(inspect.signature(AdmissionStreamReader.latestOffset).parameters) == ["self", "start", "limit"]
