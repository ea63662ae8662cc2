"""What a vector index is to be: the options that users give, checked and completed (spec indices.md 14.9)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from lancelet.errors import InvalidInput, InvalidOption, InvalidType
from lancelet.format.proto.vector_index_pb2 import VectorIndexDetails
from lancelet.index.vector.files import VectorModel, element_of
from lancelet.index.vector.metric import Metric, metric_named
from lancelet.index.vector.quantizers import parts_of

if TYPE_CHECKING:
    from lancelet.index.vector.accelerator import Accelerator
    from lancelet.index.vector.precomputed import Precomputed
    from lancelet.index.vector.query import GraphKind, QuantizerKind, Vectors

MODEL: Final = "model"
"""An option of ours: a :class:`VectorModel`, so that nothing is trained."""
INDEX_TYPE: Final = "index_type"
ACCELERATOR: Final = "accelerator"
"""An :class:`Accelerator`, on which the large products are done."""
PRECOMPUTED: Final = "precomputed"
"""A :class:`Precomputed`: partitions of rows, and maybe codes."""
FILE_VERSIONS: Final = ("V3", "LEGACY")
_SAMPLE_RATE: Final = 256
_MAX_STEPS: Final = 50
_SHUFFLE_BATCHES: Final = 10240
_SHUFFLE_CONCURRENCY: Final = 2
_PREFETCH: Final = 2
_TARGETS: Final = {"FLAT": 4096, "RQ": 4096, "PQ": 8192, "SQ": 8192}
_GRAPH_TARGET: Final = 1 << 20
_RQ_VERSION: Final = 2


@dataclass(frozen=True, slots=True)
class Streaming:
    """How centroids are trained from more vectors than are held at once: of some of them first, then by steps over all."""

    rate: int
    """Vectors that are held for each partition."""
    first: int
    """Vectors for each partition that the first centroids are of."""
    passes: int


@dataclass(frozen=True)
class VectorOptions:
    """Options of an index over a column of some type."""

    index_type: str
    metric: Metric
    dtype: np.dtype[Any]
    dimension: int
    num_partitions: int | None
    target_partition_size: int | None
    centroids: Vectors | None
    model: VectorModel | None
    sample_rate: int
    max_iters: int
    seed: int
    quantizer: Mapping[str, Any]
    """What the quantizer made of them."""
    graph: Mapping[str, Any] | None
    shuffle_batches: int = _SHUFFLE_BATCHES
    shuffle_concurrency: int = _SHUFFLE_CONCURRENCY
    skip_transpose: bool = False
    accelerator: Accelerator | None = None
    streaming: Streaming | None = None
    precomputed: Precomputed | None = None

    @property
    def parts(self) -> tuple[QuantizerKind, GraphKind | None]:
        return parts_of(self.index_type)

    @property
    def target(self) -> int:
        """How many rows a partition should have."""
        if self.target_partition_size is not None:
            return self.target_partition_size
        quantizer, graph = self.parts
        return _TARGETS[quantizer.name] if graph is None else _GRAPH_TARGET

    def partitions_of(self, rows: int) -> int:
        """How many partitions so many rows get."""
        quantizer, _ = self.parts
        wanted = self.num_partitions if self.num_partitions is not None else max(1, rows // self.target)
        # As in pylance, partitions of product quantization are not smaller than a codebook, whatever its own size.
        most = rows // _SAMPLE_RATE if quantizer.name == "PQ" else rows
        return max(1, min(wanted, most))

    @property
    def least_rows(self) -> int:
        """With fewer there is nothing to train from."""
        quantizer, _ = self.parts
        trained = quantizer.name == "PQ" and self.quantizer.get("pq_codebook") is None
        return 1 << self.quantizer["num_bits"] if trained else 1

    @property
    def index_version(self) -> int:
        return _RQ_VERSION if self.index_type.endswith("_RQ") else 1

    def details(self) -> bytes:
        """The message in the manifest."""
        message = VectorIndexDetails(metric_type=self.metric.number, target_partition_size=self.target_partition_size)
        quantizer, graph = self.parts
        hints: dict[str, Any] = {
            "lance.ivf.max_iters": self.max_iters,
            "lance.ivf.sample_rate": self.sample_rate,
            "lance.ivf.shuffle_partition_batches": self.shuffle_batches,
            "lance.ivf.shuffle_partition_concurrency": self.shuffle_concurrency,
            "lance.skip_transpose": str(self.skip_transpose).lower(),
        }
        bits = self.quantizer.get("num_bits", 0)
        match quantizer.name:
            case "PQ":
                message.pq.num_bits, message.pq.num_sub_vectors = bits, self.quantizer["num_sub_vectors"]
                hints["lance.pq.max_iters"] = self.max_iters
                hints["lance.pq.sample_rate"] = self.sample_rate
                hints["lance.pq.kmeans_redos"] = 1
            case "SQ":
                message.sq.num_bits = bits
                hints["lance.sq.sample_rate"] = self.sample_rate
            case "RQ":
                message.rq.num_bits = bits
                message.rq.rotation_type = int(self.quantizer.get("rotation_type") == "matrix")
            case _:
                message.flat.SetInParent()
        if graph is not None:
            told = self.graph or {}
            message.hnsw_index_config.max_connections = told["m"]
            message.hnsw_index_config.construction_ef = told["ef_construction"]
            message.hnsw_index_config.max_level = told["max_level"]
            hints["lance.hnsw.prefetch_distance"] = _PREFETCH
        for key, value in hints.items():
            message.runtime_hints[key] = str(value)
        return message.SerializeToString()


def read_options(dtype: pa.DataType, options: Mapping[str, Any], column: str = "the column") -> VectorOptions:
    """Check options for vectors of a type. Options that nobody knows are passed over, as pylance does."""
    try:
        element, dimension, several = element_of(dtype)
    except InvalidType as error:
        raise InvalidType(f"Vector column {column}: {error}") from None
    index_type = str(options.get(INDEX_TYPE, "")).upper()
    quantizer, graph = parts_of(index_type)
    metric = metric_named(options.get("metric", "l2"))
    if (element == np.uint8) != (metric is Metric.HAMMING):
        fit = "hamming" if element == np.uint8 else "l2, cosine or dot"
        raise InvalidInput(f"vectors of {element} have no {metric.value} index; metric={fit} fits them")
    if several and metric is not Metric.COSINE:
        raise InvalidInput("a column of lists of vectors has cosine indices only; give metric='cosine'")
    sample_rate = _count(options, "sample_rate", _SAMPLE_RATE)
    max_iters = _count(options, "max_iters", _MAX_STEPS)
    model = options.get(MODEL)
    if model is not None and not isinstance(model, VectorModel):
        raise InvalidType(f"a model is what a training made, not {model!r}")
    centroids = given_centroids(options.get("ivf_centroids"), element, dimension)
    partitions = _partitions(options.get("num_partitions"))
    if centroids is not None:
        if partitions is not None and partitions != len(centroids):
            raise InvalidInput(f"Ivf centroids has {len(centroids)} clusters, but num_partitions={partitions}")
        partitions = len(centroids)
    target = options.get("target_partition_size")
    if target is not None and (not isinstance(target, int) or target < 1):
        raise InvalidOption(f"target_partition_size is a number of rows, not {target!r}")
    asked = {**options, "sample_rate": sample_rate, "max_iters": max_iters}
    inner = quantizer.check(asked, metric, element, dimension)
    accelerator = options.get(ACCELERATOR)
    return VectorOptions(
        index_type,
        metric,
        element,
        dimension,
        partitions,
        target,
        centroids,
        model,
        sample_rate,
        max_iters,
        int(options.get("seed") or 0),
        {
            **inner,
            "sample_rate": sample_rate,
            "max_iters": max_iters,
            "skip_transpose": options.get("skip_transpose"),
            "step": None if accelerator is None else accelerator.step,
        },
        None if graph is None else graph.check(options),
        _count(options, "shuffle_partition_batches", _SHUFFLE_BATCHES),
        _count(options, "shuffle_partition_concurrency", _SHUFFLE_CONCURRENCY),
        bool(options.get("skip_transpose")),
        accelerator,
        _streaming(options, sample_rate),
        _precomputed(options.get(PRECOMPUTED), centroids, inner, several),
    )


def options_of_details(details: VectorIndexDetails) -> dict[str, Any]:
    """The options that an index was built with, as far as its entry tells."""
    told: dict[str, Any] = {}
    if details.metric_type < len(Metric):
        told["metric"] = list(Metric)[details.metric_type].value
    if details.HasField("target_partition_size"):
        told["target_partition_size"] = details.target_partition_size
    match details.WhichOneof("compression"):
        case "pq":
            told["num_bits"], told["num_sub_vectors"] = details.pq.num_bits, details.pq.num_sub_vectors
        case "rq":
            told["num_bits"] = details.rq.num_bits
            told["rotation_type"] = "matrix" if details.rq.rotation_type else "fast"
    if details.HasField("hnsw_index_config"):
        graph = details.hnsw_index_config
        told |= {"m": graph.max_connections, "ef_construction": graph.construction_ef, "max_level": graph.max_level}
    hints = details.runtime_hints
    for name, key in (("sample_rate", "lance.ivf.sample_rate"), ("max_iters", "lance.ivf.max_iters")):
        if hints.get(key, "").isdecimal():
            told[name] = int(hints[key])
    if hints.get("lance.skip_transpose") == "true":
        told["skip_transpose"] = True
    return told


def given_centroids(centroids: Any, element: np.dtype[Any], dimension: int) -> Vectors | None:
    """Centroids of the caller's, in the type of the column."""
    if centroids is None:
        return None
    if isinstance(centroids, pa.FixedShapeTensorArray):
        centroids = centroids.to_numpy_ndarray()
    elif isinstance(centroids, pa.FixedSizeListArray):
        size = centroids.type.list_size
        centroids = np.asarray(centroids.flatten().to_numpy(zero_copy_only=False)).reshape(-1, size)
    found = np.asarray(centroids)
    if found.ndim != 2:
        raise InvalidInput(f"Ivf centroids must be 2D array: (clusters, dim), got {found.shape}")
    if not len(found):
        raise InvalidInput(f"Ivf centroids must have at least one cluster, got {found.shape}")
    if found.dtype.kind != element.kind:
        raise InvalidType(f"IVF centroids must be floating number, got {found.dtype}")
    if found.shape[1] != dimension:
        raise InvalidInput(f"the centroids have {found.shape[1]} numbers each, but the vectors have {dimension}")
    if not np.isfinite(found).all():
        raise InvalidInput("the centroids have numbers that are not finite")
    cast: Vectors = found.astype(element)
    return cast


