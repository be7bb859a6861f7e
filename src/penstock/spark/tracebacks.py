"""Errors that explain themselves, without the way they came: Spark puts the whole traceback of what a Python source
raises into its own message, causes included. A broker that does not answer was 86 lines, the reason at their end."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from penstock.errors import (
    AuthenticationFailed,
    AuthorizationFailed,
    BrokerUnavailable,
    DataLoss,
    NoGroupOffset,
    NoOffsetForTimestamp,
    OpenTransaction,
    OptionError,
    RegistryRefused,
    RegistryUnavailable,
    SchemaNotFound,
    TimeLookupTimeout,
    UnknownTopic,
    UnreadableSchema,
    UnrelatedCheckpoint,
)

log = logging.getLogger(__name__)

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

EXPLAINED = (
    *(OptionError, UnknownTopic, BrokerUnavailable, AuthenticationFailed, AuthorizationFailed),
    *(UnrelatedCheckpoint, OpenTransaction, TimeLookupTimeout),
    *(DataLoss, NoGroupOffset, NoOffsetForTimestamp, RegistryUnavailable, RegistryRefused, SchemaNotFound),
    UnreadableSchema,
)
"""What a user has to mend, and not in this code. Others keep their traceback: it is what a report of a bug needs."""


def without_traceback(method: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """For methods that Spark calls on the driver."""

    # Do not leave `wraps` out: Spark looks at the signature of latestOffset.
    @functools.wraps(method)
    def call(*arguments: Parameters.args, **named: Parameters.kwargs) -> Result:
        try:
            return method(*arguments, **named)
        except EXPLAINED as error:
            log.debug("what is raised here without its traceback", exc_info=True)
            raise error.with_traceback(None) from None

    return call
