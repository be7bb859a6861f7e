"""TLS for kafka-python's admin client, which leaves the socket of a failed handshake open."""

from __future__ import annotations

import ssl


class Handshakes:
    """The handshakes of one client, which retries: a broker that starts may end several of them."""

    def __init__(self) -> None:
        self._unfinished: set[ssl.SSLSocket] = set()

    def of(self, context: ssl.SSLContext) -> ssl.SSLContext:
        """Close each socket of this context whose handshake fails."""
        unfinished = self._unfinished

        class Socket(ssl.SSLSocket):
            def do_handshake(self, block: bool = False) -> None:
                unfinished.add(self)
                try:
                    super().do_handshake(block)
                except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                    raise  # called again when the socket is ready
                except BaseException:
                    self.close()
                    unfinished.discard(self)
                    raise
                unfinished.discard(self)

        context.sslsocket_class = Socket
        return context

    def close(self) -> None:
        """Close the sockets whose handshake did not end: the client has given up on them."""
        while self._unfinished:
            self._unfinished.pop().close()
