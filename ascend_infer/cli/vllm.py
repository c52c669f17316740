"""`ascend-infer vllm`: whether the plugin serves in this environment's vLLM; KV hand-over."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ascend_infer.cli import options, vllm_verify
from kernels_npu.errors import UsageError

if TYPE_CHECKING:
    from ascend_infer.kv_contract import KVContract
    from ascend_infer.vllm_plugin.entry_point import Loading


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command, its subcommands and their options."""
    group = commands.add_parser("vllm", help="the plugin of vLLM").add_subparsers(
        title="commands", metavar="COMMAND", required=True
    )
    status = group.add_parser(
        "status",
        help="what the plugin replaces in this host, and why not",
        description="Versions, the pinned text of the host's functions, switches, and whether the "
        "plugin can be loaded as vLLM loads it, without importing vLLM. What a running server "
        "really calls, its workers tell: the method ascend_infer_status of "
        "ascend_infer.vllm_plugin.worker_extension. Exit code 0: what is asked for will be "
        "replaced.",
    )
    options.add_common(status)
    status.set_defaults(run=run_status)
    vllm_verify.add_command(group)
    kv_check = group.add_parser(
        "kv-check",
        help="whether one engine can read the KV cache of another",
        description="Compare the records of two engines (`ascend_infer.kv_contract`), which the "
        "method ascend_infer_kv_contract of ascend_infer.vllm_plugin.worker_extension gives. "
        "Exit code 0: they agree on every fact, 1: they do not.",
    )
    kv_check.add_argument(
        "writer", type=Path, metavar="WRITER", help="record of the engine that fills it"
    )
    kv_check.add_argument(
        "reader", type=Path, metavar="READER", help="record of the engine that reads it"
    )
    options.add_common(kv_check)
    kv_check.set_defaults(run=run_kv_check)


def run_status(arguments: argparse.Namespace) -> int:
    """Run `vllm status`; 1 when something that is asked for is left to the host."""
    from ascend_infer.cli import output
    from ascend_infer.vllm_plugin import status
    from ascend_infer.vllm_plugin.entry_point import loadings

    found, loaded = status(), loadings()
    wanted = [op for op in found["ops"].values() if op["asked"]]
    loads = not any(loading.problems for loading in loaded)
    passed = all(op["refusal"] is None for op in wanted) and (loads or not wanted)
    if arguments.json:
        loading_json = [dataclasses.asdict(loading) for loading in loaded]
        output.print_json({"passed": passed, "loading": loading_json, **found})
    else:
        output.print_table(
            "ascend-infer vllm status",
            ("operator", "asked for", "in this host"),
            [
                (name, "yes" if op["asked"] else "no", _verdict(op))
                for name, op in found["ops"].items()
            ],
            note="\n".join([*_notes(found), *_loading_notes(loaded)]),
        )
    return 0 if passed else 1


def run_kv_check(arguments: argparse.Namespace) -> int:
    """Run `vllm kv-check`; 1 when the engines differ in a fact."""
    from ascend_infer.cli import output
    from ascend_infer.kv_contract import mismatches

    writer, reader = (_record(path) for path in (arguments.writer, arguments.reader))
    found = mismatches(writer, reader)
    if arguments.json:
        differing = [dataclasses.asdict(mismatch) for mismatch in found]
        output.print_json({"passed": not found, "mismatches": differing})
    else:
        output.print_table(
            "ascend-infer vllm kv-check",
            ("fact", "is written", "is read"),
            [(m.field, m.producer, m.consumer) for m in found],
            note=f"{len(found)} facts differ: bytes would be read as something else"
            if found
            else f"the engines agree; {writer.block_bytes:,} bytes per block and rank",
        )
    return 1 if found else 0


def _record(path: Path) -> KVContract:
    from ascend_infer.kv_contract import KVContract

    try:
        return KVContract.from_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            "AI-CLI-004", f"{path} cannot be read: {error}", fix="name a JSON file"
        ) from error


def _verdict(op: dict[str, Any]) -> str:
    if op["refusal"] is not None:
        return f"the host's serves: {op['refusal']}"
    return "ours serves" if op["asked"] else "ours would serve"


def _notes(found: dict[str, Any]) -> list[str]:
    host = found["host"]
    notes = [
        f"vLLM {host['vllm'] or 'without a version'}, {host['label']}; asked in: "
        f"{found['asked_in']}"
    ]
    if not any(op["asked"] for op in found["ops"].values()):
        notes.append("nothing is replaced: set ASCEND_INFER_VLLM_OPS=all")
    return notes


def _loading_notes(loadings: list[Loading]) -> list[str]:
    """What becomes of the plugin, each fact once with the ways to start vLLM that it is true of."""
    facts: dict[str, list[str]] = {}
    for loading in loadings:
        found = [f"vLLM starts without us: {what}" for what in loading.problems]
        found += [] if found else [f"vLLM loads {loading.file}"]
        if len(loading.installed) > 1:
            found.append(f"installed more than once: {', '.join(loading.installed)}")
        for fact in found:
            facts.setdefault(fact, []).append(loading.started)
    return [f"{fact} ({'; '.join(starts)})" for fact, starts in facts.items()]