def _streaming(options: Mapping[str, Any], sample_rate: int) -> Streaming | None:
    """None where all of the sample may be held at once."""
    rate = _count(options, "streaming_sample_rate", sample_rate)
    first = _count(options, "streaming_coreset_rate", rate)
    passes = _count(options, "streaming_refine_passes", 0, least=0)
    return None if rate >= sample_rate else Streaming(rate, min(first, sample_rate), 1 + passes)


def _precomputed(
    known: Any, centroids: Vectors | None, quantizer: Mapping[str, Any], several: bool
) -> Precomputed | None:
    if known is None:
        return None
    if several:
        raise InvalidInput("partitions that were worked out before have one vector in a row; this column has several")
    if centroids is None:
        raise InvalidInput("ivf_centroids must be provided when precomputed_partition_dataset is provided")
    known.check(len(centroids))
    if known.codes is not None:
        if quantizer.get("pq_codebook") is None:
            raise InvalidInput("codes that were worked out before are of a codebook: give it as pq_codebook")
        width = quantizer["num_sub_vectors"] * quantizer["num_bits"] // 8
        if known.codes.shape[1] != width:
            raise InvalidInput(f"the codes have {known.codes.shape[1]} bytes, but the codebook makes {width}")
    return known  # type: ignore[no-any-return]


def _partitions(number: Any) -> int | None:
    if isinstance(number, float):
        warnings.warn("num_partitions is float, converting to int", UserWarning, stacklevel=2)
        number = int(number)
    if number is not None and (not isinstance(number, (int, np.integer)) or isinstance(number, bool)):
        raise InvalidType(f"num_partitions must be int, got {type(number)}")
    if number is not None and number < 1:
        raise InvalidOption(f"num_partitions is a number of partitions, at least 1, not {number}")
    return None if number is None else int(number)


def _count(options: Mapping[str, Any], name: str, default: int, least: int = 1) -> int:
    number = options.get(name)
    if number is None:
        return default
    if not isinstance(number, (int, np.integer)) or isinstance(number, bool):
        raise InvalidType(f"{name} is a number, not {number!r}")
    if number < least:
        raise InvalidOption(f"{name} is at least {least}, not {number}")
    return int(number)
