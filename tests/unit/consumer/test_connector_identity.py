"""How a connector is named, and how often it creates streams (H1, H2). No broker."""

import pytest

import penstock

SETTINGS = {"bootstrap.servers": "127.0.0.1:1", "group.id": "words"}


@pytest.fixture
def connect():
    """`connect(**settings)`: a connector of group `words` that never reaches a broker."""
    made = []

    def make(**settings):
        config = SETTINGS | {name.replace("_", "."): value for name, value in settings.items()}
        made.append(penstock.ConsumerConnector(config))
        return made[-1]

    yield make
    for connector in made:
        connector.shutdown()


def test_H2_a_second_call_for_streams_is_an_error_of_the_exception_tree(connect):
    connector = connect(consumer_id="me")
    (stream,) = connector.create_message_streams({"t": 1})["t"]
    for again in (
        lambda: connector.create_message_streams({"t": 1}),
        lambda: connector.create_message_streams({"other": 2}),
        lambda: connector.create_message_streams_by_filter(".*"),
    ):
        with pytest.raises(penstock.MessageStreamsExist, match="creates them once") as caught:
            again()
        assert isinstance(caught.value, penstock.PenstockError)
        assert caught.value.consumer_id == connector.consumer_id
    assert stream.thread_id == f"{connector.consumer_id}-0", "the first streams stay"


def test_H2_streams_by_filter_are_created_once_too(connect):
    connector = connect()
    assert len(connector.create_message_streams_by_filter("t-.*", 2)) == 2
    with pytest.raises(penstock.MessageStreamsExist):
        connector.create_message_streams({"t": 1})


def test_H1_a_configured_id_keeps_the_prefix_of_its_group(connect):
    connector = connect(consumer_id="me")
    assert connector.consumer_id == "words_me"
    (stream,) = connector.create_message_streams({"t": 1})["t"]
    assert stream.thread_id == "words_me-0"
    assert connector.metrics().consumer_id == "words_me"


def test_H1_ids_that_are_not_configured_differ_and_have_the_same_prefix(connect):
    ids = {connect().consumer_id for _ in range(10)}
    assert len(ids) == 10
    assert all(each.startswith("words_") for each in ids)
