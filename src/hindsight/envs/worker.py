"""A worker process: steps its share of the envs for `WorkerEnvs`. Started with the file descriptor of its pipe."""

from __future__ import annotations

import pickle
import sys
import traceback
from dataclasses import fields
from multiprocessing.connection import Connection

from hindsight.envs.batch import Frame, LocalEnvs
from hindsight.errors import HindsightError


def main() -> None:
    pipe = Connection(int(sys.argv[1]))
    try:
        make_env, num_envs, max_episode_steps = pickle.loads(pipe.recv_bytes())
        envs = LocalEnvs(make_env, num_envs, max_episode_steps)
        pipe.send(("ready", None))
        while True:
            method, rows = pipe.recv()
            frame: Frame = getattr(envs, method)(rows)
            pipe.send(("frame", tuple(getattr(frame, f.name) for f in fields(frame))))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # the main process has closed the pipe, or is gone
    except HindsightError as error:
        pipe.send(("error", str(error)))
    except Exception:
        pipe.send(("crash", traceback.format_exc()))


if __name__ == "__main__":
    main()
