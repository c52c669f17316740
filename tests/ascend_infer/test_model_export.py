"""A GGUF file as a folder: transformers reads the same model, tokenizer and template from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from ascend_infer.cli import main
from ascend_infer.model.catalogue import resolve
from ascend_infer.model.weights_safetensors import SafetensorsSource
from ascend_infer.model_export import export_model
from ascend_infer.reference import reference_model
from ascend_infer.tokenizer import load_tokenizer
from kernels_npu.errors import AscendInferError
from tests.ascend_infer.gguf_writing import write_gguf

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

TEMPLATE = "{% for m in messages %}<|a|>{{ m['content'] }}{{ eos_token }}{% endfor %}"


def metadata(tokens: int) -> dict[str, Any]:
    """A byte-level vocabulary of `tokens` with two merges and two control tokens."""
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())[: tokens - 4]
    kinds = [1] * (len(alphabet) + 2) + [3, 3]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": [*alphabet, "he", "hel", "<|a|>", "<|b|>"],
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.merges": ["h e", "he l"],
        "tokenizer.ggml.bos_token_id": tokens - 2,
        "tokenizer.ggml.eos_token_id": tokens - 1,
        "tokenizer.chat_template": TEMPLATE,
    }


@pytest.mark.parametrize("kind", ["llama", "qwen2"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_what_transformers_reads_is_the_model(
    kind: str, dtype: torch.dtype, request: pytest.FixtureRequest, tmp_path: Path
):
    original = SafetensorsSource(request.getfixturevalue(f"{kind}_dir"))
    vocabulary = original.config.vocab_size
    file = write_gguf(original, tmp_path / "m.gguf", metadata=metadata(vocabulary))
    folder = export_model(resolve(str(file)), tmp_path / "out", dtype)

    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
    assert model.dtype is dtype
    expected = reference_model(resolve(str(file)).open()).to(dtype)
    for name, tensor in expected.state_dict().items():
        assert torch.equal(model.state_dict()[name], tensor), name
    prompt = torch.tensor([[3, 1, 4, 1, 5]])
    torch.testing.assert_close(model(prompt).logits, expected(prompt).logits, atol=1e-2, rtol=1e-2)
    assert model.generation_config.eos_token_id == [vocabulary - 1]
    # Our own reader sees it as the file that it came from.
    again = resolve(str(folder)).open()
    assert again.config.eos_token_ids == (vocabulary - 1,)
    assert again.names() == original.names()


def test_tokenizer_and_chat_template_come_along(llama_dir: Path, tmp_path: Path):
    source = SafetensorsSource(llama_dir)
    file = write_gguf(source, tmp_path / "m.gguf", metadata=metadata(source.config.vocab_size))
    folder = export_model(resolve(str(file)), tmp_path / "out", torch.float16)
    fast = transformers.AutoTokenizer.from_pretrained(folder)
    ours, again = load_tokenizer(resolve(str(file))), load_tokenizer(resolve(str(folder)))
    for text in ("hello", "<|a|>help!<|b|>", ""):
        assert fast(text)["input_ids"] == ours.encode(text) == again.encode(text)
    assert (fast.bos_token, fast.eos_token) == ("<|a|>", "<|b|>")
    messages = [{"role": "user", "content": "hel"}]
    chat = fast.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)
    assert chat["input_ids"] == ours.encode_chat("hel") == again.encode_chat("hel")


def test_the_command_lists_the_files(
    llama_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    source = SafetensorsSource(llama_dir)
    file = write_gguf(source, tmp_path / "m.gguf", metadata=metadata(source.config.vocab_size))
    assert main(["export-model", str(file), str(tmp_path / "out"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["folder"] == str(tmp_path / "out") and found["dtype"] == "float16"
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= found["files"].keys()
    assert main(["export-model", str(file), str(tmp_path / "out2"), "--dtype", "bfloat16"]) == 0
    assert "model.safetensors" in capsys.readouterr().out


def refused(name: Path, folder: Path) -> str:
    with pytest.raises(AscendInferError) as caught:
        export_model(resolve(str(name)), folder, torch.float16)
    assert caught.value.fix
    return caught.value.code


def test_what_cannot_be_exported_leaves_nothing_behind(llama_dir: Path, tmp_path: Path):
    source = SafetensorsSource(llama_dir)
    plain = write_gguf(source, tmp_path / "plain.gguf")
    whole = write_gguf(source, tmp_path / "m.gguf", metadata=metadata(source.config.vocab_size))
    factors = write_gguf(
        source,
        tmp_path / "factors.gguf",
        metadata=metadata(source.config.vocab_size),
        rope_factors=[1.0 + i for i in range(source.config.rotary_dim // 2)],
    )
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine").write_text("kept")
    before = sorted(tmp_path.iterdir())
    assert refused(plain, tmp_path / "out") == "AI-MODEL-020"
    assert refused(factors, tmp_path / "out") == "AI-MODEL-034"
    assert refused(llama_dir, tmp_path / "out") == "AI-MODEL-005"
    assert refused(whole, full) == "AI-CLI-004"
    assert refused(whole, tmp_path / "none" / "out") == "AI-CLI-004"
    assert refused(whole, full / "mine" / "out") == "AI-CLI-004"
    assert sorted(tmp_path.iterdir()) == before and (full / "mine").read_text() == "kept"
