"""`ascend-infer export-model`: a GGUF model as a folder that vLLM and transformers load."""

from __future__ import annotations

import argparse
from pathlib import Path

from ascend_infer.cli import options


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command and its options."""
    parser = commands.add_parser(
        "export-model",
        help="a built-in model or GGUF file as a folder that vLLM loads",
        description="Write config.json, safetensors, tokenizer and chat template of a built-in "
        "model or a .gguf file into a new folder, for vLLM and transformers. Quantised weights "
        "are dequantised.",
    )
    parser.add_argument("model", help="built-in name (smollm2), or .gguf file")
    parser.add_argument("folder", type=Path, help="where to write; must not exist, or be empty")
    parser.add_argument(
        "--dtype",
        choices=options.DTYPE_NAMES,
        default="float16",
        help="of the weights (default: float16)",
    )
    options.add_common(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run `export-model`."""
    import torch

    from ascend_infer.cli import output
    from ascend_infer.model.catalogue import resolve
    from ascend_infer.model_export import export_model

    location = resolve(arguments.model)
    dtype: torch.dtype = getattr(torch, arguments.dtype)
    folder = export_model(location, arguments.folder, dtype)
    files = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    if arguments.json:
        output.print_json({"folder": str(folder), "dtype": arguments.dtype, "files": files})
    else:
        output.print_table(
            f"{arguments.model} in {arguments.dtype}: {folder}",
            ("file", "bytes"),
            [(name, f"{size:,}") for name, size in files.items()],
        )
    return 0
