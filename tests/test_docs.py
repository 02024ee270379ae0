"""Links of the documentation lead somewhere, and its commands exist."""

import importlib.util
import pathlib
import re

import pytest

from vit_jax.config import load_config_file
from vit_jax.config.settings import FIELDS

ROOT = pathlib.Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
PAGES += (ROOT / "experiments").rglob("*.md")
PAGES += (ROOT / "experiments").glob("*.ipynb")


def anchors(page):
    """The anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_and_commands(page):
    text = page.read_text(encoding="utf-8")
    links = re.findall(r"\]\(\s*([^)\s]+)\)", text) + re.findall(r'src="([^"]+)"', text)
    for link in links:
        target, _, anchor = link.partition("#")
        if target.startswith("https:"):
            continue
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), link
        assert not anchor or anchor in anchors(file), link
    for module in re.findall(r"python -m ((?:vit_jax|experiments)[\w.]*\w)", text):
        assert importlib.util.find_spec(module), module
    for key in re.findall(r"--config\.([a-z][\w.]*)=", text):
        key = re.sub(r"^stages\.\d+\.", "", key)
        assert key in FIELDS or key == "group.name", key
    for config in re.findall(r"--config=(configs/[\w/.]+(?::\w+)?)", text):
        load_config_file(config)
    for command in re.findall(r"vit_jax\.explore( (?:[^`\\\n]|\\\s)*)", text):
        assert not ("--run=" in command and "--config" in command), command


@pytest.mark.parametrize(
    "name", sorted(p.stem for p in (ROOT / "docs/figures").iterdir())
)
def test_every_picture_of_the_gallery_is_shown_and_named(name):
    text = (ROOT / "docs" / "figures.md").read_text(encoding="utf-8")
    assert f"](figures/{name}.png)" in text
    assert (
        name == "prediction" or f"`{name.replace('cat_dog', 'TRUE_PREDICTED')}`" in text
    )


def test_every_promise_is_kept_by_a_test():
    text = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    named = re.findall(r"`(test_\w+)`", text)
    assert len(named) > 30
    for name in named:
        assert f"def {name}(" in tests, name


def test_the_readme_is_short():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 150
