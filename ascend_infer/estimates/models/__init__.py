"""Models as estimates see them: layers, matrices and caches, read from any `config.json`."""

from __future__ import annotations

from ascend_infer.estimates.models.catalogue import MODELS, PublicModel, load_decoder
from ascend_infer.estimates.models.decoder import Attention, Decoder, Layer, Mlp
from ascend_infer.estimates.models.matrix import Matrix, Parallel
from ascend_infer.estimates.models.reading import read_decoder
from ascend_infer.estimates.models.scan import Indexer, Scan

__all__ = [
    "MODELS",
    "Attention",
    "Decoder",
    "Indexer",
    "Layer",
    "Matrix",
    "Mlp",
    "Parallel",
    "PublicModel",
    "Scan",
    "load_decoder",
    "read_decoder",
]
