"""The command as a process: start-up without torch, restarts, scripts on the simulated NPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ascend_infer.cli import main
from tests.ascend_infer.processes import ROOT, command, needs_simulator


def fake_module(folder: Path, name: str, text: str) -> str:
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text(text)
    return str(folder)


def test_help_imports_nothing_heavy():
    program = (
        "import sys\nfrom ascend_infer.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print([m for m in ('torch', 'numpy', 'rich', 'transformers') if m in sys.modules])"
    )
    finished = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert finished.stdout.splitlines()[-1] == "[]"
    assert all(name in finished.stdout for name in ("doctor", "generate", "verify", "sim"))


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["sim"], ["verify", "everything"]])
def test_wrong_use_exits_with_2(arguments: list[str]):
    finished = command(*arguments)
    assert finished.returncode == 2 and finished.stdout == "" and "AI-CLI-006" in finished.stderr
    as_json = command(*arguments, "--json")
    assert as_json.returncode == 2
    assert json.loads(as_json.stdout)["error"]["code"] == "AI-CLI-006"


@pytest.mark.parametrize(
    "words", [["estimate", "roofline", "--model", "qwen2.5-7b"], ["doctor"], ["simulate-serving"]]
)
def test_an_unknown_option_is_refused_by_its_command(
    words: list[str], capsys: pytest.CaptureFixture[str]
):
    assert main([*words, "--frobnicate", "8", "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    command_name = " ".join(["ascend-infer", *words[:2]] if len(words) > 1 else words)
    assert error["code"] == "AI-CLI-006" and "--frobnicate 8" in error["what"]
    assert f"{command_name} --help" in error["fix"]


def test_without_torch_there_is_a_coded_error(tmp_path: Path):
    before = fake_module(tmp_path, "torch", "raise ImportError('libtorch_cpu.so: not found')")
    finished = command("generate", "--device", "cpu", "--prompt", "x", "--json", before=before)
    error = json.loads(finished.stdout)["error"]
    assert finished.returncode == 2 and error["code"] == "AI-CLI-005"
    assert "libtorch_cpu.so" in error["what"]


def test_doctor_works_with_a_broken_torch(tmp_path: Path):
    before = fake_module(tmp_path, "torch", "import os\nos.abort()")
    finished = command("doctor", "--json", before=before)
    result = json.loads(finished.stdout)
    assert finished.returncode == 1 and result["devices"] == []
    torch_finding = next(f for f in result["findings"] if f["name"] == "torch")
    assert torch_finding["verdict"] == "broken" and "signal 6" in torch_finding["evidence"]


def test_doctor_works_without_its_table_printer(tmp_path: Path):
    before = fake_module(tmp_path, "rich", "raise ImportError('half installed')")
    fake_module(tmp_path, "gguf", "1 / 0")
    fake_module(tmp_path, "safetensors", "raise ImportError('libstdc++.so.6: GLIBCXX_3.4.32')")
    finished = command("doctor", before=before)
    assert finished.returncode == 1, finished.stderr
    lines = finished.stdout.splitlines()
    for words in (
        "rich; verdict: broken; ",
        "half installed",
        "gguf; verdict: broken; ",
        "GLIBCXX_3.4.32",
        "broken: rich, gguf, safetensors",
    ):
        assert any(words in line for line in lines), words


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_json_fits_the_encoding_of_standard_output(encoding: str):
    program = "from ascend_infer.cli.output import print_json; print_json({'text': 'é 北京'})"
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    finished = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, check=True
    )
    assert json.loads(finished.stdout.decode(encoding)) == {"text": "é 北京"}


def test_a_reader_that_stops_early_is_no_traceback():
    finished = subprocess.run(
        f"{sys.executable} -m ascend_infer generate --json | true",
        cwd=ROOT,
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in finished.stderr and "Exception ignored" not in finished.stderr


@needs_simulator
def test_installed_torch_npu_makes_sim_start_again(tmp_path: Path):
    before = fake_module(tmp_path, "torch_npu", "raise RuntimeError('loaded')")
    script = tmp_path / "script.py"
    script.write_text("import torch\nprint(torch.ones(2, device='npu').sum().item())\n")
    finished = command("sim", "run", str(script), before=before)
    assert finished.returncode == 0, finished.stderr
    assert "TORCH_DEVICE_BACKEND_AUTOLOAD=0" in finished.stderr and "2.0" in finished.stdout


@needs_simulator
@pytest.mark.parametrize(
    "body, exit_code",
    [
        ("pass", 0),
        ("raise SystemExit(7)", 7),
        ("1 / 0", 1),
        ("exit('no')", 1),
        ("exit(-1)", 255),
        ("raise KeyboardInterrupt", 130),
        ("import os; os.chdir('/'); os.system('echo from a child'); os.write(1, b'raw\\n')", 0),
    ],
)
def test_exit_code_is_the_script_s(tmp_path: Path, body: str, exit_code: int):
    script = tmp_path / "script.py"
    script.write_text(f"import sys\nprint('arguments', sys.argv[1:])\n{body}\n")
    report = tmp_path / "report.json"
    relative = os.path.relpath(report)
    finished = command("sim", "run", "--json", "--report", relative, str(script), "--json", "--op")
    assert finished.returncode == exit_code, finished.stderr
    assert "arguments ['--json', '--op']" in finished.stderr
    result = json.loads(finished.stdout)
    assert result["exit_code"] == exit_code and json.loads(report.read_text()) == result
    assert list(tmp_path.glob(".*")) == []
    assert ("from a child" in finished.stderr and "raw" in finished.stderr) == ("chdir" in body)


KERNEL = """
import torch, tilelang, tilelang.language as T

