"""Fixture: a real PostgreSQL, from the system's packages, with a server and a folder of its own."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from chaos.processes import Program, until
from penstock.embedded.node import LOOPBACK, free_ports

LOOK_FOR_IT = Path(__file__).parents[1] / "tools" / "postgresql.sh"
START_SECONDS = 120.0
PORT_TRIES = 3
READY = "ready to accept connections"


class PostgresServer:
    """A server that can be taken down and brought back. Only with the password that is in its `uri`."""

    def __init__(self, programs: Path, folder: Path, account: pwd.struct_passwd | None) -> None:
        self._programs = programs
        self._folder = folder
        self._data = folder / "data"
        self._account = account
        self._program: Program | None = None
        self._port = 0
        self._password = secrets.token_hex(8)
        told = folder / "password"
        told.write_text(self._password)
        if account is not None:
            os.chown(folder, account.pw_uid, account.pw_gid)
            os.chown(told, account.pw_uid, account.pw_gid)
        order = [programs / "initdb", "--pgdata", self._data, "--username=tester", f"--pwfile={told}"]
        order += ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync"]
        made = subprocess.run(self._as_account(order), capture_output=True, text=True, timeout=120, cwd=folder)
        assert made.returncode == 0, f"initdb: {made.stdout}{made.stderr}"

    def _as_account(self, order: list[Any]) -> list[str]:
        """PostgreSQL does not run as root."""
        words = [str(word) for word in order]
        if self._account is None:
            return words
        ids = [f"--reuid={self._account.pw_uid}", f"--regid={self._account.pw_gid}", "--clear-groups"]
        return ["setpriv", *ids, "--", *words]

    @property
    def uri(self) -> str:
        """The same over all restarts."""
        assert self._port, "it was never started"
        return f"postgresql://tester:{self._password}@{LOOPBACK}:{self._port}/postgres"

    def start(self) -> None:
        """The first time at a port that nobody has, and then at that one."""
        ports = [self._port] if self._port else free_ports(PORT_TRIES)
        for port in ports:
            program = self._run(port)
            until(partial(_is_up_or_gone, program), START_SECONDS)
            if program.running and READY in program.log():
                self._program, self._port = program, port
                return
            program.kill()
            said = program.log()
            program.log_path.unlink()
            if "Address already in use" not in said:
                pytest.fail(f"PostgreSQL did not start: {said[-3000:]}", pytrace=False)
        pytest.fail(f"PostgreSQL: others have the ports {ports}", pytrace=False)

    def _run(self, port: int) -> Program:
        settings = {
            "listen_addresses": LOOPBACK,
            "port": port,
            "unix_socket_directories": "",
            "fsync": "off",
            "max_connections": 40,
            "shared_buffers": "16MB",
        }
        order = [self._programs / "postgres", "-D", self._data]
        order += [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return Program("postgres", self._as_account(order), self._folder)

    def stop(self) -> None:
        """Clients are cut off, as in a restart by an administrator."""
        program, self._program = self._program, None
        if program is not None:
            os.kill(program.pid, signal.SIGINT)
            program.wait(START_SECONDS)
            program.log_path.unlink()  # the next start waits for the same line

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        import adbc_driver_postgresql.dbapi

        with (
            adbc_driver_postgresql.dbapi.connect(self.uri, autocommit=True) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(statement)
            rows: list[tuple[Any, ...]] = cursor.fetchall() if cursor.description else []
            return rows


def _is_up_or_gone(program: Program) -> bool:
    return READY in program.log() or not program.running


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server for all tests of a worker: use tables with names of their own. One that takes it down brings it back.

    Without PostgreSQL the tests that need it fail, and say how to get it.
    """
    found = subprocess.run([LOOK_FOR_IT], capture_output=True, text=True, timeout=60)
    if found.returncode:
        pytest.fail(f"{found.stderr.strip()}. Or run: make postgres", pytrace=False)
    # Not in pytest's own folder, which nobody else may look into.
    folder = Path(tempfile.mkdtemp(prefix="penstock-postgres-"))
    server = PostgresServer(Path(found.stdout.strip()), folder, account())
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def account() -> pwd.struct_passwd | None:
    """Who the server runs as; None: as we do."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    return known.get("postgres") or known["nobody"]
