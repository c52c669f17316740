"""What a worker says by name."""

from __future__ import annotations

import json

from ascend_infer.vllm_plugin import status
from ascend_infer.vllm_plugin.worker_extension import StatusExtension


class Worker(StatusExtension):
    """As vLLM makes it: the extension is a base class."""


def test_a_worker_gives_the_status_of_its_process_as_json():
    found = Worker().ascend_infer_status()
    assert found == status() and json.loads(json.dumps(found)) == found
    # vLLM refuses an extension whose names the worker has: ours are prefixed.
    assert [n for n in vars(StatusExtension) if not n.startswith(("__", "ascend_infer_"))] == []
