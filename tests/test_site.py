"""The documentation site: it builds without a warning, and loads nothing from the network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(path)]
    built = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return path


def test_every_page_is_built_and_in_the_menu(site: Path) -> None:
    menu = (site / "index.html").read_text()
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
        assert (site / name).is_file(), name
        assert f'href="{name}"' in menu or name == "index.html", f"{name}: add it to mkdocs.yml"


def test_nothing_is_loaded_from_the_network(site: Path) -> None:
    loads = r"""<(?:script|img|iframe|link)\b[^>]*?\b(?:src|href)=["']?(?:https?:)?//[^\s"'>]+"""
    for page in site.rglob("*.html"):
        found = [tag for tag in re.findall(loads, page.read_text()) if "canonical" not in tag]
        assert not found, (page, found)


def test_the_reference_comes_from_docstrings(site: Path) -> None:
    text = re.sub(r"<[^>]+>", "", (site / "api.html").read_text())
    assert "Train on a goal env and return the run." in text
    assert "Updates of the learner per env step." in text


def test_code_that_is_included_is_there(site: Path) -> None:
    text = re.sub(r"<[^>]+>", "", (site / "your-env.html").read_text())
    assert "class Boat(gym.Env):" in text
    assert not [page for page in site.rglob("*.html") if re.search("--8 ?&lt;", page.read_text())]
