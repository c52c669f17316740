"""Collections with a stand-in for msprof: what is run, what is kept, and how each fault is told."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kernels_npu.errors import AscendInferError, EnvironmentProblem, UsageError
from kernels_npu.evidence import Evidence
from profiling import manifest
from profiling.collect import MODES, Request
from profiling.collect.collection import Collection, Surroundings, collect
from profiling.collect.tool import Tool, check_version, find_tool
from tests.profiling import fake_msprof, fixtures

#: Programs that are profiled.
GOOD = "print('step done')"
RAISING = "raise ValueError('no such block')"
SEGFAULT = "import ctypes; ctypes.string_at(0)"
SLOW = "import time; print('begun', flush=True); time.sleep(60)"


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the stand-ins, first on the PATH, and an environment without Ascend's."""
    folder = fake_msprof.install(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    for name in ("ASCEND_RT_VISIBLE_DEVICES", "ASCEND_HOME_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return folder


def run(
    program: str = GOOD,
    mode: str = "op",
    *,
    kernels: str = "Cast,rms_norm_kernel",
    fault: str = "",
    limit_s: float | None = 60,
    **values: str,
) -> Collection:
    """Collect `program`, which launches `kernels`."""
    given = {name.replace("_", "-"): value for name, value in values.items()}
    if mode != "app":
        given = {"kernel-name": "rms_norm_kernel*", **given}
    Path("app.py").write_text(program)
    around = Surroundings(
        environment={**os.environ, fake_msprof.KERNELS: kernels, fake_msprof.FAULT: fault},
        limit_s=limit_s,
        onward=io.BytesIO(),
    )
    asked = Request(mode=MODES[mode], values=given, application=(sys.executable, "app.py"))
    return collect(asked, around)


def error_of(collection: Collection) -> AscendInferError:
    """The error; the manifest and the outputs have to be there, too."""
    assert collection.error is not None
    assert collection.error.fix
    kept = manifest.read(collection.folder)
    assert kept == collection.manifest
    assert kept.outcome == collection.error.code
    assert {"output.out", "output.err"} <= {path.name for path in collection.folder.iterdir()}
    return collection.error


def test_one_kernel(tools: Path) -> None:
    collection = run()
    assert collection.error is None and collection.warnings == ()
    assert collection.profile is not None
    (kernel,) = collection.profile.kernels
    assert kernel.name == "rms_norm_kernel"
    # The stand-in says of its figures that nobody measured them.
    assert kernel.info_figure("task_duration_us").evidence is Evidence.SIMULATED
    kept = manifest.read(collection.folder)
    assert kept.evidence is Evidence.NPU_MEASURED and kept.exit_status == 0 and not kept.outcome
    assert kept.command[:2] == ("msprof", "op") and kept.command[-2:] == (sys.executable, "app.py")
    assert kept.versions["msprof op"] == "26.0.0" and "Python" in kept.versions
    assert kept.started <= kept.ended
    assert kept.settings["warm_up_and_caches"].startswith("5 replays")
    assert kept.environment["PYTHONUNBUFFERED"] == "1"
    assert "step done" in (collection.folder / "output.out").read_text()
    assert collection.folder.stat().st_mode & 0o777 == 0o700


def test_several_kernels_and_a_limit_to_them(tools: Path) -> None:
    names = "rms_norm_kernel,silu_and_mul_kernel,rms_norm_kernel"
    collection = run(kernels=names, kernel_name="rms*|silu*", launch_count="9")
    assert sorted(k.name for k in collection.profile.kernels) == sorted(names.split(","))
    assert collection.warnings == ()
    collection = run(kernels=names, kernel_name="*", launch_count="2")
    assert len(collection.profile.kernels) == 2
    assert "--launch-count=2" in collection.warnings[0]


def test_each_collection_has_a_folder_of_its_own(tools: Path) -> None:
    first, second = run(), run()
    assert first.folder != second.folder
    assert first.folder.parent == second.folder.parent == Path("msprof")
    assert len(second.profile.kernels) == 1


def test_output_is_passed_on_while_it_arrives(tools: Path) -> None:
    heard = io.BytesIO()
    Path("app.py").write_text(GOOD)
    started: list[Path] = []
    around = Surroundings(onward=heard, on_start=lambda folder, command: started.append(folder))
    asked = Request(mode=MODES["op"], application=(sys.executable, "app.py"))
    collection = collect(asked, around)
    assert started == [collection.folder]
    assert b"step done" in heard.getvalue() and b"Profiling results saved" in heard.getvalue()


def test_a_simulation(tools: Path) -> None:
    collection = run(mode="simulator", soc_version="Ascend910B1")
    assert collection.error is None
    assert collection.manifest.evidence is Evidence.MODELLED
    assert collection.manifest.made_by == "msprof op simulator"


def test_an_application(tools: Path) -> None:
    collection = run(mode="app", kernels="matmul")
    assert collection.error is None
    assert len(collection.profile.tasks) == 2


def test_msopprof_alone_is_found(tools: Path) -> None:
    (tools / "msprof").unlink()
    assert run().manifest.made_by == "msopprof"
    assert run(mode="simulator").manifest.command[:2] == ("msopprof", "simulator")
    with pytest.raises(EnvironmentProblem) as caught:
        run(mode="app")
    assert caught.value.code == "AI-PROF-001"


@pytest.mark.parametrize("mode", ["op", "simulator", "app"])
def test_no_msprof(tools: Path, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tools / "elsewhere"))
    with pytest.raises(EnvironmentProblem) as caught:
        run(mode=mode)
    assert caught.value.code == "AI-PROF-001"
    assert not Path("msprof").exists()


def test_no_kernel_matches(tools: Path) -> None:
    error = error_of(run(kernels="Cast,ZerosLike"))
    assert error.code == "AI-PROF-003"
    assert "Cast, ZerosLike" in error.what and error.fix == "--kernel-name=Cast"


def test_another_kernel_than_the_one_that_was_asked_for(tools: Path) -> None:
    """A tool that does not heed the name."""
    program = tools / "msprof"
    text = program.read_text().replace("sys.argv[1:]", "a for a in sys.argv[1:] if 'name' not in a")
    program.write_text(text.replace("*a for", "*(a for").replace("in a]", "in a)]"))
    error = error_of(run(kernels="Cast"))
    assert error.code == "AI-PROF-003" and "but Cast" in error.what


def test_what_is_quoted_does_not_steer_the_terminal(tools: Path) -> None:
    program = tools / "msprof"
    program.write_text("#!/bin/sh\nprintf 'bad\\033[2J\\a\\377 end\\n'; exit 7\n")
    what = error_of(run()).what
    assert "exit code 7" in what and " end" in what and what.isprintable()


@pytest.mark.parametrize(
    ("mode", "program", "why"),
    [
        ("op", RAISING, "ValueError: no such block"),
        ("simulator", SEGFAULT, "Segmentation fault"),
        ("app", RAISING, "ValueError: no such block"),
    ],
)
def test_an_application_that_crashes(tools: Path, program: str, why: str, mode: str) -> None:
    error = error_of(run(program, mode))
    assert error.code == "AI-PROF-040"
    assert why in error.what


@pytest.mark.parametrize(
    ("arguments", "why"),
    [(["missing.py"], "can't open file"), (["-m", "no_such_module"], "No module named")],
)
def test_an_application_that_does_not_begin(tools: Path, arguments: list[str], why: str) -> None:
    asked = Request(mode=MODES["app"], application=(sys.executable, *arguments))
    error = error_of(collect(asked, Surroundings(onward=io.BytesIO())))
    assert error.code == "AI-PROF-040" and why in error.what


def test_a_warning_about_a_module_is_no_crash(tools: Path) -> None:
    program = GOOD + "\nprint(\"WARNING: No module named 'triton'\")\n"
    assert run(program).error is None


@pytest.mark.parametrize("mode", ["op", "simulator"])
def test_no_word_and_no_data(tools: Path, mode: str) -> None:
    error = error_of(run(mode=mode, fault="silent"))
    assert error.code == "AI-PROF-043"
    assert "not a word" in error.what


def test_an_error_of_the_tools_own(tools: Path) -> None:
    error = error_of(run(fault="crash"))
    assert error.code == "AI-PROF-002"
    assert "exit code 1" in error.what and "inner error" in error.what
    assert "app.py" in (error.fix or "")


@pytest.mark.parametrize(
    ("mode", "fault", "code"),
    [
        ("op", "headers", "AI-PROF-044"),
        ("op", "half", "AI-PROF-044"),
        ("op", "untimed", "AI-PROF-043"),
        ("simulator", "headers", "AI-PROF-042"),
        ("simulator", "half", "AI-PROF-044"),
        ("app", "half", "AI-PROF-044"),
    ],
)
def test_files_that_are_not_whole(tools: Path, mode: str, fault: str, code: str) -> None:
    collection = run(mode=mode, fault=fault)
    assert error_of(collection).code == code
    assert list(collection.folder.glob("*PROF_*"))


def test_a_crash_after_the_last_wanted_launch_is_none(tools: Path) -> None:
    """As with --kill=on: what was asked for is there."""
    program = "print('Traceback (most recent call last):\\n  f()\\nKeyError: 1')"
    assert run(program, launch_count="1").error is None
    error = error_of(run(program, launch_count="2"))
    assert error.code == "AI-PROF-040"
    assert "launches: 1" in error.what


def test_what_was_collected_until_the_time_limit_is_kept(tools: Path) -> None:
    begun = time.monotonic()
    collection = run(fault="hang", limit_s=3)
    assert time.monotonic() - begun < 30
    error = error_of(collection)
    assert error.code == "AI-PROF-041" and "3 s" in error.what and "launches: 1" in error.what
    assert [kernel.name for kernel in collection.profile.kernels] == ["rms_norm_kernel"]
    assert "step done" in (collection.folder / "output.out").read_text()
    assert collection.manifest.exit_status is None


def test_an_interrupt_keeps_what_there_is(tools: Path) -> None:
    Path("app.py").write_text(SLOW)
    ours = subprocess.Popen(
        [sys.executable, "-m", "ascend_infer", "profile", "op", "--", sys.executable, "app.py"],
        env={**os.environ, "PYTHONPATH": str(fake_msprof.ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert ours.stderr is not None
    while b"begun" not in (line := ours.stderr.readline()):
        assert line, "it ended before it was interrupted"
    ours.send_signal(signal.SIGINT)
    _, said = ours.communicate(timeout=60)
    assert ours.returncode == 130
    (folder,) = Path("msprof").iterdir()
    assert f"what was collected until now is in {folder}" in said.decode()
    assert manifest.read(folder).outcome == "AI-CLI-007"
    assert "begun" in (folder / "output.out").read_text()


def test_a_program_that_is_none(tools: Path) -> None:
    (tools / "msprof").write_text("no program\n")
    with pytest.raises(EnvironmentProblem) as caught:
        run()
    assert caught.value.code == "AI-PROF-002" and "cannot be started" in caught.value.what
    (folder,) = Path("msprof").iterdir()
    assert manifest.read(folder).outcome == "AI-PROF-002"


@pytest.mark.parametrize("output", ["a-file", "a-file/below", "closed"])
def test_an_output_that_cannot_be_written(tools: Path, output: str, tmp_path: Path) -> None:
    (tmp_path / "a-file").touch()
    (tmp_path / "closed").mkdir(mode=0o500)
    if output == "closed" and os.access("closed", os.W_OK):
        pytest.skip("this user may write everywhere")
    asked = Request(mode=MODES["op"], application=(sys.executable,), output=Path(output))
    with pytest.raises(UsageError) as caught:
        collect(asked)
    assert caught.value.code == "AI-CLI-004" and output in caught.value.what


def test_what_msprof_demands_of_the_folder(tools: Path, tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    (tmp_path / "link").symlink_to("shared")
    asked = Request(mode=MODES["op"], application=(sys.executable, "-c", "1"), output=Path("link"))
    collection = collect(asked, Surroundings(onward=io.BytesIO()))
    assert any("is a link" in warning for warning in collection.warnings)
    assert any("chmod go-w" in warning for warning in collection.warnings)
    deep = Path("new") / "below"
    collect(
        Request(mode=MODES["op"], application=(sys.executable, "-c", "1"), output=deep),
        Surroundings(onward=io.BytesIO()),
    )
    assert deep.stat().st_mode & 0o027 == 0 and deep.parent.stat().st_mode & 0o027 == 0


@pytest.mark.parametrize(
    ("application", "fix"),
    [("script.py", "-- python script.py"), ("run.sh", "chmod u+x"), ("no-such-program", "name")],
)
def test_an_application_that_cannot_be_started(tools: Path, application: str, fix: str) -> None:
    fixtures.write(Path(), {"script.py": "", "run.sh": ""})
    with pytest.raises(UsageError) as caught:
        collect(Request(mode=MODES["op"], application=(f"./{application}",)))
    assert caught.value.code == "AI-PROF-039"
    assert fix in (caught.value.fix or "").replace("./", "")
    assert not Path("msprof").exists()


def test_variables_files_and_simulators_of_the_host(
    tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="no such file") as caught:
        run(custom_input="absent.json")
    assert caught.value.code == "AI-PROF-034"
    simulators = tmp_path / "cann" / "tools" / "simulator"
    (simulators / "Ascend910B3").mkdir(parents=True)
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path / "cann"))
    with pytest.raises(UsageError, match="Ascend910B3"):
        run(mode="simulator", soc_version="Ascend910B1")
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "1")
    assert run(mode="simulator", soc_version="Ascend910B3").error is None
    with pytest.raises(EnvironmentProblem) as refused:
        run()
    assert refused.value.code == "AI-PROF-004"


@pytest.mark.parametrize(
    ("version", "taken"),
    [("8.3.0", False), ("26.0.0", False), ("26.1.0", True), ("9.0.0", True), ("", True)],
)
def test_an_option_that_is_newer_than_the_tool(version: str, taken: bool) -> None:
    asked = Request(mode=MODES["op"], values={"custom-input": "ticks.json"}, application=("./app",))
    tool = Tool(words=("msprof", "op"), program="msprof", version=version)
    if taken:
        check_version(asked, tool)
    else:
        with pytest.raises(UsageError, match=version) as caught:
            check_version(asked, tool)
        assert caught.value.code == "AI-PROF-038"


def test_a_tool_that_does_not_say_its_version(tmp_path: Path) -> None:
    """It hangs, or has no such option; what it is run for will show what is wrong."""
    for text, version in (("echo 26.1.0; exit 1", ""), ("echo v26.1.0-rc1", "26.1.0")):
        program = tmp_path / "msprof"
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
        assert find_tool(MODES["app"], {"PATH": f"{tmp_path}:{os.defpath}"}).version == version
