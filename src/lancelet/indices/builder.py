"""Vector indices built step by step, for those who want to keep, look at or spread out what is between the steps."""

from __future__ import annotations

import math
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lancelet._api.entry import dataset as open_dataset
from lancelet._api.index_descriptions import IndexConfig
from lancelet._api.write import write_dataset
from lancelet.errors import InvalidInput, InvalidType, UnknownColumn
from lancelet.format.extensions import storage_type
from lancelet.index.vector.accelerator import Accelerator
from lancelet.index.vector.files import VectorModel, element_of
from lancelet.index.vector.metric import Metric, metric_named
from lancelet.index.vector.pq import ProductQuantizer
from lancelet.indexing import vector_steps
from lancelet.indexing.vector_steps import PARTITION_COLUMN, PQ_COLUMN, VectorColumn
from lancelet.indices.ivf import IvfModel
from lancelet.indices.pq import PqModel

if TYPE_CHECKING:
    from lancelet.dataset import LanceDataset
    from lancelet.fragment import LanceFragment

__all__ = ["PARTITION_COLUMN", "PQ_COLUMN", "RESIDUAL_COLUMN", "IndexConfig", "IndicesBuilder"]

RESIDUAL_COLUMN = "__residual_vector"
_PART_LENGTHS = (16, 8)
"""How long the parts of a vector are that product quantization cuts it into by itself, the first one that fits."""


