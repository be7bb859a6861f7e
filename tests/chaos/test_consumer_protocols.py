"""A group that moves to the protocol of the brokers and back under load: every record once (H5, H8)."""

from chaos.load import Load
from chaos.members import Group
from fixtures.consumer import eventually

PARTITIONS = 8
CLASSIC = {"group_user_data": False, "partition_assignment_strategy": "cooperative-sticky"}
CONSUMER = {"group_protocol": "consumer"}


def test_H8_a_group_changes_its_protocol_and_every_record_comes_once(consumers, kafka, topic):
    name = topic(partitions=PARTITIONS)
    group = Group(kafka, consumers.group, name, PARTITIONS)

    def restart(member, settings):
        """As a rolling restart does it."""
        member.connector.shutdown()
        return consumers.reading(name, streams=2, **settings)

    def has_read_on(members, load):
        written = load.written
        eventually(lambda: sum(reading.count() for reading in consumers.readings) >= written, "the records so far")
        assert not [error for each in members for error in each.errors]

    with Load(kafka.client_options(prefix=""), lambda i: (name, i % PARTITIONS)) as load:
        members = [consumers.reading(name, streams=2, **CLASSIC) for _ in range(3)]
        group.await_members(3)
        for settings in (CONSUMER, CLASSIC, CONSUMER):
            for number in range(3):
                members[number] = restart(members[number], settings)
                group.await_members(3)
                has_read_on(members, load)
        count = sum(load.stop().values())
    eventually(lambda: len(consumers.records()) == count, "every record")
    assert max(consumers.records().values()) == 1