@tilelang.jit(out_idx=[-1])
def double(M, N):
    @T.prim_func
    def main(A: T.Tensor((M, N), "float32"), B: T.Tensor((M, N), "float32")):
        with T.Kernel(M, is_npu=True) as (cid, vid):
            a = T.alloc_ub((1, N), "float32")
            with T.Scope("V"):
                if vid == 0:
                    T.copy(A[cid, 0], a)
                    {wait}
                    T.tile.add(a, a, a)
                    T.barrier_all()
                    T.copy(a, B[cid, 0])
    return main

x = torch.randn(4, 64, device="npu")
torch.testing.assert_close(double(4, 64)(x).cpu(), (2 * x).cpu())
print("Kernel Output Match!")
"""


@needs_simulator
@pytest.mark.parametrize(
    "before, after, line, ended_with",
    [
        ("", "", "no findings", None),
        ("", "1 / 0", "no findings; the script ended with ZeroDivisionError", "ZeroDivisionError"),
        (
            "",
            "raise SystemExit(3)",
            "no findings; the script ended with exit code 3",
            "exit code 3",
        ),
        (
            "raise ValueError('no data')",
            "",
            "no launch was completed: nothing was checked; the script ended with ValueError",
            "ValueError",
        ),
        ("raise SystemExit", "", "no launch was completed: nothing was checked", None),
    ],
)
def test_no_findings_is_said_of_what_was_checked(
    before: str, after: str, line: str, ended_with: str | None, tmp_path: Path
):
    script, report = tmp_path / "script.py", tmp_path / "report.json"
    kernel = KERNEL.replace("{wait}", "T.barrier_all()")
    script.write_text(f"{before}\n{kernel}\n{after}\n")
    finished = command("sim", "run", "--report", str(report), str(script))
    assert finished.stdout.splitlines()[-1] == line
    assert json.loads(report.read_text())["ended_with"] == ended_with


@needs_simulator
def test_kernel_script_with_and_without_its_barrier(tmp_path: Path):
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text(KERNEL.replace("{wait}", "T.barrier_all()"))
    wrong.write_text(KERNEL.replace("{wait}", "pass"))
    good = command("sim", "run", "--json", str(right))
    assert good.returncode == 0, good.stderr
    result = json.loads(good.stdout)
    totals = result["kernels"]["main"]
    assert totals["launches"] == 1 and sum(totals["gm_read"].values()) == 4 * 64 * 4
    assert result["findings"] == [] and result["evidence"]["bytes"] == "simulated"
    bad = command("sim", "run", "--json", str(wrong))
    result = json.loads(bad.stdout)
    assert (bad.returncode, result["script_exit_code"], result["ended_with"]) == (1, 0, None)
    assert any(f["code"].startswith("AI-RACE") for f in result["findings"])
    raised = command("sim", "run", "--json", "--on-finding", "raise", str(wrong))
    result = json.loads(raised.stdout)
    assert (raised.returncode, result["script_exit_code"]) == (1, 1)
    assert result["ended_with"].startswith("AI-RACE")
    unchecked = command("sim", "run", "--checks", "off", "--json", str(wrong))
    assert unchecked.returncode == 0, unchecked.stderr


MAINLINE = """
import torch, tilelang, {language} as T

