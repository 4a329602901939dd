"""What README and docs tell the reader to type works: commands parse, programs run, names exist."""

from __future__ import annotations

import ast
import importlib
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hindsight
from hindsight import api
from hindsight.agents.registry import AGENTS, OFF_POLICY
from hindsight.cli import COMMANDS, _program
from hindsight.commands.machine import Doctor
from hindsight.commands.study import Reproduce, Sweep
from hindsight.commands.train import Train, read
from hindsight.commands.tune import Tune
from hindsight.config import config_of
from hindsight.lab.reproduce import folder
from hindsight.options import parse, refuse_unknown, take_env_kwargs
from hindsight.settings import flatten

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
SOURCE = "\n".join(path.read_text() for path in sorted((ROOT / "src").rglob("*.py")))
EXAMPLES = {
    "ENV": "hindsight/BitFlip-v0",
    "MyEnv-v0": "hindsight/BitFlip-v0",
    "my_module:MyEnv-v0": "hindsight/BitFlip-v0",
    "X": "hindsight/BitFlip-v0",
    "NAME": "dqn",
    "S": "0",
    "N": "2",
    "m": "4",
    "SECONDS": "10",
}
"""What a reader puts in the place of words that only stand for something."""


INCLUDED = "--8<--"  # from a file that has tests of its own


def fences(text: str, *languages: str) -> list[str]:
    """The blocks of code of some languages."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", text, re.S | re.M)
    return [c for language, c in blocks if language in languages and not c.startswith(INCLUDED)]


def commands(text: str, program: str) -> Iterator[list[str]]:
    """The arguments of every call of a program, in blocks of shell commands and in the text."""
    blocks = "\n".join(fences(text, "bash", "sh", "console", "")).replace("\\\n", " ")
    paragraphs = re.sub(r"(?ms)^```.*?^```", "", text).split("\n\n")
    spans = [span for part in paragraphs for span in re.findall(r"`([^`]+)`", part)]
    for line in [*blocks.splitlines(), *(span.replace("\n", " ") for span in spans)]:
        if line.startswith(f"{program} ") and not re.search(r"\.\.\.|…|[<>|]", line):
            yield [EXAMPLES.get(word, word) for word in shlex.split(line, comments=True)[1:]]


DESCRIBED: dict[str, Any] = {}


@pytest.fixture
def described_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each env is made and inspected once, not for every command."""
    describe = api.describe

    def once(env: Any, make_env: Any, *more: Any) -> Any:
        key = repr((env, make_env.kwargs, *more))
        if key not in DESCRIBED:
            DESCRIBED[key] = describe(env, make_env, *more)
        return DESCRIBED[key]

    monkeypatch.setattr(api, "describe", once)


def check(arguments: list[str]) -> None:
    """Read a command line as far as the program does before it begins to work."""
    shown = f"hindsight {arguments[0]}"
    command, more = parse(_program(arguments), arguments, "hindsight", shown=shown)
    if isinstance(command, Train | Tune):
        if command.config is None:
            read(command, more, shown)
    elif isinstance(command, Sweep):
        if command.config is None:
            read(command._train_options(), more, shown)
    else:
        if isinstance(command, Doctor):
            more = take_env_kwargs(more)[0]
        refuse_unknown(more, vars(command), shown)
    if isinstance(command, Reproduce):
        for name in {*command.names} - {"all", EXAMPLES["NAME"]}:
            folder.find()[name]


