"""Links of the documentation lead somewhere, and its commands exist."""

import importlib.util
import pathlib
import re

import numpy as np
import pytest

from experiments.draw_records import folders
from vit_jax.config import load_config_file
from vit_jax.config.settings import FIELDS
from vit_jax.files import read_json
from vit_jax.metrics.paired import mean_and_std, seed_difference

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


def accuracies(*names):
    """Test accuracy in % of each of these records and of its other seeds."""
    results = [read_json(file / "results.json") for n in names for file in folders(n)]
    return np.array([100 * one["test"]["accuracy"] for one in results])


def spread(values):
    return "{:.2f} ± {:.2f}%".format(*mean_and_std(values))


@pytest.mark.parametrize(
    ("vit", "resnet"),
    [
        ("vit_cifar_fast_muon", "resnet_cifar_fast_muon"),
        ("vit_cifar_fast", "resnet_cifar_fast_5900_steps"),
        ("vit_laptop_hour_cosine", "resnet_laptop_small_hour_muon_plain"),
        ("vit_laptop_quick_cosine", "resnet_laptop_small_quick_muon"),
    ],
)
def test_the_readmes_leads_are_those_of_the_records(vit, resnet):
    a, b = accuracies(vit), accuracies(resnet)
    lead = "{:.2f} ({:.2f} to {:.2f})".format(*seed_difference(a, b)).replace("-", "−")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (row,) = [x for x in text.splitlines() if spread(a) in x and spread(b) in x]
    assert row.endswith(f"| {len(a)} | {lead} |")


def test_the_readmes_longest_trainings_on_a_cpu_are_those_of_the_records():
    names = "vit_laptop_long_plain", "resnet_laptop_small_long_plain"
    (a,), (b,) = map(accuracies, names)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (row,) = [line for line in text.splitlines() if f"| {a:.2f}% |" in line]
    assert f"| {b:.2f}% | 1 | {a - b:.2f} (".replace("-", "−") in row
    for with_policy in ("vit_laptop_long", "resnet_laptop_small_long"):
        assert f"(with TrivialAugment: {accuracies(with_policy)[0]:.2f}%)" in row


@pytest.mark.parametrize(
    "name",
    [
        "vit_192x9", "vit_192x9_resnet18", "vit_128x6", "vit_128x6_sinusoidal",
        "vit_192x12_resnet18", "vit_256x6_baseline", "vit_256x6",
    ],
)  # fmt: skip
def test_the_accuracies_of_the_studies_are_those_of_the_records(name):
    accuracy = f"{accuracies(name)[0]:.2f}%"
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (row,) = [line for line in text.splitlines() if line.startswith(f"| `{name}` |")]
    assert f"| {accuracy} |" in row
    assert accuracy in (ROOT / "docs" / "systems.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "pages"),
    [
        ("vit_digits", ["README.md"]),
        *[
            (f"transfer/{kind}-s{{}}", ["README.md", "docs/finetuning.md"])
            for kind in ("scratch", "cifar100", "masked", "distilled")
        ],
    ],
)
def test_means_over_seeds_are_those_of_the_records(name, pages):
    names = [name.format(seed) for seed in range(3)] if "{}" in name else [name]
    for page in pages:
        text = (ROOT / page).read_text(encoding="utf-8")
        assert spread(accuracies(*names)) in re.sub(r"\s+", " ", text), page
