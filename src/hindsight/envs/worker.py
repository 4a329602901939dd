"""A worker process: steps its share of the envs for `WorkerEnvs`. Started with the file descriptor of its pipe."""

from __future__ import annotations

import pickle
import sys
import traceback
from multiprocessing.connection import Connection

from hindsight.envs.batch import LocalEnvs
from hindsight.errors import HindsightError


def main() -> None:
    pipe = Connection(int(sys.argv[1]))
    try:
        make_env, num_envs, max_episode_steps = pickle.loads(pipe.recv_bytes())
        envs = LocalEnvs(make_env, num_envs, max_episode_steps)
        pipe.send(("ready", None))
        while True:
            method, arguments = pipe.recv()
            pipe.send(("answer", getattr(envs, method)(*arguments)))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # the main process has closed the pipe, or is gone
    except HindsightError as error:
        pipe.send(("error", str(error)))
    except Exception:
        pipe.send(("crash", traceback.format_exc()))


if __name__ == "__main__":
    main()