@pytest.mark.usefixtures("described_once")
@pytest.mark.parametrize("name", NAMES)
def test_every_command_can_be_read(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    if name == "docs/changelog.md":
        return
    for arguments in commands((ROOT / name).read_text(), "hindsight"):
        if len(arguments) == 1 or arguments[:2] == ["sweep", "--jobs"]:  # only named
            assert arguments[0] in (*COMMANDS, "--version"), arguments
            continue
        try:
            check(arguments)
        except SystemExit as stop:
            if stop.code:  # else it is --help or the like
                raise
        except ValueError as error:
            if "pip install 'hindsight-rl[envs]'" in str(error):  # it is read where they are
                continue
            raise AssertionError(f"hindsight {shlex.join(arguments)}: {error}") from error


@pytest.mark.parametrize("name", NAMES)
def test_every_make_target_and_program_is_there(name: str) -> None:
    text, makefile = (ROOT / name).read_text(), (ROOT / "Makefile").read_text()
    for arguments in commands(text, "make"):
        assert re.search(rf"^{arguments[0]}:", makefile, re.M), arguments
    for arguments in commands(text, "python"):
        if arguments[0].startswith("examples/"):
            assert (ROOT / arguments[0]).is_file(), arguments
        if arguments[:2] == ["-m", "benchmarks"] and arguments[2:] not in ([], ["WHAT"]):
            assert (ROOT / "benchmarks" / f"{arguments[2]}.py").is_file(), arguments


@pytest.mark.parametrize("name", NAMES)
def test_every_program_compiles_and_what_it_imports_exists(name: str) -> None:
    for program in fences((ROOT / name).read_text(), "python"):
        for node in ast.walk(ast.parse(program)):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("hindsight"):
                if node.module == "hindsight.integrations.sb3":
                    pytest.importorskip("sb3_contrib")
                module = importlib.import_module(str(node.module))
                assert all(hasattr(module, alias.name) for alias in node.names), node.module
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                known = node.value.id != "hindsight" or hasattr(hindsight, node.attr)
                assert known or importlib.util.find_spec(f"hindsight.{node.attr}"), node.attr


@pytest.mark.parametrize("name", NAMES)
def test_every_option_exists(name: str) -> None:
    """Also those that stand alone in the text: `--agent.normalize`."""
    if name == "docs/changelog.md":
        return
    settings = {setting for method in AGENTS for setting in flatten(config_of(method, ""))}
    groups = {setting.partition(".")[0] for setting in settings if "." in setting}
    for option in re.findall(r"`--([a-z]+\.[a-z0-9.-]+)", (ROOT / name).read_text()):
        group, _, setting = option.replace("-", "_").partition(".")
        assert group in {*groups, "env"}, option
        no_more = f"{group}.{setting.removeprefix('no_')}"
        assert group == "env" or {f"{group}.{setting}", no_more} & settings, option


@pytest.mark.parametrize("name", NAMES)
def test_every_metric_exists(name: str) -> None:
    for metric in re.findall(
        r"`(?:eval|train|learn|replay|time)/(\w+)`", (ROOT / name).read_text()
    ):
        stem = re.sub(r"_\d$", "_", metric)
        if name != "docs/changelog.md":
            assert re.search(rf"[\"']({metric}|\w+/{stem}|{stem})|/{stem}", SOURCE), metric


def test_the_page_of_commands_has_every_command() -> None:
    listed = re.findall(r"^\| `hindsight (\w+)", (DOCS / "commands.md").read_text(), re.M)
    assert sorted(listed) == sorted(COMMANDS)


def test_the_replay_example_learns(capsys: pytest.CaptureFixture[str]) -> None:
    program = fences((DOCS / "replay.md").read_text(), "python")[0]
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(program, "docs/replay.md", "exec"), names)
    first, last = (float(x) for x in re.findall(r"0?\d\.\d\d", capsys.readouterr().out))
    assert first < 0.5
    assert last > 0.9


def test_the_first_program_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As it is in the quickstart, but for fewer steps."""
    monkeypatch.chdir(tmp_path)
    program = fences((DOCS / "quickstart.md").read_text(), "python")[0]
    assert "steps=10_000" in program
    program = program.replace("steps=10_000", "steps=400")
    exec(compile(program, "docs/quickstart.md", "exec"), {"__name__": "example"})
    assert capsys.readouterr().out.splitlines()[-1] in ("success", "failure")


LEARNERS = {"ddpg": "ddpg-td3", "td3": "ddpg-td3", "replayed-ac": "algorithms-off-policy"}
"""Pages of learners; the others have one of their own name."""


@pytest.mark.parametrize("method", OFF_POLICY)
def test_the_pages_of_off_policy_learners_name_settings_that_they_have(method: str) -> None:
    page = (DOCS / f"{LEARNERS.get(method, method)}.md").read_text()
    sections = {
        part.partition("\n")[0].lower(): part for part in re.split("^## ", page, flags=re.M)
    }
    section = sections[method] if method in LEARNERS else page
    names = re.findall(r"--(agent\.[a-z0-9-]+)", section)
    assert names
    assert {name.replace("-", "_") for name in names} <= set(flatten(config_of(method, "")))
    assert "**TD error**" in section


def test_the_relay_example_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Within a cycle; in 100,000 steps it learns, which a slow test shows."""
    monkeypatch.chdir(tmp_path)
    relay_example(steps=400)


@pytest.mark.slow
def test_the_relay_example_learns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    run = relay_example()
    assert run.summary["success_rate"] > 0.8


def relay_example(steps: int | None = None) -> Any:
    program = re.findall(r"```python\n(.*?)```", (DOCS / "relay-goals.md").read_text(), re.S)[0]
    if steps is not None:
        program = program.replace("steps=100_000", f"steps={steps}")
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(program, "docs/relay-goals.md", "exec"), names)
    return names["run"]


def test_the_readme_is_short_and_its_picture_small() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 100
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", text)
    assert any(name.endswith(".gif") for name in pictures)
    assert all((ROOT / name).stat().st_size < 2_000_000 for name in pictures)
    for link in re.findall(r"\]\((?!http)([^)#]+)", text):
        assert (ROOT / link).exists(), link


def test_the_settings_that_stable_baselines3_has_by_other_names_exist() -> None:
    text = (DOCS / "stable-baselines3.md").read_text()
    rows = re.findall(r"^\| .* \| (.*) \|$", text.partition("## All of Hindsight")[2], re.M)
    settings = {setting for method in OFF_POLICY for setting in flatten(config_of(method, ""))}
    names = [name for row in rows for name in re.findall(r"`([a-z_.]+)`", row)]
    assert len(names) > 15
    assert {*names} <= settings