class IndicesBuilder:
    """The steps of building an ``IVF_PQ`` index; :meth:`lancelet.LanceDataset.create_index` does them all.

    Parameters
    ----------
    dataset
        The table.
    column
        Its vectors: lists of a fixed size, or tensors of one dimension, of floating point numbers or bytes.

    Examples
    --------
    >>> import lancelet
    >>> vectors = np.random.default_rng(1).standard_normal((1000, 16), np.float32)
    >>> column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), 16)
    >>> table = lancelet.write_dataset({"vector": column}, "memory://docs/indices_builder")
    >>> builder = IndicesBuilder(table, "vector")
    >>> ivf = builder.train_ivf(4, sample_rate=100)
    >>> pq = builder.train_pq(ivf, 2, sample_rate=3)
    >>> ivf.num_partitions, pq.dimension
    (4, 16)
    """

    def __init__(self, dataset: LanceDataset, column: str | Sequence[str]) -> None:
        self.dataset = dataset
        self.column = [column] if isinstance(column, str) else list(column)
        self.dimension, self._dtype = _vectors(dataset, self.column)

    def train_ivf(
        self,
        num_partitions: int | None = None,
        *,
        distance_type: str = "l2",
        accelerator: object = None,
        sample_rate: int = 256,
        max_iters: int = 50,
        fragment_ids: list[int] | None = None,
        seed: int = 0,
    ) -> IvfModel:
        """Train the centroids of the partitions from a sample.

        Parameters
        ----------
        num_partitions
            How many; about the square root of the number of rows by default.
        distance_type
            ``"l2"``, ``"cosine"``, ``"dot"`` or, for bytes, ``"hamming"``.
        accelerator
            A device of PyTorch, ``"cuda"`` or ``"mps"``.
        sample_rate
            Vectors for each partition in the sample.
        max_iters
            Steps of k-means at most.
        fragment_ids
            Only from these fragments.
        seed
            The same centroids for the same seed.
        """
        rows = self._count_rows(fragment_ids)
        partitions = _partition_count(num_partitions, rows)
        metric = _metric(distance_type)
        _check_sample_rate(sample_rate)
        if partitions * sample_rate > rows:
            raise InvalidInput(
                f"There are not enough rows in the dataset to create IVF centroids with {partitions} partitions and a "
                f"sample rate of {sample_rate}. {partitions * sample_rate} rows needed and there are {rows}"
            )
        _check_steps(max_iters)
        if (self._dtype == np.uint8) != (metric is Metric.HAMMING):
            fit = "hamming" if self._dtype == np.uint8 else "l2, cosine or dot"
            raise InvalidInput(f"vectors of {self._dtype} have no {metric.value} index; distance_type={fit} fits them")
        centroids = vector_steps.train_ivf(
            self._vectors(fragment_ids),
            partitions,
            metric,
            sample_rate,
            max_iters,
            seed=seed,
            accelerator=_accelerator(accelerator),
        )
        return IvfModel(centroids, distance_type.lower())

    def train_pq(
        self,
        ivf_model: IvfModel,
        num_subvectors: int | None = None,
        *,
        sample_rate: int = 256,
        max_iters: int = 50,
        num_bits: int = 8,
        fragment_ids: list[int] | None = None,
        seed: int = 0,
    ) -> PqModel:
        """Train a codebook from a sample of what is left of vectors when their centroids are taken away.

        Parameters
        ----------
        ivf_model
            The partitions.
        num_subvectors
            Parts that a vector is cut into; by default they have 16 numbers each, or 8 where 16 does not fit.
        sample_rate
            Vectors for each word of the codebook in the sample.
        max_iters
            Steps of k-means at most.
        num_bits
            4 or 8 bits for each part.
        fragment_ids
            Only from these fragments.
        seed
            The same codebook for the same seed.
        """
        rows = self._count_rows(fragment_ids)
        parts = _part_count(num_subvectors, self.dimension)
        _check_sample_rate(sample_rate)
        _check_steps(max_iters)
        if sample_rate << max(0, num_bits) > rows:
            raise InvalidInput(
                f"There are not enough rows in the dataset to create PQ codebook with a sample rate of {sample_rate} and "
                f"num_bits of {num_bits}. {sample_rate << max(0, num_bits)} rows needed and there are {rows}"
            )
        centroids = self._centroids(ivf_model)
        metric = _metric(ivf_model.distance_type)
        column = self._vectors(fragment_ids)
        found = vector_steps.train_pq(
            column, centroids, parts, metric, sample_rate, max_iters, bits=num_bits, seed=seed
        )
        return PqModel(parts, found.codebook.reshape(1 << num_bits, -1), num_bits=num_bits)

    def prepare_global_ivf_pq(
        self,
        num_partitions: int | None,
        num_subvectors: int | None,
        *,
        distance_type: str = "l2",
        accelerator: object = None,
        sample_rate: int = 256,
        max_iters: int = 50,
        num_bits: int = 8,
        fragment_ids: list[int] | None = None,
    ) -> dict[str, pa.FixedSizeListArray]:
        """Both models, as ``create_index_uncommitted`` of several processes takes them.

        That is a dict of ``"ivf_centroids"`` and ``"pq_codebook"``; the other parameters are those of :meth:`train_ivf`
        and :meth:`train_pq`.
        """
        ivf = self.train_ivf(
            num_partitions,
            distance_type=distance_type,
            accelerator=accelerator,
            sample_rate=sample_rate,
            max_iters=max_iters,
            fragment_ids=fragment_ids,
        )
        pq = self.train_pq(
            ivf,
            num_subvectors,
            sample_rate=sample_rate,
            max_iters=max_iters,
            num_bits=num_bits,
            fragment_ids=fragment_ids,
        )
        return {"ivf_centroids": ivf.centroids, "pq_codebook": pq.codebook}

    def assign_ivf_partitions(self, ivf_model: IvfModel, accelerator: object, *, output_uri: str | None = None) -> str:
        """Write a table of ``row_id`` and ``partition`` for all vectors; tells its place.

        Parameters
        ----------
        ivf_model
            The partitions.
        accelerator
            A device of PyTorch; None: the processor.
        output_uri
            Where the table goes; to a temporary folder by default.
        """
        place = tempfile.mkdtemp(prefix="lancelet-partitions-") if output_uri is None else output_uri
        schema = pa.schema([pa.field("row_id", pa.uint64()), pa.field("partition", pa.uint32())])
        centroids, metric = self._centroids(ivf_model), _metric(ivf_model.distance_type)
        device = _accelerator(accelerator)

        def batches() -> Iterator[pa.RecordBatch]:
            for rows, nearest in vector_steps.assignments(self._vectors(None), centroids, metric, device):
                yield pa.RecordBatch.from_arrays([pa.array(rows, pa.uint64()), pa.array(nearest)], schema=schema)

        write_dataset(pa.RecordBatchReader.from_batches(schema, batches()), place, mode="overwrite")
        return place

    def transform_vectors(
        self,
        ivf: IvfModel,
        pq: PqModel,
        dest_uri: str,
        fragments: list[LanceFragment] | None = None,
        partition_ds_uri: str | None = None,
    ) -> None:
        """Write a file with a row for each vector: its row id, its partition and its code.

        Parameters
        ----------
        ivf, pq
            The models.
        dest_uri
            The file.
        fragments
            Only these; all by default. Processes may share them.
        partition_ds_uri
            What :meth:`assign_ivf_partitions` wrote; without it partitions are found here.
        """
        if fragments is not None and not fragments:
            raise InvalidInput("fragments must be a non-empty list or None")
        known = None
        if partition_ds_uri is not None:
            found = open_dataset(partition_ds_uri).to_table(columns=["row_id", "partition"])
            order = np.argsort(found["row_id"].to_numpy(), kind="stable")
            known = {name: found[name].to_numpy()[order] for name in found.column_names}
        column = self._vectors(None if fragments is None else [fragment.fragment_id for fragment in fragments])
        vector_steps.write_transformed(dest_uri, column, self._model(ivf, pq), known=known)

    def shuffle_transformed_vectors(
        self,
        unsorted_filenames: list[str],
        dir_path: str,
        ivf: IvfModel,
        shuffle_output_root_filename: str | None = "sorted",
    ) -> list[str]:
        """Sort files of :meth:`transform_vectors` by partition; tells the names of the new files.

        Parameters
        ----------
        unsorted_filenames
            Names of the files.
        dir_path
            The folder of all files.
        ivf
            The partitions.
        shuffle_output_root_filename
            How the names of the new files begin.
        """
        folder = dir_path.rstrip("/")
        root = "sorted" if shuffle_output_root_filename is None else shuffle_output_root_filename
        sources = [f"{folder}/{name}" for name in unsorted_filenames]
        written = vector_steps.sort_transformed(sources, f"{folder}/{root}", ivf.num_partitions)
        return [path.removeprefix(f"{folder}/") for path in written]

    def load_shuffled_vectors(
        self, filenames: list[str], dir_path: str, ivf: IvfModel, pq: PqModel, index_name: str | None = None
    ) -> None:
        """Make an index of files of :meth:`shuffle_transformed_vectors`, and commit it.

        Parameters
        ----------
        filenames
            Names of the files.
        dir_path
            The folder of all files.
        ivf, pq
            The models.
        index_name
            The name of the index, which it replaces; the column's with ``_idx`` by default.
        """
        if not filenames:
            raise InvalidInput("there are no files to make an index of: give what shuffle_transformed_vectors told")
        folder = dir_path.rstrip("/")
        name = f"{self.column[0]}_idx" if index_name is None else index_name
        files = [f"{folder}/{file}" for file in filenames]
        snapshot = vector_steps.commit_sorted(self.dataset.table, self.column[0], name, self._model(ivf, pq), files)
        self.dataset._move(snapshot)

    def _vectors(self, fragment_ids: Sequence[int] | None) -> VectorColumn:
        return VectorColumn(self.dataset.table, self.column[0], fragment_ids)

    def _count_rows(self, fragment_ids: Sequence[int] | None) -> int:
        if fragment_ids is None:
            return self.dataset.count_rows()
        counts = {fragment.fragment_id: fragment.count_rows() for fragment in self.dataset.get_fragments()}
        for number in fragment_ids:
            if number not in counts:
                raise InvalidInput(f"Fragment id does not exist: {number}")
        return sum(counts[number] for number in fragment_ids)

    def _centroids(self, ivf: IvfModel) -> np.ndarray[Any, Any]:
        width = ivf.centroids.type.list_size
        if width != self.dimension:
            raise InvalidInput(f"the centroids have {width} numbers each, but the vectors have {self.dimension}")
        values: np.ndarray[Any, Any] = ivf.centroids.flatten().to_numpy(zero_copy_only=False)
        return values.reshape(-1, width).astype(self._dtype, copy=False)

    def _model(self, ivf: IvfModel, pq: PqModel) -> VectorModel:
        metric = _metric(ivf.distance_type)
        words, parts = 1 << pq.num_bits, pq.num_subvectors
        if pq.dimension != self.dimension or len(pq.codebook) != words or not 0 < parts <= self.dimension:
            raise InvalidInput(
                f"{pq!r} has {len(pq.codebook)} words, and does not fit vectors of {self.dimension} numbers"
            )
        _part_count(parts, self.dimension)
        values = pq.codebook.flatten().to_numpy(zero_copy_only=False)
        codebook = values.reshape(parts, words, self.dimension // parts).astype(self._dtype, copy=False)
        return VectorModel(metric, self._centroids(ivf), ProductQuantizer(metric, codebook, pq.num_bits))


def _vectors(dataset: LanceDataset, columns: Sequence[str]) -> tuple[int, np.dtype[Any]]:
    """The number and the type of the numbers in the vectors of a column."""
    schema = dataset.schema
    for name in columns:
        if name not in schema.names:
            raise UnknownColumn(name, schema.names)
    if len(columns) != 1:
        raise InvalidType(f"a vector index is over one column, not over {list(columns)}")
    dtype = schema.field(columns[0]).type
    tensors = isinstance(dtype, pa.FixedShapeTensorType) and len(dtype.shape) == 1
    try:
        element, dimension, _ = element_of(storage_type(dtype) if tensors else dtype)
    except InvalidType as error:
        raise InvalidType(f"Vector column {columns[0]}: {error}") from None
    return dimension, element


def _metric(distance_type: object) -> Metric:
    try:
        return metric_named(distance_type)
    except InvalidInput as error:
        raise InvalidInput(f"Distance type {distance_type} not supported: {error}") from None


def _partition_count(number: object, rows: int) -> int:
    if number is None:
        return max(1, round(math.sqrt(rows)))
    if isinstance(number, float):
        warnings.warn("num_partitions is float, converting to int", UserWarning, stacklevel=3)
        number = int(number)
    if not isinstance(number, (int, np.integer)) or isinstance(number, bool):
        raise InvalidType(f"num_partitions must be int, got {type(number)}")
    if number < 1:
        raise InvalidInput(f"num_partitions is 1 or more, not {number}")
    return int(number)


def _part_count(number: object, dimension: int) -> int:
    if number is None:
        for length in _PART_LENGTHS:
            if dimension % length == 0:
                return dimension // length
        raise InvalidInput(
            f"vectors of {dimension} numbers cannot be cut into parts of 16 or 8; say into how many by num_subvectors"
        )
    if not isinstance(number, (int, np.integer)) or isinstance(number, bool):
        raise InvalidInput(f"num_subvectors must be an int, not {number!r}")
    if number < 1:
        raise InvalidInput(f"num_subvectors must be greater than 0, not {number}")
    if number > dimension:
        raise InvalidInput(f"num_subvectors must be less than or equal to the dimension of the vectors, {dimension}")
    if dimension % number:
        raise InvalidInput(f"dimension ({dimension}) must be divisible by num_subvectors ({number}) without remainder")
    return int(number)


def _check_sample_rate(rate: object) -> None:
    if not isinstance(rate, int) or rate < 2:
        raise InvalidInput(f"The sample_rate must be an int greater than 1, got {rate}")


def _check_steps(steps: object) -> None:
    if not isinstance(steps, int) or steps < 1:
        raise InvalidInput(f"max_iters is 1 or more, not {steps!r}")


def _accelerator(device: object) -> Accelerator | None:
    return None if device is None else Accelerator(device)
