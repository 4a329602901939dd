"""The one exception that is the user's to fix: its message is a single line saying what is wrong
and what to do."""

from __future__ import annotations

import contextlib
import difflib
import sys
from collections.abc import Iterable, Iterator


class HindsightError(ValueError):
    """Something the user can put right. The command line prints it as one line and exits with
    code 2."""


class EnvFailed(HindsightError):
    """The env's own code raised an error: the cause of this one. A run keeps its traceback."""


@contextlib.contextmanager
def of_the_env(what: str) -> Iterator[None]:
    """Around calls of an env's own code: what it raises becomes EnvFailed, in one line."""
    try:
        yield
    except HindsightError:
        raise
    except Exception as error:
        raise EnvFailed(f"{what} raised {one_line(error)}") from error


def one_line(error: BaseException) -> str:
    """An error as its type and its text, on one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def nearest(name: str, known: Iterable[str]) -> str:
    """' Did you mean X?' when one of the known names is close to `name`, else an empty string."""
    matches = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f" Did you mean {matches[0]!r}?" if matches else ""


@contextlib.contextmanager
def needs(extra: str) -> Iterator[None]:
    """Around imports of what only this extra installs."""
    try:
        yield
    except ImportError as error:
        raise HindsightError(
            f"{error.name} is not installed: pip install 'hindsight-rl[{extra}]'"
        ) from None


def printable(text: str) -> str:
    """The text on one line, with control characters (which could rewrite a terminal) shown, not
    obeyed."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def say(text: str) -> None:
    """A line on stderr. That nobody can read it (a full disk, a closed terminal) is no reason to
    stop."""
    with contextlib.suppress(
        OSError, ValueError, RuntimeError
    ):  # the last: a signal came while another was written
        print(f"hindsight: {printable(text)}", file=sys.stderr, flush=True)
