"""Stock vLLM and vllm-ascend on the simulated NPU: the two entry points that make them start.

`torch.backends` calls `autoload` at the end of every `import torch`, where the real torch_npu
would load itself; `vllm.general_plugins` calls `adapt_host` in every process of vLLM. What they
change, and why, is the table of `vllm_host.changes`.
"""

from __future__ import annotations


def autoload() -> None:
    """Give this process the simulated device instead of torch_npu."""
    from vllm_host import changes

    changes.apply(changes.AT_IMPORT_OF_TORCH)


def adapt_host() -> None:
    """Replace the parts of the host that need a compiled kernel.

    Raises:
        RuntimeError: for a host that the table was not written for.
    """
    from vllm_host import changes

    changes.apply(changes.of_host(changes.AS_PLUGIN, changes.installed_host()))
