"""A worker process: steps its share of the envs for `WorkerEnvs`. Started with the file descriptor
of its pipe.

Every request has a number, and its answer bears it. When the pipe closes, the envs are closed
and the process ends; if they hang, it ends all the same, with whatever processes they have
started: nothing outlives the main process.
"""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from multiprocessing.connection import Connection

from hindsight.envs.batch import LocalEnvs
from hindsight.errors import HindsightError

PATIENCE = 5.0
"""Seconds that envs have to close themselves when the main process has gone."""
GRACE = 10
"""Seconds after the main process should have ended us, before the system does."""


def main() -> None:
    pipe = Connection(int(sys.argv[1]))
    threading.Thread(target=_end_with_parent, args=(pipe.fileno(),), daemon=True).start()
    envs: LocalEnvs | None = None
    number = 0
    try:
        make_env, num_envs, max_episode_steps, timeout, start_seconds = pickle.loads(
            pipe.recv_bytes()
        )
        with _limited(start_seconds):
            envs = LocalEnvs(make_env, num_envs, max_episode_steps)
        pipe.send((number, "ready", None))
        while True:
            number, method, arguments = pipe.recv()
            with _limited(timeout):
                answer = getattr(envs, method)(*arguments)
            pipe.send((number, "answer", answer))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the main process has closed the pipe, or is gone
    except HindsightError as error:
        pipe.send((number, "error", str(error)))
    except Exception:
        pipe.send((number, "crash", traceback.format_exc()))
    finally:
        if envs is not None:
            with contextlib.suppress(Exception), _limited(PATIENCE):
                envs.close()


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """The system ends this process if it takes much longer than the main process waits, which
    may be gone. It needs no help from Python, which a simulator that hangs does not let run."""
    signal.alarm(min(math.ceil(seconds) + GRACE, 2**31 - 1))
    try:
        yield
    finally:
        signal.alarm(0)


def _end_with_parent(descriptor: int) -> None:
    """End this process group some seconds after the other end of the pipe has been closed."""
    poll = select.poll()
    poll.register(descriptor, 0)  # a hang-up is told without being asked for
    poll.poll()
    time.sleep(PATIENCE)
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


if __name__ == "__main__":
    main()
