"""The dimensions of a decoder that memory and traffic follow from."""

from __future__ import annotations

from dataclasses import dataclass

from graphs.errors import PlanInputError


@dataclass(frozen=True, kw_only=True)
class StepBytes:
    """What one decode step reads on one rank."""

    weights: float
    kv: float

    @property
    def ratio(self) -> float:
        """Keys and values over weights: how much of a step is attention."""
        return self.kv / self.weights

    def to_dict(self) -> dict[str, float]:
        return {"weights": self.weights, "kv": self.kv, "ratio": self.ratio}


@dataclass(frozen=True, kw_only=True)
class ModelShape:
    """A decoder with grouped-query attention, dense or with routed experts.

    Attributes:
        mlp_width: intermediate size of the dense MLP, or of one expert.
        num_experts, active_experts: routed experts per layer and how many a token visits; 0 dense.
        shared_width: intermediate size of what every token visits beside the experts.
        tied_head: the output projection is the embedding; it is read all the same.
        weight_bytes, kv_bytes, activation_bytes: per element.
        tensor_parallel: ranks that share each layer; all figures are those of one rank.

    Raises:
        PlanInputError: AI-GRAPH-042 for a dimension below 1.
    """

    num_layers: int
    hidden_size: int
    mlp_width: int
    num_q_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    num_experts: int = 0
    active_experts: int = 0
    shared_width: int = 0
    weight_bytes: float = 2
    kv_bytes: float = 2
    activation_bytes: int = 2
    tensor_parallel: int = 1

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            optional = name in ("num_experts", "active_experts", "shared_width")
            if value <= 0 and not (optional and value == 0):
                raise PlanInputError(
                    "AI-GRAPH-042",
                    f"{name} of the model is {value}",
                    rule="dimensions of a decoder are positive",
                    fix=f"correct {name}",
                )

    @property
    def q_size(self) -> float:
        """Elements of the query heads of a token on one rank."""
        return self.num_q_heads * self.head_dim / self.tensor_parallel

    @property
    def kv_size(self) -> float:
        """Elements of the keys of a token on one rank; heads are copied when ranks are more."""
        return max(self.num_kv_heads / self.tensor_parallel, 1) * self.head_dim

    def weights_read(self, rows: int) -> float:
        """Bytes of weights that a step of `rows` rows reads on one rank.

        Of routed experts those count that at least one row visits, on average, when routing is
        even: `E * (1 - (1 - k/E) ** rows)`. The embedding is a lookup and does not count.
        """
        attention = self.hidden_size * (2 * self.q_size + 2 * self.kv_size)
        experts: float = 1
        if self.num_experts:
            share = 1 - self.active_experts / self.num_experts
            experts = self.num_experts * (1 - share**rows)
        mlp = 3 * self.hidden_size * (experts * self.mlp_width + self.shared_width)
        head = self.hidden_size * self.vocab_size
        layers = self.num_layers * (attention + mlp / self.tensor_parallel)
        return (layers + head / self.tensor_parallel) * self.weight_bytes

    def kv_read(self, rows: int, context: int) -> float:
        """Bytes of keys and values that a step reads on one rank, `context` tokens per row."""
        return 2 * self.num_layers * self.kv_size * self.kv_bytes * rows * context

    def step_bytes(self, rows: int, context: int) -> StepBytes:
        """What a step of `rows` rows with `context` tokens each reads."""
        return StepBytes(weights=self.weights_read(rows), kv=self.kv_read(rows, context))
