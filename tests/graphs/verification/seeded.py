"""The seeded faults of decode graphs: a table of twins, for tests on any device and for scripts.

Each twin is the rig of `tests.graphs.harness` with one mistake in a place where such mistakes are
made: the step, the buffers, the staging, the runner, or what the process does around it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from unittest import mock

import torch

from graphs.batch import DecodeBatch, InputName
from graphs.buckets import BucketPlan
from graphs.buffers import DecodeBuffers
from graphs.capture import StepFn
from graphs.device_api import DeviceApi
from graphs.report import Finding
from graphs.runner import DecodeGraphRunner
from graphs.staging import StagingRing, StagingSlot
from graphs.turns import POOL, Turn
from graphs.verification import verify, verify_together
from tests.graphs.harness import Rig, make_rig

Check = Callable[[DeviceApi], Sequence[Finding]]


@dataclass(frozen=True, kw_only=True)
class Twin:
    """A fault and what verification must say first.

    code: on any device; `npu_code`: on the simulated NPU, whose own checks come before the values.
    says: part of the message, the same on every device. npu_says: and on the simulated NPU.
    """

    check: Check
    code: str
    says: str = ""
    npu_code: str = ""
    npu_says: str = ""


def findings(rig: Rig, **options: int) -> Sequence[Finding]:
    return verify(rig.runner, rig.model.state, rounds=1, **options).findings


# --------------------------------------------------------------------------- buffers and staging


def forgets(name: InputName) -> Check:
    """The buffer of one input keeps what it held at capture time."""

    class Forgetful(DecodeBuffers):
        def fill(self, batch: DecodeBatch, bucket: int) -> None:
            kept = getattr(self, name).clone()
            super().fill(batch, bucket)
            getattr(self, name).copy_(kept)

    return lambda api: findings(make_rig(api, buffers_class=Forgetful))


class PadsWithSlotZero(DecodeBuffers):
    """Padding rows write slot 0, which belongs to a sequence sooner or later."""

    def fill(self, batch: DecodeBatch, bucket: int) -> None:
        super().fill(batch, bucket)
        if 0 < batch.size < bucket:
            self.slot_mapping[batch.size : bucket].fill_(0)


class Reallocates(DecodeBuffers):
    """A fill replaces a static tensor."""

    def fill(self, batch: DecodeBatch, bucket: int) -> None:
        super().fill(batch, bucket)
        if batch.size:
            self.block_table = self.block_table.clone()


class Impatient(StagingRing):
    """One staging slot that is written again without waiting for the copies from it."""

    def acquire(self) -> StagingSlot:
        return self._slots[0]


def reuses_pinned_memory(api: DeviceApi) -> Sequence[Finding]:
    rig = make_rig(api)
    buffers = rig.buffers
    buffers.staging = Impatient(api, buffers.max_batch, buffers.max_blocks, slots=1)
    return findings(rig)


# -------------------------------------------------------------------------------------- the step


def with_step(change: Callable[[StepFn, DeviceApi, DecodeBatch], torch.Tensor]) -> Check:
    """`change(step, api, batch)` takes the place of the step."""

    def check(api: DeviceApi) -> Sequence[Finding]:
        def wrap(step: StepFn) -> StepFn:
            return lambda batch: change(step, api, batch)

        return findings(make_rig(api, wrap_step=wrap))

    return check


def reads_a_value(step: StepFn, api: DeviceApi, batch: DecodeBatch) -> torch.Tensor:
    return step(batch) * (1.0 if batch.seq_lens.max().item() else 2.0)


def draws(step: StepFn, api: DeviceApi, batch: DecodeBatch) -> torch.Tensor:
    logits = step(batch)
    return logits + 1e-3 * torch.rand_like(logits)


def uses_host_tensor(step: StepFn, api: DeviceApi, batch: DecodeBatch) -> torch.Tensor:
    logits = step(batch)
    return logits + torch.linspace(0.0, 1.0, logits.shape[1]).to(logits.device)


def leaves_stream_open(step: StepFn, api: DeviceApi, batch: DecodeBatch) -> torch.Tensor:
    logits = step(batch)
    side = api.new_stream()
    side.wait_stream(api.current_stream())
    with api.use_stream(side):
        logits.sum()
    return logits


# ------------------------------------------------------------------------------------- the runner


class Noop:
    """A replay that does nothing."""

    def replay(self) -> None:
        pass

    def reset(self) -> None:
        pass


def does_nothing(api: DeviceApi) -> Sequence[Finding]:
    rig = make_rig(api)
    rig.runner._graphs = dict.fromkeys(rig.runner.captured_buckets, Noop())
    return findings(rig)


class NextLarger(BucketPlan):
    """Chooses one bucket too large, where there is one."""

    def bucket_for(self, batch_size: int) -> int | None:
        right = super().bucket_for(batch_size)
        return min((s for s in self.sizes if right is not None and s > right), default=right)


def chooses_wrong_bucket(api: DeviceApi) -> Sequence[Finding]:
    rig = make_rig(api)
    rig.runner.plan = NextLarger(rig.runner.plan.sizes)
    return findings(rig)


class ReturnsCopies(DecodeGraphRunner):
    """Every replay allocates its output."""

    def run(self, batch: DecodeBatch) -> torch.Tensor:
        return super().run(batch).clone()


class MakesScratch(DecodeGraphRunner):
    """Every replay allocates something else."""

    def run(self, batch: DecodeBatch) -> torch.Tensor:
        torch.empty(64, device=self.api.device)
        return super().run(batch)


class Keeps(DecodeGraphRunner):
    """Every replay keeps something: a device tensor of each step, for ever."""

    def run(self, batch: DecodeBatch) -> torch.Tensor:
        logits = super().run(batch)
        self.__dict__.setdefault("kept", []).append(logits.clone())
        return logits


class KeepsOnHost(DecodeGraphRunner):
    """Every replay keeps a host object."""

    def run(self, batch: DecodeBatch) -> torch.Tensor:
        self.__dict__.setdefault("log", []).append({"rows": [batch.size]})
        return super().run(batch)


def runner_twin(runner_class: type[DecodeGraphRunner], **options: int) -> Check:
    return lambda api: findings(make_rig(api, runner_class=runner_class), **options)


def drifts(api: DeviceApi) -> Sequence[Finding]:
    """Each replay adds to a tensor that the next one reads, a little at a time."""
    total = torch.zeros(1, device=api.device)

    def wrap(step: StepFn) -> StepFn:
        def wrapped(batch: DecodeBatch) -> torch.Tensor:
            if api.is_capturing():
                total.add_(1e-4)
            # The first replays round the addition away.
            return step(batch) + total.sub(0.005).clamp_min(0.0)

        return wrapped

    return findings(make_rig(api, sizes=[2], wrap_step=wrap), soak=200)


def leaves_state(api: DeviceApi) -> Sequence[Finding]:
    """A workspace that every graph writes and that the next graph reads."""
    workspace = torch.zeros(1, device=api.device)

    def wrap(step: StepFn) -> StepFn:
        def wrapped(batch: DecodeBatch) -> torch.Tensor:
            logits = step(batch)
            if not api.is_capturing():
                return logits + batch.size
            logits = logits + workspace
            workspace.fill_(batch.size)
            return logits

        return wrapped

    return findings(make_rig(api, sizes=[2, 4], wrap_step=wrap))


def two_runners(*, ordered: bool) -> Check:
    """Two runners in one pool replay on two streams; `ordered`: the pool's turns are respected."""

    def check(api: DeviceApi) -> Sequence[Finding]:
        # Memory of a pool is reused on the stream that it was made for.
        with mock.patch.object(api, "new_stream", return_value=api.new_stream()):
            pool = api.new_pool()
            first, second = (make_rig(api, num_blocks=48, pool=pool) for _ in range(2))
        if not ordered:
            turns = second.runner._pool_turns
            turns.update({bucket: Turn(POOL) for bucket in turns})
        return verify_together(
            (first.runner, first.model.state), (second.runner, second.model.state), rounds=20
        )

    return check


