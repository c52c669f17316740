"""Options that the estimates of a model share, and what they mean as data."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ascend_infer.cli import options

if TYPE_CHECKING:
    from ascend_infer.estimates import Decoder, Parallel, Precision, Roof

_DTYPES = "float32, bfloat16, float16, float8, int8, int4, mxfp8, mxfp4, nvfp4"


def add_model(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Which model, how its numbers are stored, and over how many ranks it is divided."""
    group = parser.add_argument_group("model")
    group.add_argument(
        "--model",
        required=required,
        metavar="NAME|FILE",
        help="config.json, a folder with one, or a known name such as qwen2.5-7b, qwen3-30b-a3b, "
        "deepseek-v3",
    )
    group.add_argument(
        "--dtype",
        default="bfloat16",
        help=f"weights, activations, KV cache unless given apart: {_DTYPES} (default: bfloat16)",
    )
    group.add_argument("--weight-dtype", metavar="DTYPE", help="of matrices in layers")
    group.add_argument(
        "--kept-dtype",
        metavar="DTYPE",
        help="of embedding, output projection, routers, norms (default: --dtype, or bfloat16 where "
        "that has fewer bits)",
    )
    group.add_argument("--activation-dtype", metavar="DTYPE", help="between operators")
    group.add_argument("--kv-dtype", metavar="DTYPE", help="of the KV cache")
    group.add_argument(
        "--group-size",
        type=options.integer(0),
        metavar="N",
        help="weights per scale along the inputs, 0 one per output (default: as usual for the "
        "dtype: int4 128, int8 one per output, mxfp4 32)",
    )
    group.add_argument(
        "--kv-group-size",
        type=options.integer(0),
        metavar="N",
        help="cached elements per scale, 0 one per head and token (default: none are stored)",
    )
    group.add_argument(
        "--scale-dtype", metavar="DTYPE", help="of scales (default: as usual for the dtype)"
    )
    group.add_argument(
        "--zero-point-bits",
        type=options.integer(0),
        default=0,
        metavar="N",
        help="stored beside each scale (default: 0)",
    )
    group.add_argument(
        "--tensor-parallel",
        type=options.integer(1),
        default=1,
        metavar="N",
        help="ranks that divide heads, widths and vocabulary (default: 1); KV heads are copied "
        "where ranks are more",
    )
    group.add_argument(
        "--expert-parallel",
        type=options.integer(1),
        default=1,
        metavar="N",
        help="ranks that divide the routed experts (default: 1, each expert is divided)",
    )


def add_device(parser: argparse.ArgumentParser) -> None:
    """Which chip, and figures that replace those of the table."""
    group = parser.add_argument_group("device")
    group.add_argument(
        "--device",
        default="Ascend910B1",
        metavar="CHIP",
        help="910B3, A3, 950DT, 310P, H100, H200 ... (default: Ascend910B1)",
    )
    group.add_argument(
        "--peak-tflops", type=float, metavar="X", help="10^12 FLOP/s instead of the table's peaks"
    )
    group.add_argument(
        "--bandwidth-tbs", type=float, metavar="X", help="10^12 B/s of device memory instead"
    )
    group.add_argument("--memory-gib", type=float, metavar="X", help="device memory instead")


def add_load(
    parser: argparse.ArgumentParser, *, batch: int = 1, context: int = 8192, one: bool = True
) -> None:
    """The batch and the context. one: whether both are meant for a single step."""
    group = parser.add_argument_group("load")
    group.add_argument(
        "--batch",
        type=options.integer(1),
        default=batch,
        metavar="N",
        help=f"sequences (default: {batch})",
    )
    if one:
        group.add_argument(
            "--context",
            type=options.integer(1),
            default=context,
            metavar="TOKENS",
            help=f"tokens of each sequence, the new one included (default: {context})",
        )


def decoder(arguments: argparse.Namespace) -> Decoder:
    """The whole model."""
    from ascend_infer.estimates import load_decoder

    return load_decoder(arguments.model)


def parallel(arguments: argparse.Namespace) -> Parallel:
    from ascend_infer.estimates import Parallel

    return Parallel(tensor=arguments.tensor_parallel, expert=arguments.expert_parallel)


def precision(arguments: argparse.Namespace) -> Precision:
    """Dtypes with their scales."""
    from ascend_infer.estimates import Precision, get_format

    scale_bits = None if arguments.scale_dtype is None else get_format(arguments.scale_dtype).bits
    base = get_format(arguments.dtype, scales=False)
    kv_group = arguments.kv_group_size
    return Precision(
        weights=get_format(
            arguments.weight_dtype or arguments.dtype,
            group=arguments.group_size,
            scale_bits=scale_bits,
            zero_bits=arguments.zero_point_bits,
        ),
        kept=get_format(
            arguments.kept_dtype or (arguments.dtype if base.bits >= 16 else "bfloat16"),
            scales=False,
        ),
        activations=get_format(arguments.activation_dtype or arguments.dtype, scales=False),
        kv=get_format(
            arguments.kv_dtype or arguments.dtype,
            scales=False,
            group=kv_group,
            scale_bits=None if kv_group is None else scale_bits,
        ),
    )


def roof(arguments: argparse.Namespace) -> Roof:
    from ascend_infer.estimates import roof_of

    return roof_of(
        arguments.device,
        peak_tflops=arguments.peak_tflops,
        bandwidth_tbs=arguments.bandwidth_tbs,
        memory_gib=arguments.memory_gib,
    )


def described(model: Decoder, arguments: argparse.Namespace) -> dict[str, Any]:
    """Model, dtypes and ranks as JSON-ready fields."""
    return {
        "model": model.name,
        "architecture": model.architecture,
        "notes": list(model.notes),
        "dtypes": precision(arguments).to_dict(),
        "tensor_parallel": arguments.tensor_parallel,
        "expert_parallel": arguments.expert_parallel,
    }
