"""Reading the command line: options by tyro, env arguments by name, mistakes as one line."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import io
import re
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from hindsight.errors import HindsightError, nearest
from hindsight.schedules import Schedule
from hindsight.settings import flatten

T = TypeVar("T")


def parse(kind: type[T], arguments: Sequence[str], prog: str, default: T | None = None) -> T:
    """Parse with tyro; its boxed errors become one line, misspelt options get the nearest name."""
    errors = io.StringIO()
    try:
        with _registry(), contextlib.redirect_stderr(errors):
            options: dict[str, Any] = {} if default is None else {"default": default}
            parsed: T
            parsed, unknown = tyro.cli(
                kind,
                args=list(arguments),
                prog=prog,
                return_unknown_args=True,
                config=(tyro.conf.AvoidSubcommands,),
                **options,
            )
    except SystemExit as stop:
        if not stop.code:
            raise
        raise HindsightError(f"{_unboxed(errors.getvalue())} (see {prog} --help)") from None
    if unknown:
        names = flatten(parsed) if dataclasses.is_dataclass(parsed) else {}
        known = ["--" + name.removeprefix("settings.").replace("_", "-") for name in names]
        raise HindsightError(f"unknown option {unknown[0]!r}.{nearest(unknown[0], known)} (see {prog} --help)")
    return parsed


@contextlib.contextmanager
def needs_report() -> Iterator[None]:
    """Around imports that only the report extra has."""
    try:
        yield
    except ImportError as error:
        raise HindsightError(f"{error.name} is not installed: pip install 'hindsight-rl[report]'") from None


def _registry() -> ConstructorRegistry:
    """Teaches tyro to read schedules."""
    registry = ConstructorRegistry()

    @registry.primitive_rule
    def schedule(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Schedule] | None:
        if info.type is not Schedule:
            return None
        return PrimitiveConstructorSpec(
            nargs=1,
            metavar="SCHEDULE",
            instance_from_str=lambda args: Schedule.parse(args[0]),
            is_instance=lambda value: isinstance(value, Schedule),
            str_from_instance=lambda value: [str(value)],
        )

    return registry


def _unboxed(text: str) -> str:
    """The message in one of tyro's boxes, drawn in UTF-8 or ASCII, on one line: what stands between its first rules."""
    paragraphs: list[list[str]] = [[]]
    for line in text.splitlines():
        inner = line.strip("│ ")
        if (inner and set(inner) <= set("─-")) or inner.startswith(("╭", "╰")):
            paragraphs.append([])
        elif inner:
            paragraphs[-1].append(inner)
    return " ".join(paragraphs[1]) if len(paragraphs) > 1 else "cannot read the options"


def take_env_kwargs(arguments: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """Split off `--env.NAME VALUE` and `--env.NAME=VALUE`."""
    rest: list[str] = []
    kwargs: dict[str, Any] = {}
    queue = list(arguments)
    while queue:
        token = queue.pop(0)
        if not token.startswith("--env."):
            rest.append(token)
            continue
        name, equals, value = token.removeprefix("--env.").partition("=")
        if not equals and not queue:
            raise HindsightError(f"--env.{name} needs a value")
        value = value if equals else queue.pop(0)
        try:
            kwargs[name.replace("-", "_")] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            kwargs[name.replace("-", "_")] = value
    return rest, kwargs


def env_argument(arguments: Sequence[str]) -> str | None:
    """The env id among the arguments: the first one if it is no option, else whatever looks like an id."""
    if arguments and not arguments[0].startswith("-"):
        return arguments[0]
    return next((a for a in arguments if re.fullmatch(r"[\w:./-]+-v\d+", a) and not a.startswith("-")), None)


def option(arguments: Sequence[str], name: str) -> str | None:
    """The value of an option, before the full parse."""
    for i, token in enumerate(arguments):
        if token.startswith(name + "="):
            return token.partition("=")[2]
        if token == name and i + 1 < len(arguments):
            return arguments[i + 1]
    return None


def take_option(arguments: Sequence[str], name: str) -> tuple[list[str], str | None]:
    """Split off `NAME VALUE` or `NAME=VALUE`."""
    value = option(arguments, name)
    rest: list[str] = []
    skip = False
    for token in arguments:
        if skip or token == name or token.startswith(name + "="):
            skip = token == name and not skip
            continue
        rest.append(token)
    if value is None and len(rest) < len(arguments):
        raise HindsightError(f"{name} needs a value")
    return rest, value