TWINS: dict[str, Twin] = {
    "stale sequence lengths": Twin(
        check=forgets("seq_lens"), code="AI-VERIFY-005", says="the static buffer of seq_lens"
    ),
    "lost slot mapping": Twin(
        check=forgets("slot_mapping"), code="AI-VERIFY-005", says="buffer of slot_mapping"
    ),
    "pinned buffer reuse": Twin(
        check=reuses_pinned_memory,
        code="AI-VERIFY-019",
        npu_code="AI-STREAM-006",
        npu_says="was written while the asynchronous copy",
    ),
    "output allocated at replay": Twin(
        check=runner_twin(ReturnsCopies), code="AI-VERIFY-014", says="outside the static logits"
    ),
    "scratch allocated at replay": Twin(
        check=runner_twin(MakesScratch), code="AI-VERIFY-014", says="blocks of device memory"
    ),
    "side stream not joined": Twin(
        check=with_step(leaves_stream_open),
        code="AI-VERIFY-011",
        says="its capture failed",
        npu_says="107025 (unjoined stream)",
    ),
    ".item() in the block": Twin(
        check=with_step(reads_a_value),
        code="AI-VERIFY-011",
        says="seeded.py:",
        npu_says="107027",
    ),
    "random numbers": Twin(
        check=with_step(draws), code="AI-VERIFY-015", says="draws random numbers"
    ),
    "host tensor in the block": Twin(
        check=with_step(uses_host_tensor),
        code="AI-VERIFY-011",
        says="seeded.py:",
        npu_says="107030",
    ),
    "padding row writes a real block": Twin(
        check=lambda api: findings(make_rig(api, sizes=[4], buffers_class=PadsWithSlotZero)),
        code="AI-VERIFY-006",
        says="a padding row must carry slot -1",
    ),
    "replay that does nothing": Twin(
        check=does_nothing, code="AI-VERIFY-004", says="it did nothing"
    ),
    "wrong bucket": Twin(
        check=chooses_wrong_bucket, code="AI-VERIFY-013", says="belongs to bucket 1"
    ),
    "two runners, one pool": Twin(
        check=two_runners(ordered=False),
        code="AI-VERIFY-020",
        npu_code="AI-STREAM-007",
        npu_says="memory pool",
    ),
    "static tensor reallocated": Twin(
        check=lambda api: findings(make_rig(api, buffers_class=Reallocates)),
        code="AI-GRAPH-006",
        says="static tensor block_table",
    ),
    "state left to the next graph": Twin(check=leaves_state, code="AI-VERIFY-016"),
    "drift": Twin(check=drifts, code="AI-VERIFY-017", says="gave other values than the first"),
    "device memory kept": Twin(
        check=runner_twin(Keeps, soak=200), code="AI-VERIFY-018", says="device memory grew"
    ),
    "host memory kept": Twin(
        check=runner_twin(KeepsOnHost, soak=400), code="AI-VERIFY-018", says="more dict"
    ),
}
