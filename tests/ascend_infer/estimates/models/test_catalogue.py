"""Known models against their cards, and names that are none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ascend_infer.estimates import MODELS, load_decoder, weight_ledger
from kernels_npu.errors import UsageError


@pytest.mark.parametrize("name", MODELS)
def test_parameters_are_within_a_percent_of_the_card(name: str) -> None:
    ledger, model = weight_ledger(load_decoder(name)), MODELS[name]
    assert ledger.parameters / 1e9 == pytest.approx(model.billions, rel=0.01)


@pytest.mark.parametrize("name", [n for n, model in MODELS.items() if model.active_billions])
def test_active_parameters_by_a_convention_of_cards(name: str) -> None:
    """Cards round, and count all (Qwen), leave the embedding out (DeepSeek) or the head too (GLM).

    The three differ by a fifth at most here, so a wrong expert or layer would still be seen.
    """
    ledger, stated = weight_ledger(load_decoder(name)), MODELS[name].active_billions
    counts = (ledger.active, ledger.active_products, ledger.active - ledger.vocabulary_elements)
    assert any(count / 1e9 == pytest.approx(stated, rel=0.03) for count in counts), counts


def test_names_are_found_as_people_write_them(tmp_path: Path) -> None:
    assert load_decoder("Qwen/Qwen2.5-7B") == load_decoder("qwen2.5-7b")
    assert load_decoder("gpt_oss_20b").architecture == "gpt_oss"
    config = tmp_path / "config.json"
    config.write_text(json.dumps(MODELS["phi-4"].config))
    by_file, by_folder = load_decoder(str(config)), load_decoder(str(tmp_path))
    assert by_file == by_folder
    assert weight_ledger(by_file) == weight_ledger(load_decoder("phi-4"))


@pytest.mark.parametrize("name", ["qwen4-7b", "", "/", "x" * 5000, "nul\0byte", "~nobody/x"])
def test_unknown_names_offer_near_ones(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_decoder(name)
    assert caught.value.code == "AI-EST-005"
    assert any(known in str(caught.value.fix) for known in MODELS)


@pytest.mark.parametrize("text", ["", "[]", "{", "null", '"text"', "\x80", "[" * 100_000])
def test_a_file_that_is_no_object_is_a_coded_error(text: str, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError) as caught:
        load_decoder(str(file))
    assert caught.value.code == "AI-MODEL-007"
