"""Linting a file: run its module level without data, then check each kernel that it made."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from kernels_npu.dialect.guard import judge_file
from kernels_npu.errors import AscendInferError, KernelSourceError, SourceLocation, UsageError
from kernels_npu.sim.frontend.collection import collecting
from kernels_npu.sim.frontend.jit import JITFactory, JITKernel
from kernels_npu.sim.lint.arguments import found_calls
from kernels_npu.sim.lint.collecting import Candidate, Recorder, location_of
from kernels_npu.sim.lint.dialects import foreign_constructs
from kernels_npu.sim.lint.inert import DataFree
from kernels_npu.sim.lint.kernel import lint_candidate
from kernels_npu.sim.lint.main_parts import run_main_parts
from kernels_npu.sim.lint.report import FileReport
from kernels_npu.sim.machine.findings import ERROR, WARNING, Finding
from kernels_npu.sim.machine.launch_reports import refusal
from kernels_npu.sim.soc import get_soc


def python_files(paths: Iterable[str | Path]) -> list[Path]:
    """The files that `paths` name; of a directory all Python files below it.

    Raises:
        UsageError: AI-CLI-004 for a path that does not exist.
    """
    files: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            files += sorted(p for p in path.rglob("*.py") if "__pycache__" not in p.parts)
        elif path.is_file():
            files.append(path)
        else:
            raise UsageError(
                "AI-CLI-004", f"{path} is neither a file nor a directory", fix="correct the path"
            )
    return list(dict.fromkeys(files))


def lint_file(
    path: str | Path,
    *,
    target: str | None = None,
    soc: str = "Ascend910B1",
    calls: Sequence[str] = (),
    main: bool = False,
) -> FileReport:
    """Check every kernel that the file makes when it is imported, and those of its factories.

    target: `ascendc` or `pto` for all kernels; by default each kernel's own. calls: expressions
    such as `matmul(1024, 512)`, evaluated in the file's module, that instantiate more kernels.
    No kernel is launched. The part under `if __name__ == "__main__"` and test functions run only
    with `main`, also without data, and only when a factory is left that nothing else instantiates.
    A file that is written for another dialect is not run: its constructs are the findings.

    Raises:
        UsageError: AI-LINT-003 for a call that cannot be evaluated.
    """
    file = Path(path)
    chip = get_soc(soc)
    verdict = judge_file(file)
    if verdict.refused:
        return FileReport(file=str(path), findings=tuple(foreign_constructs(file, verdict)))
    data = DataFree()
    recorder = Recorder(data)
    findings: list[Finding] = []
    quiet = contextlib.redirect_stdout(io.StringIO())  # "results match" would be a lie
    with collecting(recorder), _importable(file), data.active(), quiet:
        module, stopped = _execute(file)
        if stopped is not None:
            findings.append(stopped)
        for call in calls:
            _call(call, module)
        findings += _instantiate_the_rest(file, module, recorder, main=main)
        for func in recorder.leftovers():
            if Path(func.ir.loc.file) == file.resolve() or not recorder.candidates:
                recorder.made(JITKernel(func))
    kernels = [
        lint_candidate(c, target, chip) for c in _distinct(recorder.candidates, file.resolve())
    ]
    return FileReport(file=str(path), kernels=tuple(kernels), findings=tuple(findings))


@contextlib.contextmanager
def _importable(file: Path) -> Iterator[None]:
    """The file's neighbours can be imported, `tilelang` is the simulator's; undone afterwards."""
    from kernels_npu.sim.frontend.shims import install_shims

    if importlib.util.find_spec("torch") is not None:
        from kernels_npu.sim.device.setup import enable

        enable()
    install_shims()
    saved_path, saved_argv, known = list(sys.path), sys.argv, set(sys.modules)
    folder = file.resolve().parent
    sys.path.insert(0, str(folder))
    sys.argv = [str(file)]
    try:
        yield
    finally:
        sys.path[:], sys.argv = saved_path, saved_argv
        # The next file may have neighbours of the same names.
        for name in set(sys.modules) - known:
            origin = getattr(sys.modules[name], "__file__", None)
            if origin and folder in Path(origin).resolve().parents:
                del sys.modules[name]


def _execute(file: Path) -> tuple[ModuleType, Finding | None]:
    """Run the module level; the module as far as it got, and what stopped it."""
    module = ModuleType(file.stem)
    module.__file__ = str(file.resolve())
    where = SourceLocation(str(file.resolve()), 1)
    try:
        text = file.read_bytes()
        code = compile(text, str(file.resolve()), "exec", dont_inherit=True)
        sys.modules[file.stem] = module
        exec(code, module.__dict__)
    except SystemExit:
        return module, None
    except KernelSourceError as error:
        return module, refusal(file.name, error, _line_in(file, error) or where)
    except SyntaxError as error:
        line = SourceLocation(str(file.resolve()), error.lineno or 1)
        return module, _stopped(file, f"{type(error).__name__}: {error.msg}", line, ERROR)
    except Exception as error:  # noqa: BLE001 - the script's own code may raise anything
        kind, line = _one_line(error), _line_in(file, error) or where
        # Without data a script's own checks may fail; without an import nothing was seen at all.
        severity = ERROR if isinstance(error, ImportError) else WARNING
        return module, _stopped(file, kind, line, severity)
    finally:
        sys.modules.pop(file.stem, None)
    return module, None


def _stopped(file: Path, what: str, line: SourceLocation, severity: str) -> Finding:
    return Finding(
        code="AI-LINT-001",
        severity=severity,
        message=f"the module level ended with {what}; kernels made after this line were not seen",
        kernel=file.name,
        loc=line,
        fix='correct the line, or put what needs data under `if __name__ == "__main__"`',
    )


def _one_line(error: BaseException) -> str:
    text = error.what if isinstance(error, AscendInferError) else str(error).split("\n")[0]
    return f"{type(error).__name__}: {text}"


def _line_in(file: Path, error: BaseException) -> SourceLocation | None:
    """The innermost line of the file on the way to `error`."""
    name = str(file.resolve())
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == name]
    return SourceLocation(name, lines[-1] or 1) if lines else None


def _call(call: str, module: ModuleType) -> None:
    try:
        eval(call, module.__dict__)
    except AscendInferError:
        raise
    except Exception as error:
        raise UsageError(
            "AI-LINT-003",
            f"--call {call!r} ended with {type(error).__name__}: {error}",
            rule="the call is evaluated in the file's module, where its factories are names",
            fix="write a call such as 'matmul(1024, 1024, 512)'",
        ) from error


def _instantiate_the_rest(
    file: Path, module: ModuleType, recorder: Recorder, *, main: bool
) -> list[Finding]:
    """Kernels of the factories that nothing has called; a finding for each that stays unknown."""
    reasons = {}
    for factory in recorder.open_factories(str(file.resolve())):
        reasons[id(factory)] = _try_calls(file, module, factory)
    left = recorder.open_factories(str(file.resolve()))
    if main and (left or not recorder.candidates):
        run_main_parts(file, module)
        left = recorder.open_factories(str(file.resolve()))
    unknown = "its arguments were not known while it was called"
    return [_not_instantiated(f, reasons.get(id(f), unknown), main=main) for f in left]


def _try_calls(file: Path, module: ModuleType, factory: JITFactory) -> str:
    """Call `factory` with the arguments that the file shows, else with its defaults."""
    name = factory.func.__name__
    text = file.read_text(encoding="utf-8")
    tried: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    reason = "no call of it in the file has arguments that can be known without running it"
    for arguments in [*found_calls(text, str(file), name, module.__dict__), ((), {})]:
        if arguments in tried or (arguments == ((), {}) and tried):
            continue
        tried.append(arguments)
        try:
            factory(*arguments[0], **arguments[1])
        except TypeError as error:
            if arguments != ((), {}):
                reason = f"{type(error).__name__}: {error}"
        except Exception as error:  # noqa: BLE001 - the factory may raise anything
            reason = f"{type(error).__name__}: {error}"
    return reason


def _not_instantiated(factory: JITFactory, reason: str, *, main: bool) -> Finding:
    name = factory.func.__name__
    hint = "" if main else ", or --main to find them by running the main part without data"
    return Finding(
        code="AI-LINT-002",
        severity=WARNING,
        message=f"the kernels of {name} were not checked: {reason}",
        kernel=name,
        loc=location_of(factory),
        fix=f"pass --call '{name}(...)' with its arguments{hint}",
    )


def _distinct(candidates: list[Candidate], file: Path) -> list[Candidate]:
    """Each kernel once; those of other files only when this one made them."""
    seen: dict[object, Candidate] = {}
    for candidate in candidates:
        key = id(candidate.kernel.prim_func) if candidate.kernel else candidate.made_by
        seen.setdefault(key, candidate)
    return list(seen.values())
