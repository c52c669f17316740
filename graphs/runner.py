"""The decode graph runner: one graph per bucket, replay of the right one, a reason if it cannot.

A step is `run(batch)`: pick the smallest bucket, copy the batch into the static buffers, pad,
replay. The whole decode block (all layers and the head) is one graph per bucket; the runner knows
nothing of it but the step function `step(batch) -> logits`.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from graphs.addresses import Addresses
from graphs.batch import DecodeBatch
from graphs.buckets import BucketPlan
from graphs.buffers import DecodeBuffers
from graphs.capture import CapturedStep, StepFn, capture_graph
from graphs.device_api import DeviceApi
from graphs.errors import GraphError, capture_failed, leaves_graph
from graphs.preflight import PreflightFinding, check_setup, check_warm_up, report
from graphs.stats import EagerReason, RunnerStats
from graphs.turns import Turn, capture_turn, pool_turn
from graphs.updates import HostUpdates
from graphs.warmup import warm_up

_log = logging.getLogger(__name__)

WatchFn = Callable[[], Mapping[str, torch.Tensor]]


class DecodeGraphRunner:
    """Runs decode steps by graph replay, eagerly where a graph cannot serve, and counts both.

    Args:
        step: the decode step; reads a slice of the static buffers, writes KV rows, returns logits
            [rows, vocab]. It must not synchronise with the host and must read everything that
            changes between steps (lengths, slots, blocks) from device memory.
        buffers: static buffers of this runner, at least as large as the largest bucket.
        plan: the capture sizes.
        api: from `device_api(device)`.
        strict: raise instead of running a step eagerly.
        enabled: False runs every step eagerly, counted as `EagerReason.DISABLED`.
        warmups: eager runs of `step` per bucket before the first capture, so that kernels are
            compiled, binaries loaded and workspaces allocated before recording starts; at least 1.
            From 2 on, preflight sees whether the last run still compiled something.
        updates: launches of `step` with host parameters, the same object that `step` uses. They
            get the batch from the host: what they look at should be in host tensors.
        pool: another runner's `pool`, or a handle from `api.new_pool()`. Runners that share one
            hold their intermediate results in the same memory and cannot run at the same time.
            None gives this runner a pool of its own.
        watch: returns further tensors by name that graphs hold addresses of (KV cache, weights).
            They are compared by `check_addresses(everything=True)`, the static buffers before
            every replay.

    A runner is used by one thread at a time, any thread; a second one is refused. Nothing runs
    while a runner of the same process captures. `run` works on the device's current stream and
    orders it after the stream of the last step. It returns a view of the static logits: read or
    copy it, on that stream, before the next `run`.

    Raises:
        GraphError: AI-GRAPH-004 when the buffers are smaller than the largest bucket
            or `warmups` < 1.
    """

    def __init__(
        self,
        step: StepFn,
        buffers: DecodeBuffers,
        plan: BucketPlan,
        api: DeviceApi,
        *,
        strict: bool = False,
        enabled: bool = True,
        warmups: int = 2,
        watch: WatchFn | None = None,
        pool: Any = None,
        updates: HostUpdates | None = None,
    ) -> None:
        if plan.largest > buffers.max_batch or warmups < 1:
            raise GraphError(
                "AI-GRAPH-004",
                f"largest bucket {plan.largest} with buffers of {buffers.max_batch} rows, "
                f"{warmups} warm-up runs",
                rule="buffers hold the largest bucket; "
                "a step runs once at least before its capture",
                fix=f"allocate DecodeBuffers with max_batch={plan.largest}, keep warmups >= 1",
            )
        self.step = step
        self.buffers = buffers
        self.plan = plan
        self.api = api
        self.strict = strict
        self.enabled = enabled
        self.stats = RunnerStats()
        self._warmups = warmups
        self._watch = watch
        self._updates = updates
        self._graphs: dict[int, CapturedStep] = {}
        self._failures: dict[int, BaseException] = {}
        self._turn = buffers.turn
        self._shared_pool = pool
        self._pool: Any = None
        self._pool_turns: dict[int, Turn] = {}
        self._addresses: Addresses | None = None

    # ----------------------------------------------------------------- capture

    @property
    def captured_buckets(self) -> tuple[int, ...]:
        """Buckets that have a graph, ascending."""
        return tuple(sorted(self._graphs))

    @property
    def failures(self) -> Mapping[int, BaseException]:
        """Bucket -> the first exception of its last capture."""
        return dict(self._failures)

    @property
    def pool(self) -> Any:
        """Handle of the memory pool that captures go to; None before the first `capture()`."""
        return self._shared_pool if self._pool is None else self._pool

    def capture(self) -> RunnerStats:
        """Capture every bucket of the plan, the largest first, all in one memory pool.

        Existing graphs are dropped first, and what preflight finds is in `stats.preflight`: after
        an error there, and for a bucket whose warm-up or capture fails, steps run eagerly with the
        first exception kept in `failures`; the other buckets go on. Without graphs (disabled, or a
        device that has none) nothing is captured.

        Raises:
            GraphError: AI-GRAPH-008 when the step returns logits of another shape, dtype or device
                than the static buffer; AI-GRAPH-020 or -022 when another thread is using the
                runner or capturing. In strict mode also AI-GRAPH-007 when a capture fails, and,
                before anything is captured, the first error of preflight (AI-GRAPH-023 .. -027).
        """
        with self._turn.held(self.api.current_stream()), capture_turn.held():
            self._reset()
            self.stats.preflight = ()
            if self.enabled and self.api.supports_graphs:
                with self.api.on_device(), torch.no_grad():
                    self._capture()
        return self.stats

    def _capture(self) -> None:
        api, plan, buffers, stats = self.api, self.plan, self.buffers, self.stats
        api.synchronize()
        stats.memory_before = api.memory()
        watched = {} if self._watch is None else self._watch()
        self._addresses = Addresses(api.address, buffers, watched)
        if self._refused_by(check_setup(api, plan, buffers)):
            return
        # Padding only: neither warm-up nor capture can touch a KV slot, even while serving.
        buffers.fill(DecodeBatch.empty(), max(plan.largest, 1))
        stream, self._pool = api.new_stream(), self.pool or api.new_pool()
        order = plan.capture_order
        warm = warm_up(
            api, self._step_of_padding, buffers, order, stream=stream, runs=self._warmups
        )
        if self._refused_by(check_warm_up(api, warm)):
            return
        gc.collect()  # not while recording: see collector_paused
        for bucket in order:
            try:
                if bucket in warm.failures:
                    raise warm.failures[bucket]
                self._graphs[bucket] = capture_graph(
                    api,
                    self._step_of_padding,
                    buffers.slice(bucket),
                    buffers.logits[:bucket],
                    pool=self._pool,
                    stream=stream,
                )
            except Exception as error:  # noqa: BLE001 - any failure leaves the bucket eager
                self._note_failure(bucket, error)
                # What an aborted capture leaves behind (allocator state, a dead stream)
                # stays with it.
                stream, self._pool = api.new_stream(), api.new_pool()
            else:
                self._pool_turns[bucket] = pool_turn(str(api.device), self._pool)
                stats.captures += 1
        api.synchronize()
        stats.memory_after = api.memory()

    def _step_of_padding(self, inputs: DecodeBatch) -> torch.Tensor:
        """`step` on static buffers that hold nothing but padding."""
        if self._updates is None:
            return self.step(inputs)
        rows = DecodeBatch.empty().padded(inputs.size, self.buffers.max_blocks)
        capturing = inputs.size if self.api.is_capturing() else None
        with self._updates.computing(rows, bucket=capturing):
            return self.step(inputs)

    def reset(self) -> None:
        """Drop all graphs and their memory; steps run eagerly until the next `capture()`."""
        with self._turn.held():
            self._reset()

    def _reset(self) -> None:
        if self._graphs:
            self.api.synchronize()  # a graph in flight must not lose its memory
        for graph in self._graphs.values():
            graph.reset()
        self._graphs.clear()
        self._pool_turns.clear()
        if self._updates is not None:
            self._updates.clear()
        self._failures.clear()
        self.stats.capture_failures.clear()
        self._pool = None

    def _refused_by(self, findings: Iterable[PreflightFinding]) -> bool:
        """Whether an error is among the findings; every bucket is eager then."""
        found = tuple(findings)
        self.stats.preflight += found
        report(found)
        error = next((f.to_error() for f in found if f.severity == "error"), None)
        if error is None:
            return False
        if self.strict:
            raise error
        for bucket in self.plan.capture_order:
            self._note_failure(bucket, error)
        return True

    def _note_failure(self, bucket: int, error: Exception) -> None:
        if isinstance(error, GraphError) and error.code == "AI-GRAPH-008":
            self._reset()
            raise error
        traceback.clear_frames(error.__traceback__)  # their locals hold memory of the pool
        self._failures[bucket] = error
        self.stats.capture_failures[bucket] = f"{type(error).__name__}: {error}"
        _log.warning("bucket %d stays eager, its capture failed: %s", bucket, error)
        if self.strict:
            raise capture_failed(bucket, error) from error

    # --------------------------------------------------------------------- run

    def run(self, batch: DecodeBatch) -> torch.Tensor:
        """One decode step; returns logits [batch.size, vocab], valid until the next call.

        A batch without rows returns no rows and runs nothing.

        Raises:
            GraphError: AI-GRAPH-005 when the batch does not fit the static buffers; AI-GRAPH-006
                when one of them moved since capture; AI-GRAPH-020 while another thread is in the
                runner, -021 while another runner replays in the same pool, -022 during a capture;
                AI-GRAPH-007, -009 or -010 in strict mode when no graph can serve the batch.
        """
        size = batch.size
        if size == 0:
            return self.buffers.logits[:0]
        capture_turn.refuse_while_taken()
        stream = self.api.current_stream()
        self._turn.take(stream)
        try:
            bucket = self.plan.bucket_for(size)
            graph = None if bucket is None else self._graphs.get(bucket)
            if bucket is None or graph is None:
                return self._run_eager(batch, bucket)
            pool = self._pool_turns[bucket]
            pool.take(stream)
            try:
                self.buffers.fill(batch, bucket)
                self.check_addresses()
                if self._updates is not None:
                    self._updates.apply(bucket, batch.padded(bucket, batch.block_table.shape[1]))
                graph.replay()
            finally:
                pool.give_back()
            self.stats.count_replay(bucket, size)
            return self.buffers.logits[:size]
        finally:
            self._turn.give_back()

    def run_eager(self, batch: DecodeBatch) -> torch.Tensor:
        """The step function on fresh device tensors; touches no static buffer and no counter."""
        updates = self._updates
        computing = contextlib.nullcontext() if updates is None else updates.computing(batch)
        with torch.no_grad(), self.api.on_device(), computing:
            return self.step(batch.to(self.api.device))

    def check_addresses(self, *, everything: bool = False) -> None:
        """Compare the addresses of the static buffers with those at capture time.

        With `everything` the watched tensors are compared too. Without graphs nothing holds an
        address and nothing is compared.

        Raises:
            GraphError: AI-GRAPH-006 naming the tensor that moved.
        """
        if not self._graphs or self._addresses is None:
            return
        self._addresses.check(self.buffers)
        if everything and self._watch is not None:
            self._addresses.check_watched(self._watch())

    def _run_eager(self, batch: DecodeBatch, bucket: int | None) -> torch.Tensor:
        reason = self._reason(bucket)
        if self.strict:
            failure = None if bucket is None else self._failures.get(bucket)
            if bucket is not None and failure is not None:
                raise capture_failed(bucket, failure) from failure
            raise leaves_graph(batch.size, str(reason), self.plan.sizes, str(self.api.device))
        if reason not in self.stats.eager and reason is not EagerReason.DISABLED:
            _log.warning("a batch of %d rows runs eagerly: %s", batch.size, reason)
        self.stats.count_eager(reason, batch.size)
        return self.run_eager(batch)

    def _reason(self, bucket: int | None) -> EagerReason:
        if not self.enabled:
            return EagerReason.DISABLED
        if not self.api.supports_graphs:
            return EagerReason.NO_GRAPHS
        if bucket is None:
            return EagerReason.BATCH_TOO_LARGE
        if bucket in self._failures:
            return EagerReason.CAPTURE_FAILED
        return EagerReason.NOT_CAPTURED
