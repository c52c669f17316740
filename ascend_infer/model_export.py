"""A GGUF model as a Hugging Face folder, which vLLM and transformers load.

transformers writes the files: what it cannot express is refused as for the reference check.
"""

from __future__ import annotations

import importlib
import os
import shutil
from pathlib import Path
from typing import Any

import torch

from ascend_infer.model.catalogue import ModelLocation
from ascend_infer.reference import reference_model
from ascend_infer.tokenizer import Tokenizer, load_tokenizer
from kernels_npu.errors import UnsupportedError, UsageError


def export_model(location: ModelLocation, folder: Path, dtype: torch.dtype) -> Path:
    """Write configuration, weights in `dtype`, tokenizer and chat template into a new `folder`.

    The weights pass through float32 in host memory: four bytes per weight.

    Raises:
        UsageError: AI-MODEL-005 for a model that is such a folder already, AI-CLI-004 when it
            cannot be written, AI-MODEL-020/021 for a model without a known tokenizer.
        UnsupportedError: AI-MODEL-034 when transformers cannot express the model.
        EnvironmentProblem: AI-MODEL-015 for a missing package.
    """
    if location.kind != "gguf":
        raise UsageError(
            "AI-MODEL-005",
            f"{location.path} is a folder with config.json already",
            rule="a built-in model or a .gguf file is exported",
            fix="give the folder to vLLM as it is",
        )
    # The process may change its working directory before the folder is complete.
    folder = folder.absolute()
    half = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise FileExistsError("it is there and not an empty folder")
        half.mkdir()
        try:
            _write(location, half, dtype)
            os.replace(half, folder)
        finally:
            shutil.rmtree(half, ignore_errors=True)
    except OSError as error:
        raise UsageError(
            "AI-CLI-004",
            f"cannot write the model {folder}: {error.strerror or error}",
            rule="a model is written into a new folder",
            fix="name a folder that does not exist, inside one that you may write to",
        ) from error
    return folder


def _write(location: ModelLocation, folder: Path, dtype: torch.dtype) -> None:
    tokenizer = _tokenizer(location)  # first: it may be refused, and the weights take long
    source = location.open()
    model = reference_model(source).to(dtype)
    config = source.config
    ends = list(config.eos_token_ids) or None
    for target in (model.config, model.generation_config):
        target.bos_token_id, target.eos_token_id = config.bos_token_id, ends
    model.save_pretrained(folder)
    _fast(tokenizer, config.max_position, ends).save_pretrained(folder)


def _tokenizer(location: ModelLocation) -> Tokenizer:
    try:
        return load_tokenizer(location)
    except (UsageError, UnsupportedError) as error:  # what to do instead differs from decoding
        fix = "export nothing: use the folder that the model was converted from"
        raise type(error)(error.code, error.what, rule=error.rule, fix=fix) from error


def _fast(tokenizer: Tokenizer, max_position: int, ends: list[int] | None) -> Any:
    """The tokenizer as transformers knows it."""
    template = tokenizer.chat_template
    names: dict[str, str] = {}
    if template is not None:
        names = {"bos_token": template.bos_token, "eos_token": template.eos_token}
    elif ends is not None:
        names = {"eos_token": tokenizer.backend.id_to_token(ends[0])}
    transformers: Any = importlib.import_module("transformers")
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer.backend,
        model_max_length=max_position,
        clean_up_tokenization_spaces=False,
        **{name: token for name, token in names.items() if token},
    )
    fast.chat_template = template.source if template is not None else None
    return fast
