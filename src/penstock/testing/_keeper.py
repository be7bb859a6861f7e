"""The process between us and one broker: it takes the broker down when we are gone, however we went.

Run as a script by `node.py`, never imported. It is the broker's parent and our child. Its standard input is a
pipe whose other end only we hold:

    stop, kill, pause, resume      one order per line, each a signal to the broker; "paused" is said when it is
    end of file                    we are gone, a SIGKILL included: take the broker down, remove its directory

Standard library only, and started with `-I -S`, so it is up in some 20 ms and imports nothing of Penstock.

Why a process, and not one of the simpler ways: PR_SET_PDEATHSIG alone is Linux only and follows the *thread*
that forked, which in our process may well end before the broker should; atexit does not run on a SIGKILL; a
broker that reads a pipe itself would need code of ours inside the JVM.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import time

POLL_SECONDS = 1.0
ORDERS = {
    b"stop": signal.SIGTERM,
    b"kill": signal.SIGKILL,
    b"pause": signal.SIGSTOP,
    b"resume": signal.SIGCONT,
}


def main() -> int:
    parent = int(sys.argv[1])
    grace_seconds = float(sys.argv[2])  # 0: nothing on disk is worth a clean shutdown
    remove_after_crash = sys.argv[3]
    console = sys.argv[4]
    command = sys.argv[5:]

    # A session of its own: Ctrl-C does not come here. A SIGTERM sent to us is meant for the broker.
    for ignored in (signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    # The end of the broker is a SIGCHLD, and a signal writes a byte here: no need to poll for it.
    wake_up, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    with open(console, "ab") as output:  # noqa: PTH123
        broker = subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, preexec_fn=_die_with_parent
        )
    signal.signal(signal.SIGTERM, lambda *_: broker.terminate())
    sys.stdout.write(f"{broker.pid}\n")
    sys.stdout.flush()

    orphaned = _obey(broker, parent, wake_up)
    if orphaned:
        _take_down(broker, grace_seconds)
        if remove_after_crash:
            # With several nodes every keeper does this; the last one finds no broker writing any more.
            shutil.rmtree(remove_after_crash, ignore_errors=True)
    code = broker.wait()
    return code if code >= 0 else 128 - code


def _obey(broker: subprocess.Popen[bytes], parent: int, wake_up: int) -> bool:
    """Pass orders on until the broker ends (False) or we are orphaned (True)."""
    pending = b""
    while broker.poll() is None:
        readable, _, _ = select.select([0, wake_up], [], [], POLL_SECONDS)
        # The pipe's other end may live on in a child that our parent forked, so its pid is looked at too.
        if os.getppid() != parent:
            return True
        if 0 not in readable:
            if wake_up in readable:
                os.read(wake_up, 64)
            continue
        chunk = os.read(0, 4096)
        if not chunk:
            return True
        *orders, pending = (pending + chunk).split(b"\n")
        for order in orders:
            broker.send_signal(ORDERS[order])
            if order == b"pause":
                _await_stop(broker.pid)
                sys.stdout.write("paused\n")
                sys.stdout.flush()
    return os.getppid() != parent


def _await_stop(pid: int) -> None:
    """A signal takes its time, and a broker that still runs for a moment answers what it is asked in that moment."""
    if hasattr(os, "waitid"):  # not on macOS
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)


def _take_down(broker: subprocess.Popen[bytes], grace_seconds: float) -> None:
    if grace_seconds > 0:
        broker.send_signal(signal.SIGCONT)
        broker.terminate()
        end = time.monotonic() + grace_seconds
        while broker.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
    if broker.poll() is None:
        broker.kill()
        broker.wait()


def _die_with_parent() -> None:
    # Where Linux helps, a SIGKILL of this keeper takes the broker along. Safe here: one thread, to the end.
    if sys.platform == "linux":
        with contextlib.suppress(Exception):
            import ctypes

            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # 1 is PR_SET_PDEATHSIG


if __name__ == "__main__":
    sys.exit(main())
