"""Text to token ids and back, for a model directory or a GGUF file; nothing is downloaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ascend_infer.chat_template import ChatTemplate
from ascend_infer.model.catalogue import ModelLocation
from ascend_infer.model.config import read_json
from kernels_npu.errors import EnvironmentProblem, UsageError

#: What to do when there is no usable tokenizer.
WITHOUT_TOKENIZER = "decode token ids instead: --prompt-token-ids works without a tokenizer"


@dataclass(frozen=True, kw_only=True)
class Tokenizer:
    """A `tokenizers.Tokenizer` with the model's chat template, if it has one."""

    backend: Any
    chat_template: ChatTemplate | None
    origin: str

    def encode(self, text: str) -> list[int]:
        """Token ids of a raw prompt, with the special tokens the model expects at its start."""
        return list(self.backend.encode(_checked(text)).ids)

    def encode_chat(self, prompt: str) -> list[int]:
        """Token ids of one user turn in the model's chat format.

        Raises:
            UsageError: AI-MODEL-022 when the model has no chat template or the template fails.
        """
        if self.chat_template is None:
            raise UsageError(
                "AI-MODEL-022",
                f"{self.origin} has no chat template",
                rule="--chat formats a prompt by the template that the model carries",
                fix="pass --raw to use the prompt as it stands",
            )
        text = self.chat_template.render([{"role": "user", "content": _checked(prompt)}])
        # The template writes the special tokens itself.
        return list(self.backend.encode(text, add_special_tokens=False).ids)

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of `token_ids` without special tokens."""
        return str(self.backend.decode(list(token_ids), skip_special_tokens=True))


def _checked(text: str) -> str:
    """Refuse bytes that were no text: Python keeps those of a command line as lone surrogates."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UsageError(
            "AI-MODEL-032",
            f"the prompt is not text: {error.reason} at character {error.start}",
            fix="pass the prompt in UTF-8",
        ) from error
    return text


def load_tokenizer(location: ModelLocation) -> Tokenizer:
    """The tokenizer of a model.

    Raises:
        UsageError: AI-MODEL-020 when the model has none, AI-MODEL-021 when it is of no known kind.
        EnvironmentProblem: AI-MODEL-015 when the package `tokenizers` is not installed.
    """
    require_tokenizers()
    if location.kind == "gguf":
        from ascend_infer.model.gguf_file import GgufFile
        from ascend_infer.tokenizer_gguf import tokenizer_from_gguf

        return tokenizer_from_gguf(GgufFile.open(location.path))
    return _from_directory(location.path)


def require_tokenizers() -> Any:
    """The package `tokenizers`; AI-MODEL-015 when it is not installed."""
    try:
        import tokenizers
    except ImportError as error:
        raise EnvironmentProblem(
            "AI-MODEL-015",
            "text prompts need the package tokenizers",
            rule=WITHOUT_TOKENIZER,
            fix="pip install 'ascend-infer[model]'",
        ) from error
    return tokenizers


def no_tokenizer(origin: str) -> UsageError:
    """The error for a model without a tokenizer."""
    return UsageError("AI-MODEL-020", f"{origin} has no tokenizer", fix=WITHOUT_TOKENIZER)


def _from_directory(path: Path) -> Tokenizer:
    config_file = path / "tokenizer_config.json"
    config = read_json(config_file) if config_file.is_file() else {}
    if (path / "tokenizer.json").is_file():
        backend = _read_fast(path / "tokenizer.json")
    elif (path / "tokenizer.model").is_file() or (path / "vocab.json").is_file():
        backend = _convert_slow(path)
    else:
        raise no_tokenizer(str(path))
    template = _chat_template(path, config)
    chat_template = None
    if template is not None:
        chat_template = ChatTemplate(
            source=template,
            origin=str(path),
            bos_token=_token_text(config.get("bos_token")),
            eos_token=_token_text(config.get("eos_token")),
        )
    return Tokenizer(backend=backend, chat_template=chat_template, origin=str(path))


def _chat_template(path: Path, config: Mapping[str, Any]) -> str | None:
    """The template of the model directory: a file of its own, or in the tokenizer's configuration.

    Older configurations list several by name.
    """
    file = path / "chat_template.jinja"
    if file.is_file():
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                "AI-MODEL-022",
                f"cannot read {file}: {error}",
                fix="download it again, or pass --raw",
            ) from error
    template = config.get("chat_template")
    if isinstance(template, list):
        named = {t.get("name"): t.get("template") for t in template if isinstance(t, dict)}
        template = named.get("default")
    return template if isinstance(template, str) else None


def _read_fast(path: Path) -> Any:
    try:
        return require_tokenizers().Tokenizer.from_file(str(path))
    # The library raises bare `Exception` for malformed files.
    except Exception as error:
        raise UsageError(
            "AI-MODEL-021",
            f"{path} is not a tokenizer that this version of tokenizers reads: {error}",
            fix=f"download the file again; or {WITHOUT_TOKENIZER}",
        ) from error


def _convert_slow(path: Path) -> Any:
    """A tokenizer in an older format, converted by transformers."""
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise EnvironmentProblem(
            "AI-MODEL-015",
            f"{path} has no tokenizer.json; converting its tokenizer needs transformers",
            rule=WITHOUT_TOKENIZER,
            fix="pip install 'ascend-infer[model]'",
        ) from error
    try:
        return AutoTokenizer.from_pretrained(str(path), local_files_only=True).backend_tokenizer
    # transformers and what it calls raise all kinds for malformed files.
    except Exception as error:
        raise UsageError(
            "AI-MODEL-021",
            f"transformers cannot read the tokenizer in {path}: {error}",
            fix=WITHOUT_TOKENIZER,
        ) from error


def _token_text(value: Any) -> str:
    """A special token is stored as text or as an object with its `content`."""
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else ""
