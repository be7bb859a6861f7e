"""Errors can be pickled, and say where it happened and how to fix it."""

import inspect
import pickle

import pytest

from penstock import errors

EXAMPLES = [
    errors.PenstockError("plain"),
    errors.OptionError("name", "value", "is wrong", "Do that"),
    errors.UnrelatedCheckpoint(["clicks"], "subscribe = orders"),
    errors.BrokerError("broken"),
    errors.BrokerUnavailable("reading t-0", ["after 1.0 s: refused"], "Check it"),
    errors.TopicRecreated("t"),
    errors.TransactionLost("id", "committing: PRODUCER_FENCED", aborted=True),
    errors.UnwritableRecord("t", 3, 17, b"k", "it is too large", "Raise max.message.bytes"),
    errors.AuthenticationFailed("no"),
    errors.AuthorizationFailed("no"),
    errors.UnknownTopic("t", 3, "has 2"),
    errors.TimeLookupTimeout([("t", 3, 1000, 5, 9)], 60.0, "default.api.timeout.ms"),
    errors.CommitRefused("g", "it is rebalancing"),
    errors.AcknowledgementRefused("t", 0, "its lock has ended"),
    errors.ProtocolError("what"),
    errors.CorruptBatch("t", 3, 42, 100, "CRC is wrong"),
    errors.RecordTooLarge("t", 3, 42, 1000),
    errors.OffsetOutOfRange("t", 3, 42, "offsets 50 to 60"),
    errors.ColumnError("value", "is missing", "Build it"),
    errors.ReplayError("batch 7"),
    errors.SinkError("table t is missing"),
    errors.RowsRefused("a null"),
    errors.RegistryError("no JSON"),
    errors.RegistryUnavailable("schema 7", ["http://r: refused"]),
    errors.RegistryRefused("http://r", "401", "Log in"),
    errors.SchemaNotFound("http://r", "schema 7"),
    errors.SchemaRefused("http://r", "orders-value", "incompatible", 409),
    errors.UnreadableSchema("http://r", "schema 7", "is of type 'XML'", "XML", "<a/>"),
    errors.IncompatibleSchema("t-value", 8, 7, "field a"),
    errors.MalformedRecord("t", 3, 42, "value", "is no JSON", b"{"),
    errors.PredicateFailed("t", 3, 42, "a / b = 1", "a / b: division by zero", "Exclude zeros first"),
    errors.DeserializerFailed("t", 3, 42, "orders:Orders", "ValueError: no price", "Traceback"),
    errors.EventTimeError("column 'created'", "is of type string", "Cast it", "Traceback"),
    errors.ConsumerTimeout("me-0", 1.5, "topic 't' does not exist"),
    errors.MessageStreamsExist("words_me"),
    errors.DataLoss([("t", 3, "from offset 1", "offsets 5 to 9")]),
    errors.OpenTransaction([("t", 3, 100, 40, "producer id 7")], 120.0, "endingOffsets"),
    errors.NoOffsetForTimestamp([("t", 3, 1000)]),
    errors.NoGroupOffset("g", [("t", 3)]),
    errors.UnknownQuery("oders", ["orders"]),
    errors.UnsupportedSpark("Penstock needs PySpark 4.0, and this is PySpark 3.5.8", "Install a newer one"),
    errors.EmbeddedBrokerError("no java"),
]


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda e: type(e).__name__)
def test_an_error_survives_pickle_whole(error):
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert copy.__dict__ == error.__dict__


def test_every_error_is_in_the_tree_and_in_the_examples():
    classes = {c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, Exception)}
    assert classes == {type(error) for error in EXAMPLES}
    assert all(c.__name__ in (errors.__doc__ or "") for c in classes)


def test_a_corrupt_batch_says_where():
    message = str(errors.CorruptBatch("t", 3, 42, 100, "CRC is wrong"))
    assert "t-3, base offset 42, byte 100" in message
    assert "CRC is wrong" in message


def test_an_unavailable_broker_has_its_history():
    error = errors.BrokerUnavailable("reading", ["after 1.0 s: refused", "after 2.0 s: closed"])
    assert str(error).endswith("tried:\n  - after 1.0 s: refused\n  - after 2.0 s: closed")
