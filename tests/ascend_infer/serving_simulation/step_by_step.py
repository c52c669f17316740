"""The same scheduler without events: one step at a time, every token and block by itself.

Slow and simple, to compare the engine with. Blocks have numbers here, sequences have lists of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ascend_infer.serving_simulation import GivenStepTime, Scheduler, Workload


@dataclass
class Stepper:
    workload: Workload
    scheduler: Scheduler
    step_time: GivenStepTime
    now: float = 0.0
    times: dict[int, list[float]] = field(default_factory=dict)
    refused: set[int] = field(default_factory=set)
    preemptions: int = 0
    hits: int = 0
    lost: int = 0
    most_blocks: int = 0
    steps: int = 0

    def __post_init__(self) -> None:
        w = self.workload
        count = len(w.prompt_tokens)
        self.capacity = self.scheduler.cache.blocks or 10**9
        self.size = self.scheduler.cache.block_size
        self.static = self.scheduler.batching == "static"
        self.mixed = self.scheduler.batching == "chunked"
        clients = w.load.concurrency
        start = w.arrivals.tolist() if w.arrivals is not None else [0.0] * min(clients or 0, count)
        self.pending = [float(t) for t in start]
        self.issued = len(self.pending)
        self.number = 0
        self.waiting: list[dict] = []
        self.running: list[dict] = []
        self.kept: dict[int, int] = {}  # prefix -> blocks
        self.idle: list[int] = []  # prefixes nobody uses, oldest first

    def held(self) -> int:
        """Blocks that sequences need."""
        own = sum(s["blocks"] for s in self.running)
        return own + sum(b for p, b in self.kept.items() if p not in self.idle)

    def over(self, time: float) -> None:
        if self.workload.arrivals is None and self.issued < len(self.workload.prompt_tokens):
            self.issued += 1
            self.pending = sorted([*self.pending, time + self.workload.think])

    def need(self, tokens: int) -> int:
        return -(-tokens // self.size)

    def arrive(self, *, earlier: bool = False) -> None:
        free = 0 if self.static and self.running else self.scheduler.slots - len(self.running)
        limit = self.scheduler.max_waiting
        while self.pending and (
            self.pending[0] < self.now if earlier else self.pending[0] <= self.now
        ):
            time, index = self.pending.pop(0), self.number
            self.number += 1
            prompt = int(self.workload.prompt_tokens[index])
            target = int(self.workload.output_tokens[index])
            self.times[index] = []
            if self.need(prompt + target - 1) > self.capacity or (
                limit is not None and len(self.waiting) >= limit + free
            ):
                self.refused.add(index)
                self.over(time)
                continue
            prefix = int(self.workload.prefixes[index])
            if not self.scheduler.cache.share_prefixes:
                prefix = -1
            whole = int(self.workload.prefix_tokens[index]) // self.size
            self.waiting.append(
                {
                    "i": index,
                    "goal": prompt,
                    "prompt": prompt,
                    "target": target,
                    "cached": 0,
                    "prefix": prefix,
                    "whole": whole,
                    "shared": 0,
                    "blocks": 0,
                    "decodes": False,
                }
            )

    def make_room(self, blocks: int) -> None:
        """Throw out idle prefixes until so many more blocks fit."""
        while sum(s["blocks"] for s in self.running) + sum(self.kept.values()) + blocks > (
            self.capacity
        ):
            del self.kept[self.idle.pop(0)]

    def fits(self, s: dict, keep: int) -> bool:
        tokens = s["goal"]
        if self.scheduler.cache.reserve_output:
            tokens = s["prompt"] + s["target"] - 1
        shared = self.kept.get(s["prefix"], 0)
        spare = keep + (int(self.scheduler.cache.watermark * self.capacity) if self.running else 0)
        others = self.held() + (shared if s["prefix"] in self.idle else 0)
        if others + self.need(tokens) - shared + spare > self.capacity:
            return False
        if s["prefix"] in self.idle:
            self.idle.remove(s["prefix"])
        s["shared"] = shared
        self.make_room(self.need(tokens) - shared)
        s["blocks"] = self.need(tokens) - shared
        s["cached"] = min(shared * self.size, s["goal"] - 1)
        self.hits += s["cached"]
        return True

    def growing(self) -> list[dict]:
        if self.scheduler.cache.reserve_output:
            return []
        return [s for s in self.running if s["decodes"] and s["cached"] % self.size == 0]

    def drop(self, s: dict) -> None:
        self.running.remove(s)
        used = any(o["shared"] and o["prefix"] == s["prefix"] for o in self.running)
        if s["shared"] and not used:
            self.idle.append(s["prefix"])
        s.update(shared=0, blocks=0, cached=0, decodes=False)

    def token(self, s: dict) -> None:
        self.times[s["i"]].append(self.now)
        if len(self.times[s["i"]]) == s["target"]:
            self.drop(s)
            self.over(self.now)

    def run(self) -> None:
        while True:
            self.arrive()
            if not self.running and not self.waiting:
                if not self.pending:
                    return
                self.now = max(self.now, self.pending[0])
                continue
            while self.held() + len(self.growing()) > self.capacity:
                s = self.running[-1]
                self.lost += max(s["cached"] - s["shared"] * self.size, 0)
                self.drop(s)
                s["goal"] = s["prompt"] + len(self.times[s["i"]])
                self.waiting.insert(0, s)
                self.preemptions += 1
            self.one_step()

    def one_step(self) -> None:
        live = [s for s in self.running if s["decodes"]]
        budget = self.scheduler.token_budget - len(live) if self.mixed else 10**9
        chunks = []
        for s in self.running:
            if not s["decodes"] and budget:
                chunks.append((s, min(s["goal"] - s["cached"], budget)))
                budget -= chunks[-1][1]
        open_gate = not (self.static and self.running)
        keep = len(self.growing())
        while open_gate and budget and self.waiting and len(self.running) < self.scheduler.slots:
            if not self.fits(self.waiting[0], keep):
                break
            s = self.waiting.pop(0)
            self.running.append(s)
            chunks.append((s, min(s["goal"] - s["cached"], budget)))
            budget -= chunks[-1][1]
        decoding = live if self.mixed or not chunks else []
        seconds = self.step_time.per_prompt_token * sum(tokens for _, tokens in chunks)
        if decoding:
            context = sum(s["cached"] + 1 for s in decoding)
            seconds += self.step_time.step + self.step_time.per_context_token * context
            self.steps += 1
            for s in self.growing():
                self.make_room(1)
                s["blocks"] += 1
        self.most_blocks = max(self.most_blocks, self.held())
        self.now += seconds
        self.arrive(earlier=True)  # these find the slots that were free during the step
        for s in decoding:
            s["cached"] += 1
        for s in decoding:
            self.token(s)
        for s, tokens in chunks:
            s["cached"] += tokens
            if s["cached"] == s["goal"]:
                if s["prefix"] >= 0 and not s["shared"] and s["whole"]:
                    if s["prefix"] not in self.kept:
                        self.kept[s["prefix"]] = s["shared"] = s["whole"]
                        s["blocks"] -= s["whole"]
                s["decodes"] = True
                self.token(s)
