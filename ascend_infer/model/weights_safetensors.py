"""Weights from a Hugging Face directory: `config.json` with one or several safetensors files."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import torch

from ascend_infer.model.config import ModelConfig, read_json
from ascend_infer.model.fields import Fields
from kernels_npu.errors import EnvironmentProblem, UsageError

_SINGLE, _INDEX = "model.safetensors", "model.safetensors.index.json"


class SafetensorsSource:
    """A directory of weights; files are mapped once, tensors are read when asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.raw_config = read_json(path / "config.json")
        config = ModelConfig.from_hf(self.raw_config, origin=str(path / "config.json"))
        self.config = dataclasses.replace(config, eos_token_ids=_end_tokens(path, config))
        self._files = _weight_map(path)
        self._open: dict[str, Any] = {}

    def names(self) -> frozenset[str]:
        """All tensors of the directory."""
        return frozenset(self._files)

    def tensor(self, name: str) -> torch.Tensor:
        """One tensor on the host in the dtype it is stored in."""
        from safetensors import SafetensorError

        file = self._files[name]
        try:
            if file not in self._open:
                self._open[file] = _open_file(self.path / file)
            return _as_tensor(self._open[file].get_tensor(name))
        except SafetensorError as error:
            raise _corrupt(self.path / file, error) from error


def _end_tokens(path: Path, config: ModelConfig) -> tuple[int, ...]:
    """Chat models end a turn with a token that only `generation_config.json` names."""
    file = path / "generation_config.json"
    if not file.is_file():
        return config.eos_token_ids
    fields = Fields(values=read_json(file), origin=str(file))
    ids = (*config.eos_token_ids, *fields.token_ids("eos_token_id", config.vocab_size))
    return tuple(dict.fromkeys(ids))


def _weight_map(path: Path) -> dict[str, str]:
    """Tensor name -> file name, from the index or from the only file."""
    index = path / _INDEX
    if index.is_file():
        mapping = read_json(index).get("weight_map")
        if not isinstance(mapping, dict) or not all(isinstance(f, str) for f in mapping.values()):
            raise UsageError(
                "AI-MODEL-007",
                f"{index} has no object 'weight_map' from tensors to file names",
                fix="download it again",
            )
        absent = sorted({file for file in mapping.values() if not (path / file).is_file()})
        if absent:
            raise UsageError(
                "AI-MODEL-010",
                f"{path} lacks {', '.join(absent)}, which {_INDEX} names",
                fix="download the missing weight files",
            )
        return mapping
    single = path / _SINGLE
    if not single.is_file():
        raise UsageError(
            "AI-MODEL-010",
            f"{path} holds neither {_SINGLE} nor {_INDEX}",
            rule="weights are read from safetensors files (or from one GGUF file)",
            fix="download the safetensors files of the model",
        )
    from safetensors import SafetensorError

    try:
        return dict.fromkeys(_open_file(single).keys(), _SINGLE)
    except SafetensorError as error:
        raise _corrupt(single, error) from error


def _open_file(path: Path) -> Any:
    try:
        from safetensors import safe_open
    except ImportError as error:
        raise EnvironmentProblem(
            "AI-MODEL-015",
            "reading safetensors needs the package safetensors",
            fix="pip install 'ascend-infer[model]'",
        ) from error
    return safe_open(path, framework="pt")


def _as_tensor(value: Any) -> torch.Tensor:
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"safetensors gave {type(value).__name__}, expected a torch tensor")
    return value


def _corrupt(path: Path, error: Exception) -> UsageError:
    return UsageError(
        "AI-MODEL-011",
        f"{path} is not a complete safetensors file: {error}",
        fix="download the file again and compare its size and checksum with the source",
    )
