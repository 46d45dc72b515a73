"""The texts describe every public name, and whatever they name exists."""

import ast
import importlib
import importlib.util
import inspect
import json
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

import gradagrad

ROOT = Path(__file__).resolve().parents[2]
DOCS, SOURCE = ROOT / "docs", ROOT / "src" / "gradagrad"
TEXTS = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")] + sorted(DOCS.glob("*.md"))
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def public_modules() -> dict[str, Path]:
    """Read, not imported: not every framework is everywhere."""
    found = {f"gradagrad.{name}": SOURCE / name / "__init__.py" for name in ("optax", "sklearn")}
    for path in sorted((SOURCE / "integrations").glob("*.py")):
        if find_spec(path.stem):  # those named after a framework; the others serve them
            found[f"gradagrad.integrations.{path.stem}"] = path
    return {"gradagrad": SOURCE / "__init__.py", "gradagrad.projections": SOURCE / "projections.py", **found}


def public_names(path: Path) -> list[str]:
    """The names of ``__all__``; without it, classes and functions made here, and names imported to be exported."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    for line in body:
        if isinstance(line, ast.Assign) and getattr(line.targets[0], "id", "") == "__all__":
            return ast.literal_eval(line.value)
    made = [line.name for line in body if isinstance(line, ast.ClassDef | ast.FunctionDef)]
    imported = [alias for line in body if isinstance(line, ast.ImportFrom) for alias in line.names]
    names = made + [alias.name for alias in imported if alias.asname == alias.name]
    return [name for name in names if not name.startswith("_")]


@pytest.mark.parametrize(("module", "path"), public_modules().items(), ids=public_modules())
def test_every_public_name_is_in_the_api(module: str, path: Path) -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in DOCS.glob("*.md"))
    described = set(re.findall(r"^\.\. auto\w+:: (\S+)", text, re.MULTILINE))
    for found, members in re.findall(r"^\.\. automodule:: (\S+)\n   :members: (.+)$", text, re.MULTILINE):
        described |= {f"{found}.{name}" for name in members.split(", ")}
    names = public_names(path)
    assert names
    assert [name for name in names if f"{module}.{name}" not in described] == []


def test_the_readme_is_short() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 110
    assert [line for line in lines if len(line) > 120] == []


@pytest.mark.parametrize("path", sorted(DOCS.glob("*.md")), ids=lambda path: path.name)
def test_a_page_is_short(path: Path) -> None:
    """Words outside of tables, code, formulas and comments."""
    other = re.compile(r"```.*?```|\$\$.*?\$\$|\$[^$\n]+\$|<!--.*?-->|^\|[^\n]*$", re.MULTILINE | re.DOTALL)
    most = {"auto.md": 900, "benchmarks.md": 1_300, "reliability.md": 900}.get(path.name, 1_500)
    assert len(other.sub("", path.read_text(encoding="utf-8")).split()) <= most


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_what_a_text_names_exists(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    missing = [link for link in links if link and not (path.parent / link).exists()]
    code = "\n".join(re.findall(r"```.*?```|`[^`]+`", text, re.DOTALL))
    files = re.findall(r"(?<![\w/.])(?:tests|examples|benchmarks|tools|docs|src|\.ci|\.github)/[\w./-]*\w", code)
    built = re.compile(r"docs/_build|benchmarks/results|\.so$")
    missing += [name for name in files if not built.search(name) and not (ROOT / name).exists()]
    inner = re.findall(r"(?<![\w/.])(?:rules|engine|csrc)/[\w.]*\w", code)
    missing += [name for name in inner if not (SOURCE / name).exists()]
    targets = re.findall(r"^([\w-]+):", MAKEFILE, re.MULTILINE)
    missing += [f"make {name}" for name in re.findall(r"\bmake ([a-z][\w-]*)", code) if name not in targets]
    modules = re.findall(r"python -m ((?:gradagrad|gradagrad_lab|benchmarks)[\w.]*\w)", code)
    missing += [name for name in modules if not find_spec(name)]
    missing += re.findall(r"@[A-Z]+@", text)  # places that were to be filled in
    assert missing == []


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_its_python_is_python_and_imports_what_there_is(path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    for block in blocks:
        if ">>>" not in block:  # `make docs` runs those
            compile(block, path.name, "exec")
        for module, names in re.findall(r"^(?:>>> )?from (gradagrad[\w.]*) import ([\w, ]+)", block, re.MULTILINE):
            if module.endswith(".torchrec") and importlib.util.find_spec("torchrec") is None:
                continue  # make torchrec runs the example, which imports the same
            loaded = importlib.import_module(module)
            assert [name for name in names.split(", ") if not hasattr(loaded, name)] == []
        for name in re.findall(r"\bgradagrad\.(\w+)\(", block):
            assert hasattr(gradagrad, name)


def test_the_readmes_example_runs() -> None:
    block = re.search(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S)
    assert block
    names: dict = {}
    exec(block[1], names)
    assert names["optimizer"].state


def test_the_recipe_for_timm_runs() -> None:
    pytest.importorskip("timm.optim", reason="timm is not installed", exc_type=ImportError)
    text = (DOCS / "integrations.md").read_text(encoding="utf-8").partition("## timm\n")[2]
    block = re.search(r"^```python\n(.*?)^```", text, re.M | re.S)
    assert block
    names: dict = {"model": torch.nn.Linear(3, 2)}
    exec(block[1], names)
    decays = [group["weight_decay"] for group in names["optimizer"].param_groups]
    assert (type(names["optimizer"]), decays) == (gradagrad.AutoGradaGrad, [0.0, 0.05])
    assert names["optimizer"].defaults["momentum"] == gradagrad.AutoGradaGrad([torch.zeros(1)]).defaults["momentum"]


RECIPES = {
    part.partition("\n")[0]: re.findall(r"^```(?:python|yaml)\n(.*?)^```", part, re.M | re.S)
    for part in (DOCS / "recipes.md").read_text(encoding="utf-8").split("\n## ")
}
FIRST = next(iter(RECIPES))


@pytest.mark.parametrize("heading", [heading for heading in RECIPES if heading not in (FIRST, "LightningCLI")])
@pytest.mark.filterwarnings("ignore")  # other packages'
def test_a_recipe_runs(heading: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if heading in ("peft", "skorch"):
        pytest.importorskip(heading, reason=f"{heading} is not installed", exc_type=ImportError)
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in RECIPES[FIRST] + RECIPES[heading]:
        exec(block, names)
    optimizer = names["net"].optimizer_ if heading == "skorch" else names["optimizer"]
    assert optimizer.state
    if heading == "peft":
        assert (tmp_path / "adapter").is_dir()


@pytest.mark.filterwarnings("ignore")
def test_the_recipe_for_lightning_cli_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("docstring_parser", reason="jsonargparse[signatures] is not installed")
    cli: Any = pytest.importorskip("lightning.pytorch.cli", reason="needs the frameworks extra")
    demos: Any = importlib.import_module("lightning.pytorch.demos.boring_classes")
    (tmp_path / "config.yaml").write_text(RECIPES["LightningCLI"][0], encoding="utf-8")
    arguments = ["--config", str(tmp_path / "config.yaml"), "--trainer.logger", "false"]
    made = cli.LightningCLI(demos.BoringModel, args=arguments, run=False, save_config_callback=None)
    optimizer = made.model.configure_optimizers()
    assert isinstance(optimizer, gradagrad.AutoGradaGrad)
    assert optimizer.defaults["state_dtype"] == torch.bfloat16


def test_the_table_of_diffusion_is_that_of_the_record() -> None:
    runs = json.loads((DOCS / "records" / "auto-fourth.json").read_text(encoding="utf-8"))["runs"]
    table = (DOCS / "diffusion.md").read_text(encoding="utf-8").partition("| | U-Net | low-rank |\n")[2]
    keys = [("AutoGradaGrad", 1), ("AutoGradaGrad", 0), ("Prodigy + Schedule-Free", 0), ("Prodigy, as advised", 0)]
    keys += [("Prodigy", 0), *((f"AdamW, cosine, lr {rate}", 0) for rate in ("0.00316", "0.01", "0.0316"))]
    rows = [row.split("|")[2:4] for row in table.partition("\n\n")[0].splitlines()[1:]]
    for (key, place), row in zip(keys, rows, strict=True):
        for problem, cell in zip(("diffusion-unet", "turned-lora"), row, strict=True):
            found = [losses[place] for seed, losses in runs[problem][key].items() if seed.isdigit()]
            assert float(cell) == pytest.approx(sum(found) / len(found), abs=5.1e-4), (key, problem)


@pytest.mark.parametrize(
    ("package", "optimizer", "heading"),
    [
        ("torch.optim", "Adagrad", "From AdaGrad"),
        ("torch.optim", "AdamW", "From Adam or AdamW"),
        ("prodigyopt", "Prodigy", "From Prodigy or D-Adaptation"),
        ("dadaptation", "DAdaptAdam", "From Prodigy or D-Adaptation"),
        ("schedulefree", "AdamWScheduleFree", "From Schedule-Free"),
    ],
)
def test_every_argument_of_another_optimizer_has_its_row(package: str, optimizer: str, heading: str) -> None:
    text = (DOCS / "coming-from.md").read_text(encoding="utf-8")
    section = text.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    left = " ".join(row.split("|")[1] for row in section.splitlines() if row.startswith("|"))
    named = set(re.findall(r"`(\w+)", left))
    module = pytest.importorskip(package)
    assert set(inspect.signature(getattr(module, optimizer)).parameters) - {"params"} - named == set()


def test_the_site_has_few_pages() -> None:
    excluded = {"architecture.md"}  # develop.md includes it
    assert len([path for path in DOCS.glob("*.md") if path.name not in excluded]) + len(NOTEBOOKS) <= 30


def test_every_make_target_says_what_it_does() -> None:
    phony = " ".join(re.findall(r"^\.PHONY: (.+)$", MAKEFILE, re.MULTILINE)).split()
    explained = re.findall(r"^([\w-]+):.*## \S", MAKEFILE, re.MULTILINE)
    assert sorted(phony) == sorted(explained)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_stored_without_results(path: Path) -> None:
    """`make docs` executes them; results in the repository would be another machine's, and old."""
    cells = [c for c in json.loads(path.read_text(encoding="utf-8"))["cells"] if c["cell_type"] == "code"]
    assert cells
    assert not any(cell["outputs"] or cell["execution_count"] for cell in cells)
