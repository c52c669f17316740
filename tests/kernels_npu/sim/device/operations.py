"""Operations that must give on npu, eager and replayed, the bits that they give on the CPU."""

from __future__ import annotations

import torch
import torch.nn.functional as F


def _inputs(rows: int, columns: int) -> dict[str, torch.Tensor]:
    return {
        "x": torch.randn(rows, columns),
        "y": torch.randn(rows, columns),
        "row": torch.randn(columns),
        "square": torch.randn(columns, columns),
        "table": torch.randn(11, columns),
        "ids": torch.randint(0, 11, (rows,)),
        "flags": torch.rand(rows, columns) > 0.5,
        "half": torch.randn(rows, columns).half(),
        "brain": torch.randn(rows, columns).bfloat16(),
        "ints": torch.randint(-50, 50, (rows, columns), dtype=torch.int32),
    }


SHAPES = [(1, 1), (3, 7), (5, 16), (0, 4)]


def inputs(rows: int, columns: int, device: torch.device | str) -> dict[str, torch.Tensor]:
    """Random inputs, the same on every device for the same seed of the CPU generator."""
    return {k: v.to(device) for k, v in _inputs(rows, columns).items()}


OPERATIONS = {
    "add": lambda t: t["x"] + t["y"],
    "scalar": lambda t: 2.5 * t["x"] - 1,
    "promote": lambda t: t["half"] + t["x"],
    "int division": lambda t: t["ints"] // 3,
    "compare": lambda t: (t["x"] > 0) & t["flags"],
    "where": lambda t: torch.where(t["flags"], t["x"], t["y"]),
    "masked_fill": lambda t: t["x"].masked_fill(t["flags"], float("-inf")),
    "matmul": lambda t: t["x"] @ t["square"],
    "linear": lambda t: F.linear(t["x"], t["square"], t["row"]),
    "half matmul": lambda t: t["half"] @ t["square"].half(),
    "einsum": lambda t: torch.einsum("ij,kj->ik", t["x"], t["y"]),
    "softmax": lambda t: torch.softmax(t["x"], -1),
    "log_softmax": lambda t: F.log_softmax(t["half"].float(), -1),
    "rms_norm": lambda t: torch.rms_norm(t["x"], [t["x"].shape[-1]], t["row"]),
    "layer_norm": lambda t: F.layer_norm(t["x"], [t["x"].shape[-1]], t["row"]),
    "silu": lambda t: F.silu(t["brain"]),
    "gelu": lambda t: F.gelu(t["x"]),
    "rsqrt": lambda t: torch.rsqrt(t["y"].abs() + 1),
    "sum": lambda t: t["x"].sum(-1, keepdim=True),
    "sum dtype": lambda t: t["half"].sum(dtype=torch.float32),
    "mean": lambda t: t["x"].mean(0),
    "cumsum": lambda t: t["x"].cumsum(0),
    "embedding": lambda t: F.embedding(t["ids"], t["table"]),
    "index": lambda t: t["table"][t["ids"]],
    "index two": lambda t: t["table"][t["ids"], 0],
    "gather": lambda t: t["table"].gather(0, t["ids"][:, None]),
    "index_select": lambda t: t["table"].index_select(0, t["ids"]),
    "cast": lambda t: t["x"].to(torch.bfloat16).float(),
    "ints to float": lambda t: t["ints"].float(),
    "cat": lambda t: torch.cat([t["x"], t["y"]], dim=-1),
    "stack": lambda t: torch.stack([t["x"], t["y"]], dim=1).flatten(0, 1),
    "transpose": lambda t: t["x"].t().contiguous(),
    "reshape": lambda t: t["x"].t().reshape(-1),
    "slice": lambda t: t["x"][:, ::2] + 1,
    "chunk": lambda t: t["x"].chunk(1, -1)[0].clone(),
    "expand": lambda t: t["row"].expand(3, -1) * 2,
    "repeat": lambda t: t["x"].repeat(2, 3),
    "permute": lambda t: t["x"][None].permute(2, 0, 1) * 1,
    "unbind": lambda t: torch.stack(t["x"].unbind(1)),
    "split": lambda t: sum(t["x"].split(1, dim=1)),
    "roll": lambda t: torch.roll(t["x"], 1, 0),
    "sort": lambda t: torch.sort(t["x"], -1).values,
    "argsort": lambda t: torch.argsort(t["x"], dim=-1),
    "argmax": lambda t: t["x"].argmax(-1),
    "topk": lambda t: torch.topk(t["x"], 1).indices,
    "clamp": lambda t: t["x"].clamp(-0.5, 0.5),
    "zeros": lambda t: torch.zeros_like(t["x"]) + torch.ones_like(t["x"], dtype=torch.float64),
    "full": lambda t: torch.full((2, 3), 7, dtype=torch.int32, device=t["x"].device),
    "arange": lambda t: torch.arange(5, device=t["x"].device) * 3,
    "tril": lambda t: torch.tril(t["square"]),
    "outer": lambda t: torch.outer(t["row"], t["row"]),
    "scatter": lambda t: torch.zeros_like(t["table"]).index_add(0, t["ids"], t["x"]),
    "complex": lambda t: torch.view_as_real(torch.polar(t["x"].abs(), t["y"]) * 1j),
    "attention": lambda t: F.scaled_dot_product_attention(t["x"][None], t["y"][None], t["x"][None]),
}


def update(t: dict[str, torch.Tensor]) -> None:
    """In-place operations of every kind."""
    t["x"].add_(t["y"]).mul_(0.5)
    t["x"][:, :1] = 3.0
    t["y"].copy_(t["x"])
    t["table"].index_copy_(0, t["ids"][:1], t["x"][:1])
    t["half"].fill_(1.5)
    t["ints"] += 1
    t["square"].zero_()
    t["row"].clamp_(min=0)
