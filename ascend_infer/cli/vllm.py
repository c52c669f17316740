"""`ascend-infer vllm`: whether the plugin serves in this environment's vLLM, and why not."""

from __future__ import annotations

import argparse
from typing import Any

from ascend_infer.cli import options


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command, its subcommand and their options."""
    group = commands.add_parser("vllm", help="the plugin of vllm-ascend").add_subparsers(
        title="commands", metavar="COMMAND", required=True
    )
    status = group.add_parser(
        "status",
        help="what the plugin replaces in this host, and why not",
        description="Versions, the pinned text of the host's functions, switches and the entry "
        "point, without importing vLLM. What a running server really calls, its workers tell: "
        "llm.collective_rpc(ascend_infer.vllm_plugin.worker_status). Exit code 0: what is asked "
        "for will be replaced.",
    )
    options.add_common(status)
    status.set_defaults(run=run_status)


def run_status(arguments: argparse.Namespace) -> int:
    """Run `vllm status`; 1 when something that is asked for is left to the host."""
    from ascend_infer.cli import output
    from ascend_infer.vllm_plugin import status

    found = status()
    wanted = [op for op in found["ops"].values() if op["asked"]]
    passed = all(op["refusal"] is None for op in wanted) and (found["entry_point"] or not wanted)
    if arguments.json:
        output.print_json({"passed": passed, **found})
    else:
        output.print_table(
            "ascend-infer vllm status",
            ("operator", "asked for", "in this host"),
            [
                (name, "yes" if op["asked"] else "no", _verdict(op))
                for name, op in found["ops"].items()
            ],
            note="\n".join(_notes(found)),
        )
    return 0 if passed else 1


def _verdict(op: dict[str, Any]) -> str:
    if op["refusal"] is not None:
        return f"the host's serves: {op['refusal']}"
    return "ours serves" if op["asked"] else "ours would serve"


def _notes(found: dict[str, Any]) -> list[str]:
    host = found["host"]
    notes = [
        f"vLLM {host['vllm'] or 'is not installed'}, vllm-ascend "
        f"{host['vllm_ascend'] or 'is not installed'}; asked in: {found['asked_in']}"
    ]
    if not found["entry_point"]:
        notes.append("vLLM does not find the plugin: install ascend-infer with pip")
    if not any(op["asked"] for op in found["ops"].values()):
        notes.append("nothing is replaced: set ASCEND_INFER_VLLM_OPS=all")
    return notes
