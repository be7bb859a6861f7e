"""Connections to brokers and HTTP endpoints: sockets, TLS, logins, retries."""
