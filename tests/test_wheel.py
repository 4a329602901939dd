"""The wheel has what it needs and nothing else, and works in an empty venv, away from the
repository."""

from __future__ import annotations

import email
import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("dist")
    copy = path / "source"  # so that nothing is left in the repository
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(path), str(copy)]
    subprocess.run(command, check=True, capture_output=True)
    return next(path.glob("*.whl"))


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
    package = ROOT / "src" / "hindsight"
    for path in package.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            assert path.relative_to(package.parent).as_posix() in names, "see package-data"
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {
        "hindsight",
        "hindsight_rl",
    }


def test_the_page_of_extras_has_all_of_them(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        name = next(name for name in opened.namelist() if name.endswith("METADATA"))
        metadata = email.message_from_bytes(opened.read(name))
    page = (ROOT / "docs" / "install.md").read_text()
    cells = re.findall(r"^\| (`.*?) \|", page, re.M)
    listed = {name for cell in cells for name in re.findall(r"`([a-z0-9-]+)`", cell)}
    extras = set(metadata.get_all("Provides-Extra", []))
    assert extras == listed, "docs/install.md says what every extra adds"


@pytest.mark.slow
def test_it_works_in_an_empty_venv(wheel: Path, tmp_path: Path) -> None:
    """As a newcomer meets it: first without extras, then with those for the page."""
    venv, pip = tmp_path / "venv", ("-m", "pip", "-qq", "--disable-pip-version-check", "install")
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)

    def install(what: str) -> None:
        constraints = ("-c", str(ROOT / "constraints.txt"))
        subprocess.run([str(venv / "bin" / "python"), *pip, *constraints, what], check=True)

    def call(command: str) -> tuple[int, str]:
        arguments = [str(venv / "bin" / "hindsight"), *command.split()]
        done = subprocess.run(
            arguments, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
        )
        assert "Traceback" not in done.stderr
        return done.returncode, done.stdout + done.stderr

    install(str(wheel))
    train = "train hindsight/BitFlip-v0 --env.bits 4 --steps 2000 --run-dir bits --quiet"
    assert call(train) == (0, "")
    code, shown = call("eval bits --episodes 50 --json")
    assert code == 0
    assert json.loads(shown)["success_rate"] > 0.5
    assert call("doctor")[0] == 0
    for command in ("plot bits", "report bits", "watch bits", "sweep hindsight/BitFlip-v0"):
        code, shown = call(command)
        assert (code, len(shown.splitlines())) == (2, 1), shown
        assert "hindsight-rl[report]" in shown
    code, shown = call("train FetchReach-v4")
    assert code == 2
    assert "hindsight-rl[robotics]" in shown

    install(f"{wheel}[report]")
    assert call("report bits -o page.html")[0] == 0
    assert "BitFlip" in (tmp_path / "page.html").read_text()
    assert call("watch bits -o video.mp4")[0] == 0
    for command in ("reproduce --list", "reproduce push"):
        code, shown = call(command)
        assert (code, len(shown.splitlines())) == (2, 1)
        assert "clone the Hindsight repository" in shown
