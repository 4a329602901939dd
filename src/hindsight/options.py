"""Reading the command line with tyro: mistakes as one line, env arguments by name."""

from __future__ import annotations

import ast
import contextlib
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from hindsight.errors import HindsightError
from hindsight.schedules import Schedule
from hindsight.settings import meant

_KINDS = {"INT": "a whole number", "FLOAT": "a number"}


def parse(
    kind: Any, arguments: Sequence[str], prog: str, default: Any = None, shown: str = ""
) -> tuple[Any, list[str]]:
    """What tyro makes of the arguments, and those that it does not know; its boxed errors become
    one line."""
    errors = io.StringIO()
    more: dict[str, Any] = {} if default is None else {"default": default}
    try:
        with _registry(), contextlib.redirect_stderr(errors):
            parsed, unknown = tyro.cli(
                kind,
                args=list(arguments),
                prog=prog,
                return_unknown_args=True,
                config=(tyro.conf.AvoidSubcommands,) if default is not None else (),
                **more,
            )
    except SystemExit as stop:
        if not stop.code:
            raise
        raise HindsightError(
            f"{_one_line(errors.getvalue(), arguments)} (see {shown or prog} --help)"
        ) from None
    return parsed, unknown


def refuse_unknown(unknown: Sequence[str], known: Mapping[str, Any], prog: str) -> None:
    """Raise HindsightError for the first option that nobody knows, with the nearest that
    somebody does."""
    if unknown:
        name = unknown[0].partition("=")[0]
        found = meant(name.lstrip("-"), known)
        found = re.sub(r"'(.*)'", lambda match: "--" + match[1].replace("_", "-"), found)
        raise HindsightError(f"unknown option {name!r}.{found} (see {prog} --help)")


def setting_of(token: str) -> str:
    """The dotted name of the setting that an option of the command line changes; of `--agent.goals`
    and `--agent.goals=8`: agent.goals, and of `--agent.no-spread`: agent.spread."""
    name = token.partition("=")[0].removeprefix("--").replace("-", "_")
    return re.sub(r"(^|\.)no_", r"\1", name)


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


def _one_line(text: str, arguments: Sequence[str]) -> str:
    """The message in one of tyro's boxes, drawn in UTF-8 or ASCII, in plain words on one line."""
    paragraphs: list[list[str]] = [[]]
    for line in text.splitlines():
        inner = line.strip("│| ")
        if (inner and set(inner) <= set("─-")) or inner.startswith(("╭", "╰", "+")):
            paragraphs.append([])
        elif inner:
            paragraphs[-1].append(inner)
    message = " ".join(paragraphs[1]) if len(paragraphs) > 1 else "cannot read the options"
    wrong = re.search(r"parsing (--[\w.-]+)", message)
    if wrong is None:
        without = re.match(r"Missing value for argument '(--[\w.-]+)'", message)
        if without is not None:
            return f"{without[1]} needs a value"
        missing = re.match(r"Missing from .*?: (\S+)", message)
        if missing is not None:
            return f"{missing[1]} is missing"
        return re.sub(r"^Error parsing \w+: ", "", message).rstrip(".")
    reason = message.partition(f"{wrong[1]}: ")[2]
    if reason and not reason.startswith(("no type", "invalid literal", "could not convert")):
        return f"{wrong[1]}: {reason}"
    helptext = " ".join(" ".join(part) for part in paragraphs[2:])
    metavar = re.search(re.escape(wrong[1]) + r"\s+((?:\{None\}\|)?(?:\{[^}]*\}|\S+))", helptext)
    given, expected = _given(wrong[1], arguments), _expected(metavar[1] if metavar else "")
    return f"cannot read {wrong[1]}{given}{expected}"


def _given(name: str, arguments: Sequence[str]) -> str:
    for i, token in enumerate(arguments):
        if token.startswith(f"{name}="):
            return f" {token.partition('=')[2]!r}"
        if token == name and i + 1 < len(arguments):
            return f" {arguments[i + 1]!r}"
    return ""


def _expected(metavar: str) -> str:
    metavar = metavar.replace("{None}|", "")
    if metavar.startswith("{"):
        return f": it is one of {', '.join(metavar.strip('{}').split(','))}"
    return f": it takes {_KINDS[metavar]}" if metavar in _KINDS else ""


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
        kwargs[name.replace("-", "_")] = as_value(value)
    return rest, kwargs


def as_value(text: str) -> Any:
    """A number, true or false, a tuple, or else the text itself (names, schedules, `none`)."""
    known = {"true": True, "false": False}
    if text.lower() in known:
        return known[text.lower()]
    if text == "none":  # is a value of priority.bias_correction
        return text
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
