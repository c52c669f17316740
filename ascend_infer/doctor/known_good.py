"""Combinations of versions that their makers publish: data, with where each was read."""

from __future__ import annotations

from dataclasses import dataclass

#: As at commit 031eec5 of that repository.
TORCH_NPU_SOURCE = "Ascend/pytorch, COMPATIBILITY.md"
VLLM_ASCEND_SOURCE = (
    "vllm-project/vllm-ascend, docs/source/community/versioning_policy.md, and the requirements of "
    "each release"
)
ADAPTER_SOURCE = "tile-ai/tilelang-ascend, README.md, at commit 95acbd7"


@dataclass(frozen=True, kw_only=True)
class Combination:
    """One published row; None for what it does not name."""

    torch_npu: str
    torch: str
    cann: str
    vllm_ascend: str | None = None
    vllm: str | None = None
    source: str


def _torch_npu(cann: str, *releases: str) -> tuple[Combination, ...]:
    """torch_npu's number starts with that of the torch it is for."""
    return tuple(
        Combination(
            torch_npu=release,
            torch=release.partition(".post")[0],
            cann=cann,
            source=TORCH_NPU_SOURCE,
        )
        for release in releases
    )


def _vllm_ascend(number: str, vllm: str, npu_build: str, cann: str) -> Combination:
    return Combination(
        torch_npu=npu_build,
        torch=npu_build.partition(".post")[0],
        cann=cann,
        vllm_ascend=number,
        vllm=vllm,
        source=VLLM_ASCEND_SOURCE,
    )


COMBINATIONS: tuple[Combination, ...] = (
    *_torch_npu("9.1.0", "2.12.0", "2.11.0", "2.10.0", "2.9.0.post3", "2.7.1.post5"),
    *_torch_npu("9.0.0", "2.9.0.post2", "2.8.0.post4", "2.7.1.post4"),
    *_torch_npu("8.5.0", "2.9.0", "2.8.0.post2", "2.7.1.post2"),
    *_torch_npu("8.3.RC1", "2.8.0", "2.7.1"),
    _vllm_ascend("0.11.0", "0.11.0", "2.7.1.post1", "8.3.RC2"),
    _vllm_ascend("0.13.0", "0.13.0", "2.8.0.post2", "8.5.0"),
    _vllm_ascend("0.18.0", "0.18.0", "2.9.0.post1", "8.5.1"),
    _vllm_ascend("0.23.0", "0.23.0", "2.10.0.post4", "9.1.0"),
    _vllm_ascend("0.23.0.post1", "0.23.0", "2.10.0.post4", "9.1.0"),
    _vllm_ascend("0.25.1rc1", "0.25.1", "2.10.0.post2", "9.0.1"),
)
#: The least CANN that the adapter asks for.
ADAPTER_CANN = "8.3.RC1"