@tilelang.jit(out_idx=[-1])
def double(N):
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, 16){threads}) as core:
            tile = T.alloc_shared((16,), "float32")
            T.copy(A[core * 16], tile)
            T.copy(tile, B[core * 16])
    return main

double(64)(torch.ones(64, device="npu"))
"""


@needs_simulator
@pytest.mark.parametrize(
    "language, threads", [("tilelang.language", ", threads=128"), ("tilelang.ascend.language", "")]
)
def test_kernels_of_mainline_tilelang_are_named_as_such(
    language: str, threads: str, tmp_path: Path
):
    script = tmp_path / "mainline.py"
    script.write_text(MAINLINE.format(language=language, threads=threads))
    finished = command("sim", "run", "--json", str(script))
    error = json.loads(finished.stdout)["error"]
    assert finished.returncode == 1 and error["code"] == "AI-SRC-022"
    assert "adapter dialect" in error["rule"] and error["fix"]
    assert {"line", "text", "adapter"} == error["constructs"][0].keys()


@needs_simulator
def test_a_module_of_mainline_tilelang_is_translated_when_it_is_reached(tmp_path: Path):
    text = MAINLINE.format(language="tilelang.ascend.language", threads="")
    (tmp_path / "module.py").write_text(text)
    script = tmp_path / "script.py"
    script.write_text("import module\n")
    finished = command("sim", "run", "--json", str(script))
    error = json.loads(finished.stdout)["error"]
    assert finished.returncode == 1 and error["code"] == "AI-SRC-022"
    assert "module.py:" in error["where"]
    assert "written for mainline TileLang" in error["fix"] and "T.Kernel without" in error["fix"]


@needs_simulator
@pytest.mark.parametrize(
    "arguments, code",
    [
        (["/no/such/script.py"], "AI-DEV-012"),
        (["--checks", "magic", "x.py"], "AI-CLI-001"),
        (["--report", "/no/such/folder/r.json", "x.py"], "AI-CLI-004"),
        (["--report", "/", "x.py"], "AI-CLI-004"),
        (["--report", "/dev/null", "x.py"], "AI-CLI-004"),
        (["--report", "/dev/null/r.json", "x.py"], "AI-CLI-004"),
        (["--report", "/proc/r.json", "x.py"], "AI-CLI-004"),
        (["--target", "cuda", "x.py"], "AI-CLI-006"),
        ([], "AI-CLI-006"),
    ],
    ids=str,
)
def test_wrong_use_of_sim_run(arguments: list[str], code: str):
    finished = command("sim", "run", "--json", *arguments)
    assert finished.returncode == 2
    assert json.loads(finished.stdout)["error"]["code"] == code


@needs_simulator
def test_a_module_runs_as_python_m_runs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    package = tmp_path / "tool"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "part.py").write_text("NAME = 'part'\n")
    (package / "__main__.py").write_text(
        "import sys, torch\nfrom tool.part import NAME\n"
        "print(NAME, sys.argv[1:], torch.npu.get_device_name())\nsys.exit(3)\n"
    )
    monkeypatch.chdir(tmp_path)
    finished = command("sim", "run", "--target", "pto,A5", "-m", "tool", "-m", "x")
    assert finished.returncode == 3, finished.stderr
    assert "part ['-m', 'x'] Ascend950PR_9599" in finished.stdout
    missing = command("sim", "run", "--json", "-m", "no_such_module")
    assert missing.returncode == 2
    assert json.loads(missing.stdout)["error"]["code"] == "AI-DEV-012"
