"""torch_npu's attention operators against a plain loop in float64; captured, updated, refused."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels_npu.sim import device as simulated
from kernels_npu.sim.device.errors import DeviceError, NotSimulatedError
from tests.kernels_npu.sim.device.conftest import capture

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
KV_HEADS, GROUP, SIZE, BLOCK = 2, 3, 16, 8
HEADS = KV_HEADS * GROUP


@pytest.fixture
def torch_npu():
    import torch_npu

    return torch_npu


def causal_pattern():
    return torch.triu(torch.ones(2048, 2048), 1).to(torch.int8).npu()


def loop(query, key, value, scale, hidden=lambda distance: False):
    """One sequence in float64. hidden(key position - query position), both ending together."""
    queries, keys = query.shape[0], key.shape[0]
    out = torch.zeros(queries, HEADS, value.shape[-1], dtype=torch.float64)
    logs = torch.full((queries, HEADS), math.inf, dtype=torch.float64)
    for t, h in itertools.product(range(queries), range(HEADS)):
        seen = [j for j in range(keys) if not hidden(j - (keys - queries + t))]
        if seen:
            rows = key[seen, h // GROUP].double()
            scores = rows @ query[t, h].double() * scale
            logs[t, h] = torch.logsumexp(scores, 0)
            out[t, h] = torch.softmax(scores, 0) @ value[seen, h // GROUP].double()
    return out, logs


def near(found, expected):
    eps = torch.finfo(found.dtype).eps
    torch.testing.assert_close(
        found.cpu().double(), expected.double(), rtol=4 * eps, atol=max(4 * eps, 2e-6)
    )


class Cache:
    """A paged cache with random rows for sequences of the given lengths, in shuffled blocks."""

    def __init__(self, lengths, dtype=torch.float32, spare_columns=1):
        blocks = [-(-n // BLOCK) for n in lengths]
        order = (torch.randperm(sum(blocks) + 2)[: sum(blocks)]).tolist()
        self.table = torch.full(
            (len(lengths), max(blocks, default=0) + spare_columns), 10**6, dtype=torch.int32
        )  # what lies behind a sequence is not read
        self.key = torch.randn(sum(blocks) + 2, BLOCK, KV_HEADS, SIZE).to(dtype)
        self.value = torch.randn(self.key.shape).to(dtype)
        self.lengths = list(lengths)
        for row, count in enumerate(blocks):
            for column in range(count):
                self.table[row, column] = order.pop()

    def rows(self, sequence):
        blocks = self.table[sequence, : -(-self.lengths[sequence] // BLOCK)].long()
        length = self.lengths[sequence]
        return (c[blocks].flatten(0, 1)[:length] for c in (self.key, self.value))


def packed(queries):
    return list(itertools.accumulate(queries))


def paged(torch_npu, cache, query, queries, **options):
    return torch_npu.npu_fused_infer_attention_score(
        query.npu(),
        cache.key.flatten(2).npu(),
        cache.value.flatten(2).npu(),
        block_table=cache.table.npu(),
        actual_seq_lengths=packed(queries),
        actual_seq_lengths_kv=cache.lengths,
        num_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        input_layout="TND",
        block_size=BLOCK,
        **options,
    )


def expected_of(cache, query, queries, scale, hidden):
    start, outs, logs = 0, [], []
    for i, count in enumerate(queries):
        out, log = loop(query[start : start + count], *cache.rows(i), scale, hidden)
        outs.append(out)
        logs.append(log)
        start += count
    return torch.cat(outs), torch.cat(logs)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "mode, before, after",
    [(0, None, None), (3, None, 0), (4, 5, 0), (4, 3, 2)],
    ids=["all", "causal", "window", "band"],
)
def test_paged_attention_of_chunks_and_decode_rows(torch_npu, dtype, mode, before, after):
    queries, lengths = [3, 1, 1, 7, 1], [11, BLOCK, 1, 7, 2 * BLOCK + 1]
    cache, query = Cache(lengths, dtype), torch.randn(sum(queries), HEADS, SIZE).to(dtype)
    options = {"sparse_mode": mode, "scale": 0.3}
    if mode:
        options["atten_mask"] = causal_pattern()
    if mode == 4:
        options.update(pre_tokens=before, next_tokens=after)
    found, sums = paged(torch_npu, cache, query, queries, softmax_lse_flag=True, **options)

    def hidden(distance):
        return (before is not None and distance < -before) or (
            after is not None and distance > after
        )

    expected, logs = expected_of(cache, query, queries, 0.3, hidden)
    assert found.dtype is dtype and sums.dtype is torch.float32
    near(found, expected)
    near(sums.squeeze(-1), logs)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 20)), min_size=1, max_size=5).filter(
        lambda rows: sum(q for q, _ in rows)
    )
)
def test_any_mixture_of_lengths_with_padded_rows(rows):
    """Sequences without queries, without keys, and shorter than their queries."""
    import torch_npu

    simulated.enable()
    queries, lengths = [q for q, _ in rows], [n for _, n in rows]
    cache, query = Cache(lengths), torch.randn(sum(queries), HEADS, SIZE)
    found, one_zero = paged(
        torch_npu, cache, query, queries, sparse_mode=3, atten_mask=causal_pattern(), scale=0.25
    )
    expected, _ = expected_of(cache, query, queries, 0.25, lambda distance: distance > 0)
    near(found, expected)
    assert one_zero.cpu().tolist() == [0.0]


def test_keys_of_the_call_itself_and_the_cache_by_heads(torch_npu):
    queries = [5, 1, 2]
    query = torch.randn(8, HEADS, SIZE)
    key, value = torch.randn(2, 8, KV_HEADS, SIZE)
    options = {"sparse_mode": 3, "atten_mask": causal_pattern(), "input_layout": "TND"}
    options |= {"num_heads": HEADS, "num_key_value_heads": KV_HEADS, "scale": 1.5}
    ends = packed(queries)
    found, _ = torch_npu.npu_fused_infer_attention_score(
        query.npu(), key.npu(), value.npu(),
        actual_seq_lengths=ends, actual_seq_lengths_kv=ends, **options,
    )  # fmt: skip
    for start, stop in zip([0, *ends], ends):
        rows = slice(start, stop)
        near(found[rows], loop(query[rows], key[rows], value[rows], 1.5, lambda d: d > 0)[0])

    cache = Cache([9, 3])
    query = torch.randn(2, HEADS, SIZE)
    by_heads, _ = torch_npu.npu_fused_infer_attention_score(
        query.npu(), cache.key.transpose(1, 2).contiguous().npu(),
        cache.value.transpose(1, 2).contiguous().npu(), block_table=cache.table.npu(),
        actual_seq_lengths=[1, 2], actual_seq_lengths_kv=[9, 3], block_size=BLOCK, **options,
    )  # fmt: skip
    near(by_heads, expected_of(cache, query, [1, 1], 1.5, lambda d: d > 0)[0])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_paged_attention_of_atb(torch_npu, dtype):
    lengths = [1, 0, BLOCK, BLOCK + 1, 13]
    cache, query = Cache(lengths, dtype), torch.randn(5, HEADS, SIZE).to(dtype)
    out = torch.full((5, HEADS, SIZE), 7.0).to(dtype).npu()
    arguments = {
        "query": query.npu(),
        "key_cache": cache.key.npu(),
        "value_cache": cache.value.npu(),
        "num_kv_heads": KV_HEADS,
        "num_heads": HEADS,
        "scale_value": 0.4,
        "block_table": cache.table.npu(),
        "context_lens": torch.tensor(lengths, dtype=torch.int32),
        "out": out,
    }
    workspace = torch_npu._npu_paged_attention_get_workspace(**arguments)
    torch_npu._npu_paged_attention(**arguments, workspace=workspace)
    near(out, expected_of(cache, query, [1] * 5, 0.4, lambda d: False)[0])

    lens = arguments["context_lens"]
    graph, _ = capture(lambda: torch_npu._npu_paged_attention(**arguments))
    lens.fill_(1)
    out.fill_(7.0)
    graph.replay()  # lengths of the host are those of the capture
    near(out, expected_of(cache, query, [1] * 5, 0.4, lambda d: False)[0])
    with pytest.raises(DeviceError, match=r"AI-DEV-015.*5 queries, 2 lengths"):
        torch_npu._npu_paged_attention(**arguments | {"context_lens": lens[:2]})
    with pytest.raises(DeviceError, match=r"AI-DEV-015.*6 heads, 3 kv heads"):
        torch_npu._npu_paged_attention(**arguments | {"num_kv_heads": 3})
    with pytest.raises(DeviceError, match=r"AI-DEV-015.*key_cache is torch.float64"):
        torch_npu._npu_paged_attention(**arguments | {"key_cache": cache.key.double().npu()})


class Captured:
    """Decode attention of two sequences in a graph, in a task group as serving hosts do it."""

    def __init__(self, torch_npu, lengths):
        self.operator = torch_npu.npu_fused_infer_attention_score.out
        self.cache, self.query = Cache([20, 20]), torch.randn(2, HEADS, SIZE)
        self.out = torch.empty(2, HEADS, SIZE, device="npu")
        self.static = {
            "query": self.query.npu(),
            "key": self.cache.key.flatten(2).npu(),
            "value": self.cache.value.flatten(2).npu(),
            "block_table": self.cache.table.npu(),
            "num_heads": HEADS,
            "num_key_value_heads": KV_HEADS,
            "input_layout": "TND",
            "block_size": BLOCK,
            "scale": 0.5,
            "sparse_mode": 3,
            "atten_mask": causal_pattern(),
            "actual_seq_lengths": [1, 2],
        }
        self.workspace = torch_npu._npu_fused_infer_attention_score_get_max_workspace(
            **self.static, actual_seq_lengths_kv=lengths
        )
        self.lse = torch.empty(1, device="npu")
        self.graph, self.side = torch.npu.NPUGraph(), torch.npu.Stream()
        with torch.npu.graph(self.graph):
            stream = torch.npu.current_stream()
            torch.npu.graph_task_group_begin(stream)
            self.launch(lengths)
            self.handle = torch.npu.graph_task_group_end(stream)

    def launch(self, lengths, **changed):
        arguments = {**self.static, "workspace": self.workspace, "out": [self.out, self.lse]}
        self.operator(**arguments | {"actual_seq_lengths_kv": lengths} | changed)

    def update(self, lengths, **changed):
        torch.npu.synchronize()
        with torch.npu.stream(self.side):
            torch.npu.graph_task_update_begin(self.side, self.handle)
            self.launch(lengths, **changed)
            torch.npu.graph_task_update_end(self.side)
        torch.npu.current_stream().wait_stream(self.side)

    def check(self, lengths):
        self.cache.lengths = lengths
        near(self.out, expected_of(self.cache, self.query, [1, 1], 0.5, lambda d: d > 0)[0])


def test_captured_lengths_stay_until_a_task_update(torch_npu):
    case = Captured(torch_npu, [1, 1])
    case.graph.replay()
    case.check([1, 1])
    for lengths in ([9, 17], [20, 1], [0, 8]):
        case.update(lengths)
        case.graph.replay()
        case.check(lengths)
    elsewhere = torch.empty_like(case.out)
    with pytest.raises(DeviceError, match="AI-CAP-024"):
        case.update([1, 1], out=[elsewhere, case.lse])


def test_what_the_operator_refuses_it_refuses_while_capturing(torch_npu):
    case = Captured(torch_npu, [3, 3])
    for name, change, text in (
        ("actual_seq_lengths", [1, 3], r"queryT\(2\) != actualSequenceLengthQ\(3\)"),
        ("actual_seq_lengths", [2], "1 query lengths, 2 key lengths"),
        ("atten_mask", None, "sparse_mode=3 with atten_mask None"),
        ("num_key_value_heads", 4, "6 heads and 4 kv heads"),
        ("block_table", case.static["block_table"][:1], "1 rows of the block table"),
        ("value", case.static["value"].half(), "value is torch.float16"),
    ):
        with pytest.raises(DeviceError, match=f"AI-DEV-015.*{text}.*561002"):
            case.launch([3, 3], **{name: change})
        with pytest.raises(DeviceError, match="AI-DEV-015"):
            capture(lambda name=name, change=change: case.launch([3, 3], **{name: change}))
    for change in ({"input_layout": "BSH"}, {"sparse_mode": 2}, {"query_rope": case.out}):
        with pytest.raises(NotSimulatedError, match="AI-DEV-008"):
            case.launch([3, 3], **change)
    with pytest.raises(DeviceError, match=r"33 keys need 5 blocks, the block table has 4"):
        case.launch([3, 33])
    with pytest.raises(DeviceError, match=r"names blocks \d to 1000000 .*507015"):
        case.launch([3, 25])
    with pytest.raises(DeviceError, match="goes down from 2 to 0"):
        case.launch([3, 3, 3], actual_seq_lengths=[2, 0, 2],
                    block_table=torch.zeros(3, 4, dtype=torch.int32).npu())  # fmt: skip
