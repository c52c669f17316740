"""`ascend-infer estimate moe`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ascend_infer.cli import main


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    def run_json(*arguments: str) -> tuple[int, Any]:
        status = main(["estimate", "moe", "--json", *arguments])
        return status, json.loads(capsys.readouterr().out)

    return run_json


@pytest.mark.parametrize("seed", ["0", "1"])
def test_nine_tokens_to_two_of_four_experts(run: Any, seed: str) -> None:
    status, found = run("--seed", seed)
    assert status == 0 and found["evidence"] == "modelled"
    assert (found["rows"], found["blocks"], found["wasted_rows"]) == (18, 5, 622)
    assert sum(found["counts"]) == 18 and "token_ids" not in found


def test_a_routing_from_a_file_and_all_tables(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "routing.json"
    path.write_text("[[0, 2], [2, 0], [2, 3]]")
    _, found = run("--routing", str(path), "--block-rows", "2", "--tables", "--hidden", "8")
    assert found["counts"] == [2, 0, 3, 1] and found["offsets"] == [0, 2, 2, 5]
    assert found["padded_offsets"] == [0, 4, 6, 10]
    assert found["token_ids"] == [0, 1, 0, 1, 2, 2]
    assert found["expert_of_block"] == [0, 0, 1, 2, 2, 3, 3]
    assert found["rows_of_block"] == [2, 0, 0, 2, 1, 1, 0]
    assert found["moved_bytes"] == {"permute": 2 * 6 * 16, "combine": (6 + 3) * 16}


def test_no_tokens_and_one_expert_for_all(run: Any) -> None:
    _, nothing = run("--tokens", "0")
    assert nothing["rows"] == nothing["used_blocks"] == 0 and nothing["blocks"] == 4
    _, first = run("--routing", "first", "--tokens", "300", "--top-k", "1", "--padding", "ceil")
    assert first["counts"] == [300, 0, 0, 0] and first["used_blocks"] == 3


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        ("AI-MOE-002", ("--top-k", "5")),
        ("AI-MOE-002", ("--routing", "even")),
        ("AI-MOE-002", ("--block-rows", "9999999999")),
        ("AI-MOE-002", ("--tokens", "99999999999")),
        ("AI-CLI-004", ("--routing", "missing.json")),
        ("AI-CLI-006", ("--tokens", "-1")),
    ],
)
def test_wrong_use_has_a_code(run: Any, code: str, arguments: tuple[str, ...]) -> None:
    status, found = run(*arguments)
    assert status == 2 and found["error"]["code"] == code and found["error"]["fix"]


@pytest.mark.parametrize(
    "text", ["[[0], [1, 2]]", "{", "[[4, 0]]", '[["a"]]', "[[0.5]]", "[0]", "7"]
)
def test_a_file_that_is_no_routing(run: Any, tmp_path: Path, text: str) -> None:
    path = tmp_path / "routing.json"
    path.write_text(text)
    status, found = run("--routing", str(path))
    assert status == 2 and found["error"]["code"] in ("AI-CLI-004", "AI-MOE-001")


def test_the_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", "moe", "--experts", "40", "--hidden", "64"]) == 0
    out = capsys.readouterr().out
    assert "the first 16" in out and "bytes of combine" in out and "modelled" in out


@pytest.mark.parametrize("command", [["simulate-serving"], ["estimate", "moe"]])
def test_nothing_waits_for_torch(command: list[str]) -> None:
    code = (
        "import sys; from ascend_infer.cli import main; main(sys.argv[1:]);"
        "print(sorted({'torch', 'transformers', 'matplotlib'} & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *command], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
