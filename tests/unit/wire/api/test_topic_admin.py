"""What kafka-python's admin client cannot do is refused, and not done with other credentials."""

from __future__ import annotations

import pytest

from penstock.errors import AuthenticationFailed
from penstock.wire.api.topic_admin import Admin
from penstock.wire.transport.aws import AwsLogin
from penstock.wire.transport.security import Security


def test_a_role_of_the_jaas_line_is_not_ignored():
    security = Security("SASL_SSL", sasl_mechanism="AWS_MSK_IAM", aws=AwsLogin(role_arn="arn:aws:iam::1:role/r"))
    with pytest.raises(AuthenticationFailed, match="Set AWS_PROFILE"):
        Admin("127.0.0.1:1", security, seconds=5.0).create_topic("t")
