"""The command `ascend-infer`. Commands are imported when they run; `--help` needs no torch.

Exit codes: 0 good, 1 a check failed or an execution found a fault, 2 wrong use.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from ascend_infer import __version__
from kernels_npu.errors import AscendInferError, EnvironmentProblem, UnsupportedError, UsageError

#: Errors of the caller or the installation, as opposed to failed checks.
_WRONG_USE = (UsageError, UnsupportedError, EnvironmentProblem)


class _Parser(argparse.ArgumentParser):
    """Reports wrong arguments to `main`, which knows how errors are printed."""

    #: Options and words are being parsed in turns, each of which leaves the others.
    _intermixed = False

    def error(self, message: str) -> NoReturn:
        raise UsageError("AI-CLI-006", f"{self.prog}: {message}", fix=f"see `{self.prog} --help`")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Refuses what is left: by the command that does not take it, not by the program."""
        found, rest = super().parse_known_args(args, namespace)
        if rest and not self._intermixed:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return found, rest

    def parse_known_intermixed_args(
        self, args: Any = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """What is left is the caller's to refuse, which `parse_intermixed_args` does."""
        self._intermixed = True
        try:
            return super().parse_known_intermixed_args(args, namespace)
        finally:
            self._intermixed = False


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code.

    Errors raised on purpose are printed with their code; any other exception is a defect of ours
    and keeps its traceback. With `--json` standard output gets its one object in every case.
    """
    try:
        exit_code = _run(argv)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has stopped; the interpreter must not try to write the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return exit_code


def _run(argv: Sequence[str] | None) -> int:
    from ascend_infer.cli import output

    arguments = list(sys.argv[1:] if argv is None else argv)
    as_json = "--json" in arguments
    try:
        options = _parser().parse_args(arguments)
        as_json = options.json
        output.configure_logging(verbose=options.verbose)
        output.escape_unprintable()
        if argv is None:
            _restart_if_needed(options, arguments)
        exit_code: int = options.run(options)
    except AscendInferError as error:
        output.print_error(error, as_json=as_json)
        return 2 if _is_wrong_use(error) else 1
    except KeyboardInterrupt:
        output.print_error(_INTERRUPTED, as_json=as_json)
        return _INTERRUPT_EXIT_CODE
    except BrokenPipeError:
        raise
    except Exception as error:
        if as_json:
            output.print_error(_defect(error), as_json=True)
        raise
    return exit_code


#: What a shell reports for a process that SIGINT ended.
_INTERRUPT_EXIT_CODE = 130
_INTERRUPTED = AscendInferError("AI-CLI-007", "interrupted", fix="run the command again")


def _defect(error: Exception) -> AscendInferError:
    return AscendInferError(
        "AI-CLI-008",
        f"{type(error).__name__}: {error}",
        rule="this is a defect of the toolkit, not of your input",
        fix="report it with the traceback on standard error",
    )


def _is_wrong_use(error: AscendInferError) -> bool:
    """Also when another error reports it: a capture fails because no kernel serves the model."""
    return isinstance(error, _WRONG_USE) or isinstance(error.__cause__, _WRONG_USE)


def _parser() -> _Parser:
    from ascend_infer.cli import (
        bench,
        diagnose,
        doctor,
        estimate,
        export_model,
        generate,
        lint,
        profile,
        report,
        serving,
        simulate,
        verify,
        vllm,
    )

    parser = _Parser(
        prog="ascend-infer",
        description="LLM decode kernels for Ascend NPUs, on hardware and on a simulated NPU.",
        epilog="Exit codes: 0 good, 1 a check failed, 2 wrong use.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module in (
        doctor,
        generate,
        verify,
        simulate,
        lint,
        profile,
        report,
        bench,
        estimate,
        serving,
        vllm,
        export_model,
        diagnose,
    ):
        module.add_command(commands)
    return parser


def _restart_if_needed(options: argparse.Namespace, arguments: Sequence[str]) -> None:
    """Start again without torch_npu's automatic loading, when the simulated device needs that."""
    from ascend_infer.devices import restart_environment

    environment = restart_environment(getattr(options, "device", ""))
    if environment is not None:
        print(
            "ascend-infer: torch_npu is installed; starting again with "
            "TORCH_DEVICE_BACKEND_AUTOLOAD=0 for the simulated device",
            file=sys.stderr,
        )
        command = [sys.executable, "-m", "ascend_infer", *arguments]
        os.execve(sys.executable, command, dict(environment))
