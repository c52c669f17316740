"""Building a tokenizer from the metadata of a GGUF file.

The file stores the vocabulary and a name for the way text is cut before merging
(`tokenizer.ggml.pre`); the cutting rules themselves are known by that name only.
"""

from __future__ import annotations

from typing import Any

from ascend_infer.chat_template import ChatTemplate
from ascend_infer.model.gguf_file import GgufFile
from ascend_infer.tokenizer import (
    WITHOUT_TOKENIZER,
    Tokenizer,
    no_tokenizer,
    require_tokenizers,
)
from kernels_npu.errors import UnsupportedError, UsageError

#: What all metadata of a tokenizer starts with.
_KEY = "tokenizer.ggml."
_CONTROL, _USER_DEFINED = 3, 4
_SPACE = "\N{LOWER ONE EIGHTH BLOCK}"
#: Contractions, words, numbers of up to N digits, punctuation, line ends, other space.
_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{digits}"
    r"| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
#: `tokenizer.ggml.pre` -> regular expression, for the kinds that cut by one.
_SPLIT_BY_NAME = {
    "llama-bpe": _SPLIT.format(digits="{1,3}"),
    "llama3": _SPLIT.format(digits="{1,3}"),
    "qwen2": _SPLIT.format(digits=""),
    "deepseek-r1-qwen": _SPLIT.format(digits=""),
}
#: Kinds that take single digits apart and then cut as GPT-2 does.
_SINGLE_DIGITS = ("smollm", "refact", "starcoder", "command-r")
_GPT2 = ("gpt-2", "gpt2", "default")


def tokenizer_from_gguf(file: GgufFile) -> Tokenizer:
    """The tokenizer and chat template that `file` carries.

    Raises:
        UsageError: AI-MODEL-020 when the file carries none.
        UnsupportedError: AI-MODEL-021 for a kind that is not known here.
    """
    origin = str(file.path)
    kind, tokens = file.value(_KEY + "model", str), _tokens(file)
    if kind is None or not tokens:
        raise no_tokenizer(origin)
    if kind == "gpt2":
        backend = _byte_level(file)
    elif kind == "llama":
        backend = _sentencepiece(file)
    else:
        raise _unknown(file, f"tokenizer kind {kind!r}", ("gpt2", "llama"))
    _add_special_tokens(backend, file)
    _add_bos(backend, file, default=kind == "llama")
    template = file.value("tokenizer.chat_template", str)
    chat_template = None
    if template is not None:
        chat_template = ChatTemplate(
            source=template,
            origin=origin,
            bos_token=_special(file, "bos"),
            eos_token=_special(file, "eos"),
        )
    return Tokenizer(backend=backend, chat_template=chat_template, origin=origin)


def _tokens(file: GgufFile) -> list[str]:
    return file.array(_KEY + "tokens", str)


