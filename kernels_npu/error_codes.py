"""The catalogue of error codes: code -> its meaning in one line.

Families: SRC kernel source, TYPE dtypes and shapes of a launch, MEM on-chip memory, SYNC flags and
barriers, RACE unordered accesses, INIT uninitialised data, BOUND out of bounds, DEV simulated device,
CAP graph capture, STREAM stream order, OP operators and their registry, GRAPH decode graphs,
VERIFY failed verification, MODEL configs, weights and tokenizers, CLI the command line, ENV installation.
"""

from __future__ import annotations

CODES: dict[str, str] = {
    "AI-SRC-030": "A dtype name is not one of the dialect's.",
    "AI-DEV-010": "The named SoC is not in the table of chips.",
    "AI-MODEL-001": "A model configuration lacks a required key.",
    "AI-MODEL-002": "A model configuration holds a value that cannot be meant.",
    "AI-MODEL-003": "The model's architecture is not one that the decoder computes exactly.",
    "AI-MODEL-004": "The model uses an option that the decoder does not compute.",
    "AI-MODEL-005": "No built-in model, model directory or GGUF file has this name.",
    "AI-MODEL-006": "The package that carries a built-in model's weights is not installed.",
    "AI-MODEL-007": "A JSON file of the model cannot be read or has the wrong form.",
    "AI-MODEL-010": "A weight file is missing or cannot be opened.",
    "AI-MODEL-011": "A weight file is corrupt or was cut off.",
    "AI-MODEL-012": "The weights lack tensors that the configuration names.",
    "AI-MODEL-013": "A weight has another shape or dtype than the configuration says.",
    "AI-MODEL-014": "A weight is stored in a quantisation that cannot be dequantised here.",
    "AI-MODEL-015": "An optional package that this model or prompt needs is not installed.",
    "AI-MODEL-020": "The model has no tokenizer; prompts must be token ids.",
    "AI-MODEL-021": "The model's tokenizer is broken or of an unknown kind.",
    "AI-MODEL-022": "The model has no chat template, or the template failed.",
    "AI-MODEL-030": "The KV cache has too few free blocks.",
    "AI-MODEL-031": "Prompt and new tokens exceed the positions of the model.",
    "AI-MODEL-032": "A prompt is empty or holds token ids outside the vocabulary.",
    "AI-MODEL-033": "A decode step produced logits that are not numbers.",
    "AI-MODEL-034": "The reference cannot be computed for this model.",
    "AI-CLI-001": "An option has a value outside its range.",
    "AI-CLI-002": "The device asked for is not available in this installation.",
    "AI-CLI-003": "Two options contradict each other.",
    "AI-CLI-004": "A file given on the command line cannot be read or written.",
    "AI-CLI-005": "The command needs torch, which cannot be imported.",
}
