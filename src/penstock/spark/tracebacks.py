"""Raises user errors without a traceback. Spark copies the whole traceback of an error in a Python source, with all
causes, into its own message: a broker that did not answer took 86 lines, with the reason at the end."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from penstock.errors import (
    AuthenticationFailed,
    AuthorizationFailed,
    BrokerUnavailable,
    ColumnError,
    DataLoss,
    NoGroupOffset,
    NoOffsetForTimestamp,
    OpenTransaction,
    OptionError,
    RegistryRefused,
    RegistryUnavailable,
    ReplayError,
    SchemaNotFound,
    TimeLookupTimeout,
    TransactionLost,
    UnknownTopic,
    UnreadableSchema,
    UnrelatedCheckpoint,
    UnsupportedSpark,
)
from penstock.masking import get_logger

log = get_logger(__name__)

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

USER_ERRORS = (
    *(OptionError, UnknownTopic, BrokerUnavailable, AuthenticationFailed, AuthorizationFailed),
    *(UnrelatedCheckpoint, OpenTransaction, TimeLookupTimeout),
    *(DataLoss, NoGroupOffset, NoOffsetForTimestamp, RegistryUnavailable, RegistryRefused, SchemaNotFound),
    *(UnreadableSchema, ColumnError, ReplayError, TransactionLost, UnsupportedSpark),
)
"""User errors: shown without a traceback. Others keep theirs, which a bug report needs."""


def without_traceback(method: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Decorates methods that Spark calls on the driver."""

    # Do not simplify: Spark inspects the signature of latestOffset, which `wraps` keeps.
    @functools.wraps(method)
    def call(*arguments: Parameters.args, **named: Parameters.kwargs) -> Result:
        try:
            return method(*arguments, **named)
        except USER_ERRORS as error:
            log.debug("raised without its traceback", exc_info=True)
            raise error.with_traceback(None) from None

    return call
