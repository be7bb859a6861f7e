"""Many transactions at once: how the driver ends those that its tasks have left open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from penstock.errors import BrokerUnavailable, TransactionLost
from penstock.wire.client_config import ClientConfig
from penstock.wire.producer.identity import OpenTransaction
from penstock.wire.producer.send_together import NotSent, SendTogether
from penstock.wire.producer.transaction_client import TransactionClient

__all__ = ["OpenTransaction", "end_transactions", "lost_transactions"]

AT_ONCE = 16
"""Transactions that the driver asks about or aborts at the same time, each over its own connection."""

COMMITTED_TOGETHER = 256
"""Commits that are sent together. Each needs a thread and a connection."""


def lost_transactions(
    config: ClientConfig, transactions: Sequence[OpenTransaction]
) -> dict[OpenTransaction, TransactionLost | None]:
    """Why transactions can no longer be committed; None for those that are open."""
    return _each(config, transactions, config.api_timeout, TransactionClient.is_lost, AT_ONCE)


def end_transactions(
    config: ClientConfig, transactions: Sequence[OpenTransaction], committed: bool, timeout: float
) -> dict[OpenTransaction, TransactionLost | None]:
    """End transactions. The error of one that can no longer be ended as asked; None for others.

    Each request has a connection of its own. Do not simplify: a broker reads the next request of a connection after it
    has answered the last one, and drops unread requests when the client dies. So after a crash, everything that was
    sent is ended. Commits are sent together, when all connections are ready, up to COMMITTED_TOGETHER of them: a
    process that dies has committed all or none. Of the kills near a commit without this, one in twelve came between.

    Raises BrokerUnavailable if a coordinator did not answer within the time-out. Commits have not been sent then, if
    that coordinator could not be reached from the start; otherwise the others have been ended.
    """
    results: dict[OpenTransaction, TransactionLost | None] = {}
    step = COMMITTED_TOGETHER if committed else max(1, len(transactions))
    for first in range(0, len(transactions), step):
        results |= _end(config, transactions[first : first + step], committed, timeout)
    return results


def _end(
    config: ClientConfig, transactions: Sequence[OpenTransaction], committed: bool, timeout: float
) -> dict[OpenTransaction, TransactionLost | None]:
    together = SendTogether(len(transactions)) if committed else None

    def end(client: TransactionClient, transaction: OpenTransaction) -> TransactionLost | None:
        try:
            client.end_transaction(transaction, committed, timeout, together)
        except TransactionLost as error:
            return error
        except BaseException:
            if together is not None:
                together.give_up()
            raise
        return None

    return _each(config, transactions, timeout, end, len(transactions) if committed else AT_ONCE)


def _each(
    config: ClientConfig,
    transactions: Sequence[OpenTransaction],
    timeout: float,
    ask: Callable[[TransactionClient, OpenTransaction], TransactionLost | None],
    at_once: int,
) -> dict[OpenTransaction, TransactionLost | None]:
    """Ask the coordinator of each, with a client and a thread for each."""
    ids = [each.transactional_id for each in transactions]
    coordinators = TransactionClient(config).find_coordinators(ids, timeout)

    def ask_one(transaction: OpenTransaction) -> TransactionLost | None:
        client = TransactionClient(config)
        client.use_coordinators(coordinators)
        return ask(client, transaction)

    if len(transactions) == 1:
        return {transactions[0]: ask_one(transactions[0])}
    with ThreadPoolExecutor(at_once, "penstock-transactions") as threads:
        asked = [(transaction, threads.submit(ask_one, transaction)) for transaction in transactions]
    errors = [outcome.exception() for _, outcome in asked]
    reasons = [error for error in errors if error is not None and not isinstance(error, NotSent)]
    if reasons:
        raise reasons[0]
    if any(errors):
        raise BrokerUnavailable(f"{len(ids)} transactions are not committed: connecting took more than {timeout:g} s")
    return {transaction: outcome.result() for transaction, outcome in asked}
