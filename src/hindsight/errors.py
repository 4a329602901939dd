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


def needs_report() -> contextlib.AbstractContextManager[None]:
    """Around imports that only the report extra has."""
    return needs("report")


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
