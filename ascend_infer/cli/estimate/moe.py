"""`ascend-infer estimate moe`: what a fused MoE kernel's grid makes of a routing."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ascend_infer.cli import options
from kernels_npu.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kernels_npu.moe import DispatchTables

#: As in `kernels_npu.moe`, which is not imported until the command runs.
_RULES = ("plus-one", "ceil")
_MOST_EXPERTS_SHOWN = 16


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command and its options."""
    parser = commands.add_parser(
        "moe",
        help="dispatch tables and grid of a fused MoE kernel",
        description="The tables that the host hands to a grouped matrix product, checked: rows per "
        "expert, where they begin, blocks and rows that compute nothing, and bytes of permute and "
        "combine.",
    )
    whole = options.integer
    parser.add_argument("--tokens", type=whole(0), default=9, help="tokens of a step (default: 9)")
    parser.add_argument("--top-k", type=whole(1), default=2, help="experts per token (default: 2)")
    parser.add_argument(
        "--experts", type=whole(1), default=4, help="experts of this rank (default: 4)"
    )
    parser.add_argument(
        "--block-rows", type=whole(1), default=128, help="rows of a block (default: 128)"
    )
    parser.add_argument(
        "--padding",
        choices=_RULES,
        default="plus-one",
        help="blocks of an expert: ceil((count + 1) / rows), as tilelang's example (default), or "
        "ceil(count / rows)",
    )
    parser.add_argument(
        "--routing",
        default="uniform",
        metavar="uniform|zipf|first|FILE",
        help="drawn, or a JSON file of one list of experts per token (default: uniform)",
    )
    parser.add_argument("--seed", type=whole(0), default=0, help="of the routing (default: 0)")
    parser.add_argument(
        "--hidden", type=whole(1), metavar="N", help="width of a token: adds the bytes moved"
    )
    parser.add_argument(
        "--bits", type=whole(1), default=16, help="per element of a token (default: 16)"
    )
    parser.add_argument("--tables", action="store_true", help="with --json: all tables in full")
    options.add_common(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Build, check, print."""
    from ascend_infer.cli import output
    from kernels_npu.moe import build_dispatch, check_dispatch

    routing = _routing(arguments)
    tables = build_dispatch(
        routing,
        num_experts=arguments.experts,
        block_rows=arguments.block_rows,
        padding=arguments.padding,
    )
    check_dispatch(tables, routing)
    if arguments.json:
        output.print_json(_as_json(arguments, tables, len(routing)))
    else:
        _show(arguments, tables, len(routing))
    return 0


def _routing(arguments: argparse.Namespace) -> NDArray[Any]:
    import numpy as np

    from kernels_npu.moe import sample_routing

    path = Path(arguments.routing)
    if path.suffix != ".json":
        return sample_routing(
            arguments.routing,
            tokens=arguments.tokens,
            top_k=arguments.top_k,
            num_experts=arguments.experts,
            seed=arguments.seed,
        )
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        table = np.array(rows) if rows else np.empty((0, arguments.top_k), dtype=np.int64)
    except (OSError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise UsageError(
            "AI-CLI-004",
            f"{path}: {error}",
            rule="a routing is a JSON list of equally long lists of experts",
            fix="write [[0, 3], [1, 2]] for two tokens with two experts each",
        ) from error
    return table


def _moved(arguments: argparse.Namespace, rows: int, tokens: int) -> dict[str, float] | None:
    """Bytes of the two steps that compute nothing."""
    if arguments.hidden is None:
        return None
    width = arguments.hidden * arguments.bits / 8
    return {"permute": 2 * rows * width, "combine": (rows + tokens) * width}


def _as_json(arguments: argparse.Namespace, tables: DispatchTables, tokens: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        "evidence": "modelled",
        "tokens": tokens,
        "experts": len(tables.counts),
        "rows": tables.num_rows,
        "block_rows": tables.block_rows,
        "padding": arguments.padding,
        "blocks": tables.num_blocks,
        "used_blocks": tables.used_blocks,
        "wasted_rows": tables.wasted_rows,
        "wasted_rows_of_used_blocks": tables.used_blocks * tables.block_rows - tables.num_rows,
        "moved_bytes": _moved(arguments, tables.num_rows, tokens),
        "counts": tables.counts.tolist(),
        "offsets": tables.offsets.tolist(),
        "padded_offsets": tables.padded_offsets.tolist(),
    }
    if arguments.tables:
        found["token_ids"] = tables.token_ids.tolist()
        found["expert_of_block"] = tables.expert_of_block.tolist()
        found["block_starts"] = tables.block_starts.tolist()
        found["rows_of_block"] = tables.rows_of_block.tolist()
    return found


def _show(arguments: argparse.Namespace, tables: DispatchTables, tokens: int) -> None:
    from ascend_infer.cli import output

    experts = len(tables.counts)
    shown = range(min(experts, _MOST_EXPERTS_SHOWN))
    output.print_table(
        f"Rows of {experts} experts"
        + (f", the first {len(shown)}" if len(shown) < experts else ""),
        ("expert", "rows", "offset", "padded offset"),
        [
            (e, f"{tables.counts[e]:,}", f"{tables.offsets[e]:,}", f"{tables.padded_offsets[e]:,}")
            for e in shown
        ],
    )
    used = tables.used_blocks
    rule = "ceil((count + 1) / rows)" if arguments.padding == "plus-one" else "ceil(count / rows)"
    rows = [
        ("rows without gaps", f"{tables.num_rows:,}", f"{tokens:,} tokens x top-k"),
        ("blocks of the grid", f"{tables.num_blocks:,}", "ceil(rows / block rows) + experts"),
        ("blocks with rows", f"{used:,}", f"an expert takes {rule} blocks"),
        ("rows that compute nothing", f"{tables.wasted_rows:,}", "blocks x block rows - rows"),
    ]
    moved = _moved(arguments, tables.num_rows, tokens)
    if moved is not None:
        rows += [
            ("bytes of permute", f"{moved['permute']:,.0f}", "every row read and written"),
            ("bytes of combine", f"{moved['combine']:,.0f}", "rows read, tokens written"),
        ]
    output.print_table(
        f"Grid of blocks of {tables.block_rows} rows",
        ("", "count", "formula"),
        rows,
        note="modelled. Checked: every pair is one row, every row is computed by one block of its "
        "expert, no block leaves its expert's rows",
    )
