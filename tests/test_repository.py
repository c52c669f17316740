"""The repository's own rules: import direction, error codes, file sizes, words, links, versions."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import functools
import importlib.util
import re
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
#: Package -> the packages of this repository it may import.
MAY_IMPORT = {
    "kernels_npu": set(),
    "profiling": {"kernels_npu"},
    "graphs": {"profiling", "kernels_npu"},
    "ascend_infer": {"graphs", "profiling", "kernels_npu"},
}
SOURCES = sorted(path for package in MAY_IMPORT for path in (ROOT / package).rglob("*.py"))
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "benchmarks" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
CODE = re.compile(r"AI-[A-Z]+-\d{3}")


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def imported_packages(path: Path) -> set[str]:
    """Top-level names that the file imports anywhere, lazily too."""
    names: set[str] = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            names.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.split(".")[0])
    return names


@functools.cache
def tracked_files() -> tuple[Path, ...]:
    """The files under version control, or all of them in an unpacked source archive."""
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listing.returncode == 0 and listing.stdout:
        paths = [ROOT / name for name in listing.stdout.split("\0") if name]
    else:
        paths = [p for p in ROOT.rglob("*") if ".venv" not in p.parts]
    return tuple(path for path in paths if path.is_file())


# ------------------------------------------------------------------------------------- imports


def upward_imports(path: Path, package: str) -> set[str]:
    """The packages of this repository that a file of `package` imports and may not."""
    return (imported_packages(path) & MAY_IMPORT.keys()) - MAY_IMPORT[package] - {package}


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_go_down_only(package: str) -> None:
    offenders = {
        relative(path): upward
        for path in (ROOT / package).rglob("*.py")
        if (upward := upward_imports(path, package))
    }
    assert not offenders, f"{package} stands below what these import: {offenders}"


def test_an_upward_import_would_be_found(tmp_path: Path) -> None:
    offender = tmp_path / "offender.py"
    offender.write_text("def f():\n    from graphs.runner import DecodeGraphRunner\n")
    assert upward_imports(offender, "kernels_npu") == {"graphs"}
    assert not upward_imports(offender, "ascend_infer")


def run_python(code: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


BLOCK_TORCH = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in {'torch', 'torch_npu', 'transformers'}:
            raise ImportError(f'{name} is blocked')
sys.meta_path.insert(0, Blocker())
import importlib
for module in sys.argv[1:]:
    importlib.import_module(module)
"""


