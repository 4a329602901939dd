"""The command line: one tyro program of subcommands; every HindsightError becomes one line and
exit code 2."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn, Union

from tyro.conf import subcommand

from hindsight.commands.export import Export
from hindsight.commands.machine import Demo, Doctor, Envs
from hindsight.commands.runs import Eval, Resume, Verify, Watch
from hindsight.commands.study import Compare, Plot, Report, Reproduce, Sweep
from hindsight.commands.train import Train, what_presets_reach
from hindsight.commands.tune import Tune
from hindsight.errors import HindsightError, nearest, say
from hindsight.options import parse, refuse_unknown
from hindsight.training.conditions import fix_threads

COMMANDS: dict[str, tuple[Any, str]] = {
    "train": (Train, "train on a goal env"),
    "resume": (Resume, "resume a stopped run"),
    "verify": (Verify, "check every file of a run"),
    "eval": (Eval, "evaluate a run's policy on fresh episodes"),
    "watch": (Watch, "video (or window) of a run's policy"),
    "export": (Export, "a run's policy as an ONNX file, its episodes as a dataset"),
    "compare": (Compare, "runs compared, as a table and in plain words"),
    "report": (Report, "the same as one page, with curves and videos"),
    "sweep": (Sweep, "train settings x seeds side by side"),
    "tune": (Tune, "search for better settings"),
    "plot": (Plot, "learning curves of runs"),
    "reproduce": (Reproduce, "the paper's tables and figures, and ours"),
    "envs": (Envs, "list the goal envs"),
    "doctor": (Doctor, "check the installation or an env"),
    "demo": (Demo, "train and evaluate a Fetch arm, with a video"),
}
TAKES_SETTINGS = (Train, Sweep, Tune, Doctor)
"""Commands that read further arguments themselves: settings by dotted name, arguments of an env."""
ELSEWHERE = {
    "list": "envs",
    "ls": "envs",
    "evaluate": "eval",
    "test": "eval",
    "enjoy": "watch",
    "play": "watch",
    "render": "watch",
    "video": "watch",
    "continue": "resume",
    "check": "verify",
    "learn": "train",
    "run": "train",
    "help": "--help",
    "version": "--version",
    "bench": "python -m benchmarks, in the repository",
    "bound": "reproduce bound",
    "optimize": "tune",
    "onnx": "export",
    "deploy": "export",
}
"""What a command may be called elsewhere, and what it is called here."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    warnings.showwarning = _one_line_warning
    fix_threads()
    try:
        sys.exit(_dispatch(arguments))
    except HindsightError as error:
        say(str(error))
        sys.exit(2)
    except BrokenPipeError:  # whoever read our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (OSError, MemoryError, OverflowError) as error:
        say(f"{type(error).__name__}: {' '.join(str(error).split())}")
        sys.exit(2)
    except RuntimeError as error:
        if type(error).__name__ != "JaxRuntimeError" or "memory" not in str(error).lower():
            raise
        say(f"not enough memory: {' '.join(str(error).split())}")
        sys.exit(2)
    except KeyboardInterrupt as interrupt:
        say(interrupt.args[0] if interrupt.args else "interrupted")
        sys.exit(130)


def _dispatch(arguments: list[str]) -> int:
    if arguments[:1] == ["--version"]:
        from hindsight import __version__

        print(f"hindsight {__version__}")
        return 0
    arguments = arguments or ["--help"]
    name = arguments[0]
    if not name.startswith("-") and name not in COMMANDS:
        known = (
            f" Did you mean {ELSEWHERE[name]!r}?" if name in ELSEWHERE else nearest(name, COMMANDS)
        )
        raise HindsightError(f"unknown command {name!r}.{known} (see hindsight --help)")
    prog = "hindsight" if name.startswith("-") else f"hindsight {name}"
    command, more = parse(_program(arguments), arguments, "hindsight", shown=prog)
    if not isinstance(command, TAKES_SETTINGS):
        refuse_unknown(more, vars(command), prog)
    found: int = command.run(more)
    return found


def _program(arguments: Sequence[str]) -> Any:
    """All commands as tyro's subcommands."""
    kinds = []
    for name, (kind, summary) in COMMANDS.items():
        text = summary if not {"-h", "--help"} & set(arguments[1:]) else kind.__doc__
        if kind is Train:
            text = f"{text} {what_presets_reach(arguments)}"
        kinds.append(Annotated[kind, subcommand(name, description=text)])
    return Union[tuple(kinds)]  # noqa: UP007  (made at run time)


def _one_line_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    say(f"warning: {message}")


if __name__ == "__main__":
    main()