def _byte_level(file: GgufFile) -> Any:
    """Byte-level BPE (GPT-2, Llama 3, Qwen2, SmolLM)."""
    tokenizers = require_tokenizers()
    cut = tokenizers.pre_tokenizers
    name = file.value(_KEY + "pre", str) or "default"
    if name in _SPLIT_BY_NAME:
        steps = [
            cut.Split(tokenizers.Regex(_SPLIT_BY_NAME[name]), behavior="isolated"),
            cut.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    elif name in _SINGLE_DIGITS:
        steps = [cut.Digits(individual_digits=True), cut.ByteLevel(add_prefix_space=False)]
    elif name in _GPT2:
        steps = [cut.ByteLevel(add_prefix_space=False)]
    else:
        known = (*_SPLIT_BY_NAME, *_SINGLE_DIGITS, *_GPT2)
        raise _unknown(file, f"pre-tokenizer {name!r}", known)
    merges = [tuple(merge.split(" ", 1)) for merge in file.array(_KEY + "merges", str)]
    backend = _bpe(file, merges)
    if name == "qwen2":
        backend.normalizer = tokenizers.normalizers.NFC()
    backend.pre_tokenizer = cut.Sequence(steps)
    backend.decoder = tokenizers.decoders.ByteLevel()
    return backend


def _sentencepiece(file: GgufFile) -> Any:
    """SentencePiece BPE with byte fallback (Llama 2, Mistral); merges follow from the scores."""
    tokenizers = require_tokenizers()
    backend = _bpe(
        file,
        _merges_from_scores(_tokens(file), file.array(_KEY + "scores", float)),
        unk_token=_special(file, "unknown") or None,
        fuse_unk=True,
        byte_fallback=True,
    )
    normalizers, decoders = tokenizers.normalizers, tokenizers.decoders
    steps = [normalizers.Replace(" ", _SPACE)]
    if file.value(_KEY + "add_space_prefix", bool) is not False:
        steps.insert(0, normalizers.Prepend(_SPACE))
    backend.normalizer = normalizers.Sequence(steps)
    backend.decoder = decoders.Sequence(
        [
            decoders.Replace(_SPACE, " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return backend


def _bpe(file: GgufFile, merges: list[tuple[str, ...]], **options: Any) -> Any:
    tokenizers = require_tokenizers()
    vocab = {token: index for index, token in enumerate(_tokens(file))}
    try:
        model = tokenizers.models.BPE(vocab=vocab, merges=merges, **options)
    # The library raises bare `Exception` when a merge is not in the vocabulary.
    except Exception as error:
        raise UsageError(
            "AI-MODEL-021",
            f"{file.path}: vocabulary and merges contradict each other: {error}",
            fix=f"download the file again; or {WITHOUT_TOKENIZER}",
        ) from error
    return tokenizers.Tokenizer(model)


def _merges_from_scores(tokens: list[str], scores: list[float]) -> list[tuple[str, ...]]:
    """Every way to join two tokens into a third, the best-scored result first."""
    index = {token: i for i, token in enumerate(tokens)}
    score = dict(zip(tokens, scores))
    found = []
    for token in tokens:
        for cut in range(1, len(token)):
            left, right = token[:cut], token[cut:]
            if left in index and right in index:
                found.append((-score.get(token, 0.0), index[left], index[right], left, right))
    return [(left, right) for *_, left, right in sorted(found)]


def _add_special_tokens(backend: Any, file: GgufFile) -> None:
    """Control tokens are cut out of the text before anything else, and left out when decoding."""
    added = require_tokenizers().AddedToken
    typed = list(zip(_tokens(file), file.array(_KEY + "token_type", int)))
    backend.add_special_tokens(
        [added(t, normalized=False, special=True) for t, kind in typed if kind == _CONTROL]
    )
    backend.add_tokens(
        [added(t, normalized=False, special=False) for t, kind in typed if kind == _USER_DEFINED]
    )


def _add_bos(backend: Any, file: GgufFile, *, default: bool) -> None:
    """Put the beginning-of-sequence token before raw prompts when the model wants one."""
    bos, wanted = _special(file, "bos"), file.value(_KEY + "add_bos_token", bool)
    if bos and (default if wanted is None else wanted):
        processors = require_tokenizers().processors
        # Pieces of a list are taken as they are; a text would be cut at the token's own spaces.
        backend.post_processor = processors.TemplateProcessing(
            single=[bos, "$A"], special_tokens=[(bos, file.metadata[_KEY + "bos_token_id"])]
        )


def _special(file: GgufFile, name: str) -> str:
    """Text of the special token `name`, empty when the file names none."""
    index, tokens = file.value(f"{_KEY}{name}_token_id", int), _tokens(file)
    return tokens[index] if index is not None and 0 <= index < len(tokens) else ""


def _unknown(file: GgufFile, what: str, known: tuple[str, ...]) -> UnsupportedError:
    return UnsupportedError(
        "AI-MODEL-021",
        f"{file.path}: {what}",
        rule=f"known: {', '.join(known)}",
        fix=WITHOUT_TOKENIZER,
    )
