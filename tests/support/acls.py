"""Permissions on a broker with an authorizer."""

from __future__ import annotations

import time

from confluent_kafka.admin import AclBinding, AclBindingFilter, AclOperation, AclPermissionType, AdminClient
from confluent_kafka.admin import ResourcePatternType as Pattern
from confluent_kafka.admin import ResourceType as Resource

WAIT = 60

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}
"""Settings of a broker that checks permissions. The user `admin` has all of them."""


def allow(kafka, *allowed):
    """Grant permissions: (user, operation, kind of resource, name, pattern). Returns when they are in effect."""
    login = kafka.client_options(prefix="", user="admin")
    password = login["sasl.jaas.config"].split('password="')[1].split('"')[0]
    admin = AdminClient(
        {
            "bootstrap.servers": login["bootstrap.servers"],
            "security.protocol": login["security.protocol"],
            "sasl.mechanism": "PLAIN",
            "sasl.username": "admin",
            "sasl.password": password,
        }
    )
    bindings = [
        AclBinding(kind, name, pattern, f"User:{user}", "*", operation, AclPermissionType.ALLOW)
        for user, operation, kind, name, pattern in allowed
    ]
    for made in admin.create_acls(bindings).values():
        made.result(WAIT)
    everything = AclBindingFilter(Resource.ANY, None, Pattern.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY)
    deadline = time.monotonic() + WAIT
    while len(admin.describe_acls(everything).result(WAIT)) < len(bindings):
        assert time.monotonic() < deadline, "the broker does not learn of its ACLs"
        time.sleep(0.05)
