"""One broker process: its directory, its ports, its supervisor.

work_dir/node-1/
  server.properties    the broker's settings; readable only by its owner
  server.log           Kafka's log, kept over restarts of the node
  console.log          the output of the JVM
  data/                the partitions, unless the user named a data directory
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import EmbeddedBrokerError
from penstock.testing.distribution import Distribution

LOOPBACK = "127.0.0.1"

# Below every system's range for outgoing connections (Linux 32768+, macOS and IANA 49152+). Do not simplify to "bind to
# port 0": while a node is down, any client's socket can take a port from that range, and a client that reconnects to it
# on loopback may even connect to itself.
_PORTS = range(15_000, 32_000)

# Not random's module-level generator, which programs and test plugins seed: two processes with the same seed would try
# the same ports in the same order, and take those of a node that restarts.
_RANDOM = random.SystemRandom()

SUPERVISOR = Path(__file__).with_name("_supervisor.py")
LOG4J = """\
<Configuration status="ERROR">
  <Appenders>
    <File name="file" fileName="${sys:penstock.log}"><PatternLayout pattern="%d %p %c{1} %m%n"/></File>
  </Appenders>
  <Loggers><Root level="INFO"><AppenderRef ref="file"/></Root></Loggers>
</Configuration>
"""


@dataclass(frozen=True, slots=True)
class Ports:
    """The two ports of a node in combined mode."""

    client: int
    controller: int


@dataclass(frozen=True, slots=True)
class Jvm:
    """The options of a broker's JVM."""

    heap_mb: int
    options: Sequence[str]


def free_ports(count: int) -> list[int]:
    """Ports that are free now. Another process may take one before the start, which then retries."""
    held: list[socket.socket] = []
    try:
        for port in _RANDOM.sample(_PORTS, len(_PORTS)):
            if len(held) == count:
                break
            probe = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                probe.close()
            else:
                held.append(probe)
        if len(held) < count:
            raise EmbeddedBrokerError(
                f"there are no {count} free ports from {_PORTS.start} to {_PORTS.stop} on {LOOPBACK}"
            )
        return [int(probe.getsockname()[1]) for probe in held]
    finally:
        for probe in held:
            probe.close()


