"""The settings of a login by Kerberos (SASL mechanism GSSAPI)."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class KerberosLogin:
    """Everything that identifies a login by GSSAPI. Times in seconds. Hashable: tickets are kept by it."""

    service: str = "kafka"
    domain: str | None = None
    """The host in the brokers' principal. None: the address of each broker."""
    principal: str | None = None
    """None: that of the ticket cache, or the first of the keytab."""
    use_keytab: bool = True
    keytab: str | None = None
    """None: the default client keytab, which KRB5_CLIENT_KTNAME or krb5.conf names."""
    use_ticket_cache: bool = True
    """If both are used, tickets of the cache come first."""
    ticket_cache: str | None = None
    """None: the default one, which KRB5CCNAME or krb5.conf names."""
    renew_window: float = 0.8
    renew_jitter: float = 0.05
    renew_min_period: float = 60.0

    def renew_after(self, lifetime: float) -> float:
        """Seconds after which a ticket with this much time left is renewed, by the rule of Java's client."""
        window = lifetime * min(1.0, self.renew_window + random.uniform(0, self.renew_jitter))  # noqa: S311
        return max(window, self.renew_min_period) if self.renew_min_period < lifetime else window
