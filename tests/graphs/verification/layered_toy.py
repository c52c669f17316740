"""Several toy layers over one embedding and one head, of which prefixes can be run."""

from __future__ import annotations

import torch

from graphs.batch import DecodeBatch
from graphs.buckets import BucketPlan
from graphs.buffers import DecodeBuffers
from graphs.capture import StepFn
from graphs.device_api import DeviceApi
from graphs.kv_state import KvState
from graphs.runner import DecodeGraphRunner
from graphs.toy_model import ToyDecoder


class LayeredToy:
    """`LayeredStep` whose layer `faulty` computes something else while it is captured."""

    def __init__(self, api: DeviceApi, num_layers: int, faulty: int | None = None) -> None:
        self._api = api
        self._layers = [ToyDecoder(api.device, seed=seed) for seed in range(num_layers)]
        self._faulty = faulty

    @property
    def num_layers(self) -> int:
        return len(self._layers)

    @property
    def state(self) -> KvState:
        tensors = {
            f"layers.{i}.{name}": tensor
            for i, layer in enumerate(self._layers)
            for name, tensor in layer.state.tensors.items()
        }
        return KvState(tensors=tensors, block_size=self._layers[0].block_size)

    def prefix(self, layers: int) -> StepFn:
        def step(batch: DecodeBatch) -> torch.Tensor:
            first = self._layers[0]
            hidden = first.embedding[batch.token_ids] + first.position_table[batch.positions]
            for index, layer in enumerate(self._layers[:layers]):
                query, key, value = (hidden @ layer.qkv).chunk(3, dim=1)
                layer._write(layer.key_cache, key, batch.slot_mapping)
                layer._write(layer.value_cache, value, batch.slot_mapping)
                hidden = (hidden + layer._attend(query, batch)).tanh()
                if index == self._faulty and self._api.is_capturing():
                    hidden = hidden * 1.001
            return hidden @ first.head

        return step

    def runner(self, buffers_class: type[DecodeBuffers] = DecodeBuffers) -> DecodeGraphRunner:
        """A captured runner of the whole step."""
        plan = BucketPlan.of([1, 3])
        buffers = buffers_class.allocate(
            self._api,
            max_batch=plan.largest,
            max_blocks=4,
            vocab_size=self._layers[0].vocab_size,
            logits_dtype=torch.float32,
        )
        runner = DecodeGraphRunner(self.prefix(self.num_layers), buffers, plan, self._api)
        runner.capture()
        return runner