class Node:
    """One Kafka process in combined mode (broker and controller). Not thread-safe."""

    def __init__(self, node_id: int, ports: Ports, work_dir: Path, data_dir: Path, distribution: Distribution) -> None:
        self.id = node_id
        self.ports = ports
        self.directory = work_dir / f"node-{node_id}"
        self.data_dir = data_dir
        self._work_dir = work_dir
        self._distribution = distribution
        self._supervisor: subprocess.Popen[bytes] | None = None
        self.pid: int | None = None

    def format(self, cluster_id: str) -> None:
        """Do what `kafka-storage format` does, without a JVM start (0.8 s): write a checkpoint made once by that tool,
        and the identity of this node. A directory that is already formatted stays unchanged."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        identity = self.data_dir / "meta.properties"
        if identity.exists():
            return
        checkpoint = self.data_dir / "bootstrap.checkpoint"
        checkpoint.write_bytes(self._distribution.bootstrap_checkpoint())
        identity.write_text(f"version=1\ncluster.id={cluster_id}\nnode.id={self.id}\n", "utf-8")

    def configure(self, properties: Mapping[str, str]) -> None:
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        lines = [f"{_escape(name)}={_escape(value)}" for name, value in sorted(properties.items())]
        path = self.directory / "server.properties"
        path.touch(mode=0o600)
        path.write_text("\n".join(lines) + "\n", "ascii")
        (self.directory / "log4j2.xml").write_text(LOG4J, "ascii")

    def start(self, jvm: Jvm, *, grace_seconds: float) -> None:
        """Start the process. The caller checks when it is ready."""
        if not sys.executable:
            raise EmbeddedBrokerError("sys.executable is empty, and the broker's supervisor needs a Python interpreter")
        command: list[str | Path] = [
            *(sys.executable, "-I", "-S", SUPERVISOR),
            *(str(os.getpid()), str(grace_seconds), self._work_dir, self.directory / "console.log"),
            self._distribution.java,
            f"-Xmx{jvm.heap_mb}m",
            *jvm.options,
            f"-Dpenstock.log={self.directory / 'server.log'}",
            f"-Dlog4j2.configurationFile={self.directory / 'log4j2.xml'}",
            *("-cp", self._distribution.classpath(), "kafka.Kafka", self.directory / "server.properties"),
        ]
        # A new session: Ctrl-C in the terminal must not end the broker while this process still cleans up.
        self._supervisor = subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert self._supervisor.stdout is not None
        line = self._supervisor.stdout.readline()
        if not line.strip().isdigit():
            self._close()
            raise EmbeddedBrokerError(f"node {self.id} could not be started: {self.console()}")
        self.pid = int(line)

    @property
    def running(self) -> bool:
        return self._supervisor is not None and self._supervisor.poll() is None

    def order(self, order: str) -> None:
        """Let the supervisor send a signal to the broker: stop, kill, pause or resume."""
        if self._supervisor is None:
            return
        assert self._supervisor.stdin is not None
        with contextlib.suppress(OSError):  # the broker and its supervisor have just ended
            self._supervisor.stdin.write(order.encode() + b"\n")
            self._supervisor.stdin.flush()
            if order == "pause":
                assert self._supervisor.stdout is not None
                self._supervisor.stdout.readline()  # "paused", or end of file if the broker has ended

    def wait(self, seconds: float) -> bool:
        """Wait until the process has ended and is reaped. Returns False after the time-out."""
        if self._supervisor is None:
            return True
        try:
            self._supervisor.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            return False
        self._close()
        return True

    def _close(self) -> None:
        if self._supervisor is not None:
            for pipe in (self._supervisor.stdin, self._supervisor.stdout):
                assert pipe is not None
                with contextlib.suppress(OSError):
                    pipe.close()
            self._supervisor.wait()
            self._supervisor = None
        self.pid = None

    def accepts(self) -> bool:
        """Whether the client port accepts connections."""
        with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, self.ports.client), timeout=1):
            return True
        return False

    def log(self) -> str:
        return _read(self.directory / "server.log")

    def console(self) -> str:
        return _read(self.directory / "console.log")

    def end_of_log(self, lines: int = 15) -> str:
        """The output of the JVM and the end of the log, without stack frames, for an error message."""
        log = [line for line in self.log().splitlines() if not line.startswith("\t")]
        tail = [*self.console().splitlines()[-lines:], *log[-lines:]]
        return "\n".join(f"  | {line}" for line in tail) or "  | (no log)"

    def port_was_taken(self, port: int | None = None) -> bool:
        """Whether the node ended because another process has this port; without `port`: any of its ports."""
        return f"{'' if port is None else f':{port}: '}Address already in use" in self.log() + self.console()


def wait_until(end: float, pause: float) -> bool:
    """Sleep for a pause. Returns False after the deadline (on the monotonic clock)."""
    left = end - time.monotonic()
    if left <= 0:
        return False
    time.sleep(min(pause, left))
    return True


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError:
        return ""


def _escape(text: str) -> str:
    """Escape for `java.util.Properties`: a backslash before special characters, \\u for other than ASCII."""
    out = []
    for character in text:
        if character in "\\=:#! \t":
            out.append("\\" + character)
        elif character == "\n":
            out.append("\\n")
        elif character == "\r":
            out.append("\\r")
        elif " " <= character <= "~":
            out.append(character)
        else:
            utf16 = character.encode("utf-16-be").hex()
            out += [f"\\u{utf16[at : at + 4]}" for at in range(0, len(utf16), 4)]
    return "".join(out)