def modules_without_torch() -> list[str]:
    """Everything of the machine, but not the PyTorch device; the planning of graphs."""
    names = ["kernels_npu", "kernels_npu.errors", "kernels_npu.error_codes", "kernels_npu.evidence"]
    for path in sorted((ROOT / "kernels_npu" / "sim").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if "device" not in parts:
            names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    names += ["graphs.buckets", "ascend_infer.model.shape", "ascend_infer.cli.estimate"]
    names += ["kernels_npu.quant", "kernels_npu.moe", "ascend_infer.serving_simulation.estimated"]
    names += [
        "profiling.analysis",
        "profiling.devices",
        "profiling.collect.collection",
        "ascend_infer.collecting",
        "ascend_infer.estimates",
        "ascend_infer.cli.profile_json",
    ]
    planning = sorted((ROOT / "graphs" / "planning").glob("*.py"))
    return names + [f"graphs.planning.{path.stem}" for path in planning if path.stem[0] != "_"]


def test_the_machine_is_importable_without_torch() -> None:
    run_python(BLOCK_TORCH, *modules_without_torch())


@pytest.mark.parametrize("module", ["kernels_npu", "ascend_infer", "ascend_infer.cli"])
def test_a_light_import_stays_light(module: str) -> None:
    """`ascend-infer --help` must not wait for torch, which takes longer than all the rest."""
    loaded = run_python(
        "import sys, importlib; importlib.import_module(sys.argv[1]); print(*sys.modules)", module
    )
    heavy = {"torch", "transformers", "tokenizers", "gguf"} & set(loaded.split())
    assert not heavy, f"import {module} loads {sorted(heavy)}"


@pytest.mark.bench
@pytest.mark.parametrize("module", ["kernels_npu.sim", "ascend_infer.cli"])
def test_import_time_relative_to_numpy(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = (
        "import importlib, sys, time; start = time.perf_counter();"
        "importlib.import_module(sys.argv[1]); print(time.perf_counter() - start)"
    )
    seconds = {
        name: statistics.median(float(run_python(code, name)) for _ in range(5))
        for name in ("numpy", module)
    }
    with capsys.disabled():
        print(f"\nimport {module}: {seconds[module] / seconds['numpy']:.2f} x import numpy")


# --------------------------------------------------------------------------------- error codes


@functools.cache
def codes_in_sources() -> dict[str, str]:
    """Error code -> the first file that names it, the catalogue excepted."""
    found: dict[str, str] = {}
    for path in [*SOURCES, *sorted((ROOT / "scripts" / "npu").glob("*.py"))]:
        if path.name != "error_codes.py":
            for code in CODE.findall(path.read_text(encoding="utf-8")):
                found.setdefault(code, relative(path))
    return found


def test_every_code_in_the_sources_is_in_the_catalogue() -> None:
    from kernels_npu.error_codes import CODES

    unlisted = {code: file for code, file in codes_in_sources().items() if code not in CODES}
    assert not unlisted


def test_every_code_of_the_catalogue_is_used() -> None:
    from kernels_npu.error_codes import CODES

    assert not CODES.keys() - codes_in_sources().keys()


def test_codes_are_well_formed_and_explained() -> None:
    from kernels_npu.error_codes import CODES

    for code, meaning in CODES.items():
        assert CODE.fullmatch(code), code
        assert meaning.endswith(".") and "\n" not in meaning, f"{code}: {meaning!r}"


def test_the_error_page_is_current() -> None:
    spec = importlib.util.spec_from_file_location(
        "generate_error_docs", ROOT / "scripts" / "generate_error_docs.py"
    )
    assert spec is not None and spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    assert page == generator.render(), "run scripts/generate_error_docs.py"
    page = (ROOT / "docs" / "simulator-checks.md").read_text(encoding="utf-8")
    assert page == generator.render_checks(), "run scripts/generate_error_docs.py"


def test_every_finding_has_a_rule() -> None:
    from kernels_npu.error_codes import CODES
    from kernels_npu.sim.config import Checks
    from kernels_npu.sim.machine.rules import RULES

    switches = {field.name for field in dataclasses.fields(Checks)} | {"always"}
    for code, rule in RULES.items():
        assert code in CODES and rule.check in switches, code
        assert rule.rule and rule.fix and not rule.rule.endswith("."), code
        assert set(rule.severity.split(" or ")) <= {"error", "warning", "hint"}, code
    noted = re.compile(r'(?:note|Note|remark|report|_stop)\(\s*(?:code=)?"(AI-[A-Z]+-\d+)"')
    for path in (ROOT / "kernels_npu" / "sim").rglob("*.py"):
        for code in noted.findall(path.read_text(encoding="utf-8")):
            assert code in RULES, (
                f"{path.name}: {code} has no row in kernels_npu/sim/machine/rules.py"
            )


# ------------------------------------------------------------------------------ files and words


def line_counts() -> dict[str, int]:
    return {relative(path): len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}


def test_no_module_is_long() -> None:
    assert not {name: lines for name, lines in line_counts().items() if lines > 500}, "split them"


def test_nearly_all_modules_are_short() -> None:
    lengths = line_counts().values()
    assert sum(lines > 260 for lines in lengths) <= len(lengths) / 10


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_packages_are_typed(package: str) -> None:
    assert (ROOT / package / "py.typed").is_file()


#: Written in pieces, so that this file does not contain what it looks for.
BANNED = {
    "a package registry's host": re.compile(
        "|".join(["py" + r"pi\.org", "python" + r"hosted\.org"])
    ),
    "a download host": re.compile("|".join(["download" + r"\.pytorch", "hugging" + r"face\.co\b"])),
    "a mark of a merge": re.compile(r"^(?:<{7} |>{7} )", re.MULTILINE),
    "a path of one machine": re.compile(
        r"(?<![\w.])/(?:" + "wo" + "rk|tm" + "p|ro" + "ot|ho" + r"me)/"
    ),
}


def test_no_tracked_file_names_a_host_or_a_machine() -> None:
    hits = []
    for path in tracked_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for what, pattern in BANNED.items():
            for match in pattern.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                hits.append(f"{relative(path)}:{line}: {what}: {match.group()}")
    assert not hits, "\n".join(hits)


# ------------------------------------------------------------------------------- documentation

LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The anchors that a Markdown renderer makes of the page's headings."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    slugs = (re.sub(r"[^\w\- ]", "", title.lower()) for title in HEADING.findall(text))
    return {slug.strip().replace(" ", "-") for slug in slugs}


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_links_between_pages_resolve(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in LINK.findall(text):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), f"{relative(page)} links to {target}"
        if anchor:
            assert anchor in anchors(file), f"{relative(page)}: no heading for {target}"


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in (ROOT / "docs").rglob("*.md"):
        assert page.relative_to(ROOT / "docs").as_posix() in navigation


def documented_options() -> dict[str, set[str]]:
    """Command -> the options its section of docs/command-line.md shows; "" is the introduction."""
    text = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    sections = re.split(r"^## +(.+)$", FENCE.sub("", text), flags=re.MULTILINE)
    named = dict(zip(["", *sections[1::2]], sections[::2]))
    return {name: set(re.findall(r"(?<![\w-])--[a-z][\w-]*", body)) for name, body in named.items()}


def declared_options(parser: argparse.ArgumentParser, name: str = "") -> dict[str, set[str]]:
    """Command -> its long options, for the parser and all parsers below it."""
    found: dict[str, set[str]] = {}
    options: set[str] = set()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command, below in action.choices.items():
                found |= declared_options(below, f"{name} {command}".strip())
        else:
            options.update(o for o in action.option_strings if o.startswith("--"))
    found[name] = options - {"--help"}
    return found


def test_the_command_line_page_shows_every_option() -> None:
    from ascend_infer.cli import _parser

    documented = documented_options()
    everywhere = documented.pop("")
    declared = declared_options(_parser())
    for command, options in declared.items():
        assert options - everywhere == documented.pop(command, set()), command
    assert not documented, "sections without a command"


# ------------------------------------------------------------------------------------ versions


def project_field(name: str) -> str:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    match = re.search(rf'^{name} = "([^"]+)"', text, re.MULTILINE)
    assert match is not None, name
    return match.group(1)


def test_versions_agree() -> None:
    import ascend_infer

    version = project_field("version")
    assert ascend_infer.__version__ == version
    release = version.partition(".dev")[0]
    assert re.search(
        rf"^## {re.escape(release)}\b", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE
    )


def test_the_pins_lie_within_the_ranges() -> None:
    """Each requirement of pyproject.toml has a pin, and the pin satisfies it."""
    requirements = pytest.importorskip("packaging.requirements")
    tomllib = pytest.importorskip("tomllib")  # from Python 3.11 on
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = {}
    for line in (ROOT / "constraints" / "tested.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            pin = requirements.Requirement(line)
            if pin.marker is None or pin.marker.evaluate():
                pins[pin.name] = next(iter(pin.specifier)).version
    extras = project["optional-dependencies"]
    ranges = [
        *project["dependencies"],
        *(r for x in ("sim", "model", "test", "docs", "conformance") for r in extras[x]),
    ]
    for text in ranges:
        wanted = requirements.Requirement(text)
        assert wanted.specifier.contains(pins[wanted.name]), text
