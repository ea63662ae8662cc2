"""Calls of public methods, rare ones and wrong ones too, made on both libraries: the same answers, and the same kinds of errors.

Each line is Python, with ``;;`` between statements; the last one's value is compared. ``ds`` is the same table in both (four
fragments, three deleted rows, an index, a tag, a branch), ``frag`` its first fragment, ``lib`` the library, ``other`` a place
where nothing is yet.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import lance
import lance.file
import lance.optimize
import lance.vector
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancelet
import lancelet.file
import lancelet.vector


def rows(first: int, count: int) -> pa.Table:
    """Rows of each kind of column."""
    numbers = range(first, first + count)
    vectors = np.arange(first * 4, (first + count) * 4, dtype=np.float32)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "s": pa.array([f"t{n % 5}" if n % 4 else None for n in numbers], pa.string()),
            "f": pa.array([n / 3 for n in numbers], pa.float64()),
            "v": pa.FixedSizeListArray.from_arrays(vectors, 4),
            "n": pa.array([{"x": n, "y": [n, n + 1]} for n in numbers], NESTED),
            "d": pa.array([datetime(2024, 1, 1) + timedelta(days=n) for n in numbers], pa.timestamp("us")),
        }
    )


NESTED = pa.struct({"x": pa.int64(), "y": pa.list_(pa.int64())})

READS = (
    'ds.count_rows("id > 10")',
    'ds.count_rows(pc.field("id") > 10)',
    'ds.count_rows("nope > 1")',
    'ds.count_rows("")',
    "ds.count_rows(3)",
    "ds.head(3)",
    "ds.head(0)",
    "ds.head(1000)",
    "ds.head(-1)",
    'ds.head(3, columns=["id"])',
    'ds.head(3, filter="id > 5")',
    "ds.to_table(columns=[])",
    'ds.to_table(columns=["id","id"])',
    'ds.to_table(columns=["nope"])',
    'ds.to_table(columns={"a":"id + 1","b":"upper(s)"})',
    'ds.to_table(columns=["n.x"])',
    'ds.to_table(columns=["n.y"])',
    'ds.to_table(columns=["n.nope"])',
    'ds.to_table(columns=["ID"])',
    'ds.to_table(columns=["_rowid","id"])',
    'ds.to_table(columns=["_rowaddr"])',
    'ds.to_table(columns=["_rowoffset"], limit=3)',
    "ds.to_table(limit=5)",
    "ds.to_table(limit=0)",
    "ds.to_table(limit=-1)",
    "ds.to_table(offset=55)",
    "ds.to_table(offset=100)",
    "ds.to_table(offset=-1)",
    'ds.to_table(limit=2, offset=1, filter="id > 20")',
    'ds.to_table(filter="id > 20", with_row_id=True, columns=["id"])',
    'ds.to_table(filter="id > 20", with_row_address=True, columns=["id"])',
    'ds.to_table(columns=["id"], batch_size=3)',
    'ds.to_table(columns=["id"], batch_size=0)',
    'ds.to_table(columns=["id"], batch_readahead=2, fragment_readahead=1, io_buffer_size=1000)',
    'ds.to_table(columns=["id"], filter="s is null", prefilter=True)',
    'ds.to_table(columns=["id"], filter="s = \'t1\'", late_materialization=False)',
    'ds.to_table(columns=["id"], filter="s = \'t1\'", late_materialization=["id"])',
    'ds.to_table(columns=["id"], filter="id = 7", use_scalar_index=False)',
    'ds.to_table(columns=["id"], filter="id = 7", fast_search=True)',
    'ds.to_table(order_by="nope")',
    'ds.to_table(nearest={"column":"v","q":[1,2,3,4],"k":3}, columns=["id","_distance"])',
    'ds.to_table(nearest={"column":"v","q":[1,2,3],"k":3})',
    'ds.to_table(nearest={"column":"nope","q":[1,2,3,4],"k":3})',
    'ds.to_table(nearest={"column":"v","q":[1,2,3,4],"k":0})',
    'ds.to_table(nearest={"column":"v","q":[1,2,3,4],"k":-1})',
    'ds.to_table(nearest={"column":"v","q":[1,2,3,4]}, columns=["id"])',
    'ds.to_table(nearest={"column":"v","q":[1,2,3,4],"k":2,"metric":"nope"})',
    'ds.to_table(nearest={"column":"v","q":[1,2,3,4],"k":2,"distance_range":(0,30)}, columns=["id","_distance"])',
    'ds.to_table(nearest={"column":"v","q":[1,2,3,4],"k":5}, filter="id > 10", prefilter=True, columns=["id"])',
    'ds.to_table(nearest={"column":"v","q":[1,2,3,4],"k":5}, filter="id > 2", columns=["id"])',
    'ds.to_table(nearest={"column":"v","q":[1,2,3,4],"k":5}, limit=2, offset=1, columns=["id"])',
    'ds.to_table(nearest={"q":[1,2,3,4]})',
    'ds.to_table(nearest="v")',
    "[b.num_rows for b in ds.to_batches(batch_size=7, strict_batch_size=True)]",
    '[b.num_rows for b in ds.to_batches(columns=["id"], filter="id > 1000")]',
    'ds.scanner(columns=["id"]).projected_schema',
    'ds.scanner(columns=["id"], with_row_id=True).projected_schema',
    'ds.scanner(filter="id > 5").count_rows()',
    'ds.scanner(filter="id > 5", limit=2).count_rows()',
    'ds.scanner(filter="id > 5", limit=2).head(10)',
    'ds.scanner(columns=["id"]).take([0,1])',
    "ds.take([0,5,1])",
    "ds.take([0,0])",
    "ds.take([])",
    "ds.take([56])",
    "ds.take([57])",
    "ds.take([1000])",
    "ds.take([-1])",
    'ds.take([0], columns=["n.x"])',
    'ds.take([0], columns={"a":"id*2"})',
    "ds.take(pa.array([1,2]))",
    "ds.take(np.array([1,2]))",
    "ds.take([1.5])",
    "ds.slice(0,5)",
    'ds.to_pandas(columns=["id","s"])',
    "ds.schema",
    "ds.version",
    "ds.latest_version",
    "ds.data_storage_version",
    "ds.max_field_id",
    "ds.has_stable_row_ids",
    "ds.has_index",
    "ds.tags.list()",
    "ds.tags.list_ordered()",
    'ds.tags.list_ordered("asc")',
    'ds.tags.list_ordered("nope")',
    'ds.tags.get_version("one")',
    'ds.tags.get_version("nope")',
    "sorted(ds.branches.list())",
    'ds.branches.list()["br"]["parent_version"]',
    "ds.branches.list_ordered()[0][0]",
    "ds.checkout_version(1)",
    'ds.checkout_version("one")',
    'ds.checkout_version("nope")',
    "ds.checkout_version(99)",
    "ds.checkout_version(0)",
    "ds.checkout_version(-1)",
    'ds.checkout_version(("br", None))',
    'ds.checkout_version(("br", 4))',
    'ds.checkout_version(("nope", 1))',
    "ds.checkout_version(1.0)",
    "ds.checkout_latest()",
    "lib.dataset(path, version=2).count_rows()",
    'lib.dataset(path, version="one").count_rows()',
    'lib.dataset(path, version="nope")',
    'lib.dataset(path, asof="1999-01-01")',
    'lib.dataset(path, asof="nope")',
    'lib.dataset(path + "nope")',
    'lib.dataset("")',
    "lib.dataset(Path(path)).count_rows()",
    "lib.dataset(path, block_size=4096).count_rows()",
    "lib.dataset(path, commit_lock=None).count_rows()",
    'lib.dataset(path, default_scan_options={"with_row_id":True}).to_table(columns=["id"])',
    'lib.dataset(path, default_scan_options={"nope":True}).to_table(columns=["id"])',
    "lib.dataset(path, index_cache_size=10).count_rows()",
    'lib.dataset(path, storage_options={"a":"b"}).count_rows()',
    "ds.metadata",
    "ds.schema_metadata",
    "ds.list_indices()",
    'ds.index_statistics("nope")',
    'ds.stats.index_stats("id_idx")["num_indexed_rows"]',
    "ds.stats.dataset_stats()",
    "ds.stats.dataset_stats(max_rows_per_group=10)",
    "[f.fragment_id for f in ds.get_fragments()]",
    '[f.fragment_id for f in ds.get_fragments("id > 30")]',
    "ds.get_fragment(0)",
    "ds.get_fragment(1)",
    "ds.get_fragment(99)",
    'frag.count_rows("id > 5")',
    "frag.count_rows()",
    "frag.num_deletions",
    "frag.physical_rows",
    "frag.schema",
    "frag.physical_schema",
    'frag.metadata.to_json()["physical_rows"]',
    "frag.metadata.num_rows",
    "frag.metadata.num_deletions",
    "frag.deletion_file() is None",
    "[len(x.fields) for x in frag.data_files()]",
    "frag.head(2)",
    "frag.take([0,1])",
    "frag.take([100])",
    "frag.take([])",
    'frag.take([0], columns=["id"])',
    'frag.to_table(columns=["id"], filter="id > 10", limit=2, offset=1)',
    'frag.to_table(columns=["id"], with_row_id=True)',
    'frag.to_pandas(columns=["id"])',
    "[b.num_rows for b in frag.to_batches(batch_size=5)]",
    'frag.scanner(columns=["id"], filter="id > 3", limit=2).to_table()',
    "frag.validate()",
    "ds.validate()",
    "[type(t.operation).__name__ if t else None for t in ds.get_transactions(10)]",
    "type(ds.read_transaction(2).operation).__name__",
    "ds.read_transaction(99)",
    "ds.read_transaction(3).operation.predicate",
    "d = ds.delta(begin_version=1, end_version=2) ;; sorted(type(t.operation).__name__ for t in d.list_transactions())",
    "d = ds.delta(compared_against=3) ;; sorted(type(t.operation).__name__ for t in d.list_transactions())",
    "ds.delta()",
    "ds.delta(compared_against=99)",
    'ds.sql("select count(*) as c from dataset").build().to_batch_records()',
    'ds.sql("select sum(id) as c from t").table_name("t").build().to_batch_records()',
    'ds.join(ds, "id")',
    "ds.partition_expression",
    "len(ds.get_fragments())",
    "lib.fragment.FragmentMetadata.from_json(__import__('json').dumps(frag.metadata.to_json())).id",
    "lib.json_to_schema(lib.schema_to_json(ds.schema))",
    "lib.schema_to_json(ds.schema)",
    "lib.json_to_schema({})",
    'lib.util.sanitize_ts("nope")',
    "lib.util.sanitize_ts(3)",
    "lib.vector.vec_to_table({0:[1.,2.],1:[3.,4.]})",
    "lib.vector.vec_to_table(np.ones((2,3)))",
    "lib.vector.vec_to_table([[1.,2.],[3.,4.]])",
    'lib.vector.vec_to_table({"a":[1.,2.]}, names=["k","v"], check_ndim=False)',
    "lib.file.LanceFileReader(other)",
)

WRITES = (
    'ds.to_table(columns=["id"], include_deleted_rows=True)',
    'ds.to_table(columns=["id"], include_deleted_rows=True, with_row_id=True)',
    'ds.tags.create("x", 2) ;; ds.tags.list()',
    'ds.tags.create("one", 2)',
    'ds.tags.create("", 2)',
    'ds.tags.create("a/b", 2)',
    'ds.tags.create("x", 99)',
    'ds.tags.create("x", "one") ;; ds.tags.list()',
    'ds.tags.create("x", ("br", None)) ;; ds.tags.list()',
    'ds.tags.create("x") ;; ds.tags.list()',
    'ds.tags.update("one", 2) ;; ds.tags.list()',
    'ds.tags.update("nope", 2)',
    'ds.tags.delete("one") ;; ds.tags.list()',
    'ds.tags.delete("nope")',
    'ds.branches.delete("nope")',
    'ds.branches.delete("br") ;; ds.branches.list()',
    'ds.create_branch("b2", 1)',
    'ds.create_branch("br")',
    'ds.create_branch("b2", 99)',
    'ds.create_branch("b2", "one")',
    'ds.create_branch("b2", ("br", None))',
    'ds.create_branch("a b")',
    "ds.restore() ;; ds.version",
    "o = ds.checkout_version(1) ;; o.restore() ;; (o.version, o.count_rows())",
    'ds.delete("id = 5")',
    'ds.delete("id = 5") ;; ds.version',
    'ds.delete("id = 5000") ;; ds.version',
    'ds.delete("true") ;; ds.count_rows()',
    'ds.delete("false") ;; ds.version',
    'ds.delete("nope = 1")',
    'ds.delete("id +")',
    'ds.delete("")',
    'ds.delete(pc.field("id") == 5)',
    'ds.delete("id = 5", conflict_retries=3, retry_timeout=timedelta(seconds=5))',
    "ds.truncate_table() ;; (ds.count_rows(), ds.version)",
    'ds.update({"f":"f + 1"}, where="id = 5")',
    'ds.update({"f":"f + 1"})',
    'ds.update({"nope":"1"})',
    'ds.update({"f":"\'x\'"})',
    'ds.update({"f":"nope"})',
    'ds.update({}, where="id=5")',
    'ds.update({"n.x":"1"}, where="id=5")',
    'ds.update({"s":"null"}, where="id=5") ;; ds.to_table(filter="id=5")',
    'ds.update({"id":"id"}, where="id=5000") ;; ds.version',
    "ds.insert(rows(60,2)) ;; (ds.count_rows(), ds.version)",
    'ds.insert(rows(60,2), mode="overwrite") ;; (ds.count_rows(), ds.version)',
    'ds.insert(rows(60,2).select(["id"])) ;; ds.to_table(filter="id >= 60")',
    'ds.insert(pa.table({"nope":[1]}))',
    'ds.insert(pa.table({"id":["x"]}))',
    "ds.insert(rows(60,0)) ;; (ds.count_rows(), ds.version)",
    "lib.write_dataset(rows(0,3), path)",
    'lib.write_dataset(rows(0,3), path, mode="create")',
    'lib.write_dataset(rows(0,3), path, mode="append").version',
    'lib.write_dataset(rows(0,3), path, mode="overwrite").version',
    'lib.write_dataset(rows(0,3), path, mode="nope")',
    'lib.write_dataset(rows(0,3), ds, mode="append").count_rows()',
    'lib.write_dataset(rows(0,3), other, mode="append").version',
    'lib.write_dataset(rows(0,3), other, mode="overwrite").version',
    'lib.write_dataset(rows(0,3), other, data_storage_version="2.0").data_storage_version',
    'lib.write_dataset(rows(0,3), other, data_storage_version="stable").data_storage_version',
    'lib.write_dataset(rows(0,3), other, data_storage_version="legacy").data_storage_version',
    'lib.write_dataset(rows(0,3), other, data_storage_version="9.9")',
    'lib.write_dataset(rows(0,3), other, enable_stable_row_ids=True).to_table(with_row_id=True, columns=["id"])',
    "lib.write_dataset(rows(0,3), other, enable_v2_manifest_paths=False).version",
    "lib.write_dataset(rows(0,3).to_pandas(), other).schema",
    'lib.write_dataset({"a":[1,2]}, other).schema',
    'lib.write_dataset([{"a":1},{"a":2}], other).schema',
    'lib.write_dataset(pa.table({"a":[1]}).to_reader(), other).schema',
    'lib.write_dataset(iter(pa.table({"a":[1]}).to_batches()), other)',
    'lib.write_dataset(iter(pa.table({"a":[1]}).to_batches()), other, schema=pa.schema([("a",pa.int64())])).schema',
    'lib.write_dataset(pa.table({"a":[1]}), other, schema=pa.schema([("a",pa.int32())])).schema',
    "lib.write_dataset(3, other)",
    "lib.write_dataset(None, other)",
    "lib.write_dataset([], other)",
    'lib.write_dataset([], other, schema=pa.schema([("a",pa.int64())])).schema',
    'lib.write_dataset(pa.table({"a":[1],"A":[2]}), other).schema',
    'lib.write_dataset(pa.table([pa.array([1]),pa.array([2])],["a","a"]), other).schema',
    'lib.write_dataset(pa.table({"a.b":[1]}), other).schema',
    'lib.write_dataset(pa.table({"_rowid":[1]}), other).schema',
    'lib.write_dataset(pa.table({"":[1]}), other).schema',
    'lib.write_dataset(rows(0,3), other, transaction_properties={"a":"b"}).read_transaction(1).transaction_properties',
    'lib.write_dataset(rows(0,3), other, commit_message="hello").read_transaction(1).transaction_properties',
    'ds.add_columns({"z":"id*2"}) ;; ds.to_table(columns=["z"],limit=3)',
    'ds.add_columns({"id":"id*2"})',
    'ds.add_columns({"z":"nope"})',
    'ds.add_columns(pa.field("z",pa.int32())) ;; ds.to_table(columns=["z"],limit=3)',
    'ds.add_columns([pa.field("z",pa.int32()),pa.field("y",pa.string())]) ;; ds.schema',
    'ds.add_columns(pa.schema([("z",pa.int32())])) ;; ds.schema',
    'ds.add_columns(lambda b: pa.record_batch({"z":pc.add(b["id"],1)}), read_columns=["id"]) ;; ds.to_table(columns=["z"],limit=3)',
    'ds.add_columns(lambda b: pa.record_batch({"z":[1]}), read_columns=["id"])',
    'ds.add_columns(pa.table({"z":range(57)}).to_reader()) ;; ds.to_table(columns=["z"],limit=3)',
    'ds.add_columns(pa.table({"z":range(5)}).to_reader())',
    "ds.add_columns({})",
    "ds.add_columns(3)",
    'ds.drop_columns(["s"]) ;; ds.schema',
    'ds.drop_columns(["nope"])',
    "ds.drop_columns([])",
    'ds.drop_columns(["n.x"]) ;; ds.schema',
    'ds.drop_columns(["id"]) ;; ds.list_indices()',
    "ds.drop_columns(ds.schema.names)",
    'ds.alter_columns({"path":"s","name":"t"}) ;; ds.schema',
    'ds.alter_columns({"path":"s","name":"id"})',
    'ds.alter_columns({"path":"nope","name":"t"})',
    'ds.alter_columns({"path":"id","data_type":pa.int32()}) ;; ds.schema',
    'ds.alter_columns({"path":"id","data_type":pa.string()}) ;; ds.schema',
    'ds.alter_columns({"path":"s","data_type":pa.int32()})',
    'ds.alter_columns({"path":"s","nullable":False})',
    'ds.alter_columns({"path":"id","nullable":False}) ;; ds.schema',
    'ds.alter_columns({"path":"n.x","name":"xx"}) ;; ds.schema',
    'ds.alter_columns({"path":"n.x","name":"a.b"}) ;; ds.schema',
    'ds.alter_columns({"path":"s"})',
    'ds.alter_columns({"name":"s"})',
    'ds.alter_columns({"path":"s","nope":1})',
    "ds.alter_columns()",
    'ds.merge(pa.table({"k":[5,6],"z":["a","b"]}), left_on="id", right_on="k") ;; ds.to_table(columns=["id","z"],limit=8)',
    'ds.merge(pa.table({"id":[5,6],"z":["a","b"]}), "id") ;; ds.to_table(columns=["id","z"],limit=8)',
    'ds.merge(pa.table({"id":[5,6],"s":["a","b"]}), "id")',
    'ds.merge(pa.table({"k":["5"],"z":["a"]}), "id", "k")',
    'ds.merge(pa.table({"id":[5,5],"z":["a","b"]}), "id") ;; ds.to_table(columns=["z"],filter="id=5")',
    'ds.merge(pa.table({"id":[5]}), "nope")',
    'ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows(55,10))',
    'ds.merge_insert(["id"]).when_matched_update_all("source.f > target.f").execute(rows(55,10))',
    'ds.merge_insert("id").when_not_matched_insert_all().execute(rows(55,10))',
    'ds.merge_insert("id").when_matched_delete().execute(rows(55,10))',
    'ds.merge_insert("id").when_matched_fail().execute(rows(55,10))',
    'ds.merge_insert("id").when_not_matched_by_source_delete().when_matched_update_all().execute(rows(55,10))',
    'ds.merge_insert("id").when_not_matched_by_source_delete("id < 10").when_not_matched_insert_all().execute(rows(55,10))',
    'ds.merge_insert("id").execute(rows(55,10))',
    'ds.merge_insert("nope").when_matched_update_all().execute(rows(55,10))',
    "ds.merge_insert([]).when_matched_update_all().execute(rows(55,10))",
    'ds.merge_insert("id").when_matched_update_all().execute(rows(55,10).select(["id","f"]))',
    'ds.merge_insert("id").when_matched_update_all().execute(pa.concat_tables([rows(5,1),rows(5,1)]))',
    'ds.merge_insert("id").when_matched_update_all("nope = 1").execute(rows(55,10))',
    'ds.merge_insert("id").conflict_retries(2).retry_timeout(timedelta(seconds=3)).when_not_matched_insert_all().execute(rows(55,10))',
    'ds.merge_insert("id").use_index(False).when_not_matched_insert_all().execute(rows(55,10))',
    'ds.update_config({"x":"y"}) ;; ds.config()',
    'ds.update_config({"a.b":None}) ;; ds.config()',
    'ds.update_config({"x":"y"}, replace=True) ;; ds.config()',
    'ds.delete_config_keys(["a.b"]) ;; ds.config()',
    'ds.delete_config_keys(["nope"]) ;; ds.config()',
    'ds.update_metadata({"z":"1"}) ;; ds.metadata',
    'ds.update_metadata({"z":"1"}, replace=True) ;; ds.metadata',
    'ds.update_metadata({"k":None}) ;; ds.metadata',
    'ds.update_schema_metadata({"z":"1"}) ;; ds.schema_metadata',
    'ds.replace_schema_metadata({"z":"1"}) ;; ds.schema_metadata',
    'ds.update_field_metadata("id",{"z":"1"}) ;; ds.schema.field("id").metadata',
    'ds.update_field_metadata("nope",{"z":"1"})',
    'ds.update_field_metadata("n.x",{"z":"1"}) ;; ds.schema',
    'ds.replace_field_metadata("id",{"z":"1"}) ;; ds.schema.field("id").metadata',
    'ds.drop_index("id_idx") ;; ds.list_indices()',
    'ds.drop_index("nope")',
    'ds.create_scalar_index("s","BITMAP") ;; [i["name"] for i in ds.list_indices()]',
    'ds.create_scalar_index("s","NOPE")',
    'ds.create_scalar_index("nope","BTREE")',
    'ds.create_scalar_index("id","BTREE",replace=False)',
    'ds.create_scalar_index("id","BTREE") ;; len(ds.list_indices())',
    'ds.create_scalar_index("v","BTREE")',
    'ds.create_scalar_index("n.x","BTREE") ;; [(i["name"],i["fields"]) for i in ds.list_indices()]',
    'ds.create_scalar_index(["id","s"],"BTREE")',
    'ds.create_scalar_index("id","BTREE",name="zz") ;; sorted(i["name"] for i in ds.list_indices())',
    'ds.create_index("v","IVF_FLAT",num_partitions=2) ;; [(i["name"],i["type"]) for i in ds.list_indices()]',
    'ds.create_index("v","NOPE")',
    'ds.create_index("s","IVF_FLAT",num_partitions=2)',
    'ds.create_index("v","IVF_FLAT",metric="nope",num_partitions=2)',
    'ds.prewarm_index("id_idx")',
    'ds.prewarm_index("nope")',
    "ds.optimize.compact_files()",
    "ds.optimize.compact_files(target_rows_per_fragment=10)",
    "ds.optimize.compact_files(materialize_deletions=False)",
    "ds.optimize.compact_files(materialize_deletions_threshold=0.5)",
    "ds.optimize.compact_files(nope=3)",
    "ds.optimize.compact_files(num_threads=1, batch_size=5)",
    "ds.optimize.optimize_indices() ;; ds.version",
    'ds.optimize.optimize_indices(index_names=["nope"]) ;; ds.version',
    "ds.optimize.optimize_indices(num_indices_to_merge=0) ;; ds.version",
    "ds.cleanup_old_versions(retain_versions=1)",
    "ds.cleanup_old_versions()",
    "ds.optimize.disable_auto_cleanup() ;; ds.config()",
    "ds.shallow_clone(other, 1).count_rows()",
    'ds.shallow_clone(other, "one").count_rows()',
    "ds.shallow_clone(other, 99)",
    "ds.shallow_clone(path, 1)",
    "ds.deep_clone(other, 1).count_rows()",
    "lib.LanceDataset.drop(path) ;; Path(path).exists()",
    "lib.LanceDataset.drop(other)",
    "lib.LanceDataset.drop(other, ignore_not_found=True)",
    'frag.delete("id = 7").num_deletions',
    'frag.delete("id = 7000")',
    'frag.delete("id >= 0")',
    'frag.delete("nope = 1")',
    'frag.merge_columns({"z":"id*2"})[0].to_json()["id"]',
    'frag.merge_columns({"z":"nope"})',
    'frag.merge_columns(lambda b: pa.record_batch({"z":pc.add(b["id"],1)}), columns=["id"])[1].to_pyarrow()',
    'frag.update_columns(pa.table({"_rowid":[0],"s":["zz"]}))[1]',
    'frag.update_columns(pa.table({"id":[0],"s":["zz"]}), left_on="id", right_on="id")[1]',
    'frag.update_columns(pa.table({"id":[0],"s":[1]}), left_on="id")',
    "ds.replace_schema(ds.schema)",
    "ds.migrate_manifest_paths_v2() ;; ds.version",
    "lib.LanceDataset.commit(path, lib.LanceOperation.Append([]), read_version=ds.version).version",
    "lib.LanceDataset.commit(path, lib.LanceOperation.Restore(1)).count_rows()",
    "lib.LanceDataset.commit(path, lib.LanceOperation.Append([]))",
    "lib.LanceDataset.commit(other, lib.LanceOperation.Append([]), read_version=1)",
    'lib.LanceDataset.commit(path, "nope", read_version=1)',
    'lib.LanceDataset.commit(path, lib.LanceOperation.Project(pa.schema([ds.schema.field("id")])), read_version=ds.version).schema',
    "fs = lib.fragment.write_fragments(rows(0,5), other) ;; lib.LanceDataset.commit(other, lib.LanceOperation.Overwrite(rows(0,1).schema, fs)).count_rows()",
    "lib.fragment.write_fragments(rows(0,5), other)[0].num_rows",
    "lib.fragment.write_fragments(rows(0,5), other, max_rows_per_file=2)[2].num_rows",
    "lib.fragment.write_fragments(3, other)",
    "lib.fragment.LanceFragment.create(other, rows(0,5)).num_rows",
    "lib.fragment.LanceFragment.create(other, rows(0,5), fragment_id=3).id",
    'lib.fragment.LanceFragment.create(path, rows(0,5), mode="append").num_rows',
    "lib.optimize.Compaction.plan(ds, {}).num_tasks()",
    'lib.optimize.Compaction.plan(ds, {"target_rows_per_fragment":10}).num_tasks()',
    'lib.optimize.Compaction.plan(ds, {"nope":10})',
    "p = lib.optimize.Compaction.plan(ds, {}) ;; lib.optimize.Compaction.commit(ds, [t.execute(ds) for t in p.tasks])",
    "lib.optimize.Compaction.execute(ds, {})",
    'w = lib.file.LanceFileWriter(other, pa.schema([("a",pa.int64())])) ;; w.write_batch(pa.table({"a":[1,2]})) ;; w.close()',
    'w = lib.file.LanceFileWriter(other, pa.schema([("a",pa.int64())])) ;; w.write_batch(pa.table({"b":[1,2]}))',
    'w = lib.file.LanceFileWriter(other) ;; w.write_batch(pa.table({"a":[1,2]})) ;; w.close() ;; lib.file.LanceFileReader(other).read_all().to_table()',
    'w = lib.file.LanceFileWriter(other) ;; w.write_batch(pa.table({"a":[1,2]})) ;; w.close() ;; lib.file.LanceFileReader(other).num_rows()',
    'w = lib.file.LanceFileWriter(other) ;; w.write_batch(pa.table({"a":[1,2]})) ;; w.close() ;; lib.file.LanceFileReader(other).read_range(1,1).to_table()',
    'w = lib.file.LanceFileWriter(other) ;; w.write_batch(pa.table({"a":[1,2]})) ;; w.close() ;; lib.file.LanceFileReader(other).read_range(1,5).to_table()',
    'w = lib.file.LanceFileWriter(other) ;; w.write_batch(pa.table({"a":[1,2]})) ;; w.close() ;; lib.file.LanceFileReader(other).take_rows([1,0]).to_table()',
    'w = lib.file.LanceFileWriter(other) ;; w.write_batch(pa.table({"a":[1,2]})) ;; w.close() ;; lib.file.LanceFileReader(other).take_rows([0,1]).to_table()',
    'lib.file.LanceFileReader(str(next(Path(path, "data").iterdir())), columns=["nope"])',
    "w = lib.file.LanceFileWriter(other) ;; w.close()",
)

APART = ("uuid", "inner", "stored", "spilled", "metadata")
"""What is another for each table, or the library's own affair."""
KIND = "a mistake in a call is a ValueError here, whichever method it is made in; pylance has an OSError or a RuntimeError for some"
DIFFERENT = dict.fromkeys(
    (
        'ds.count_rows("nope > 1")',
        'ds.count_rows("")',
        'ds.delete("nope = 1")',
        'ds.delete("id +")',
        'ds.delete("")',
        'frag.delete("nope = 1")',
        'frag.merge_columns({"z":"nope"})',
        'frag.update_columns(pa.table({"id":[0],"s":[1]}), left_on="id")',
        'lib.file.LanceFileReader(str(next(Path(path, "data").iterdir())), columns=["nope"])',
    ),
    KIND,
)
"""Lines whose errors are of another kind here, and why."""


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("calls") / "kelp.lance"
    lance.write_dataset(rows(0, 50), path, max_rows_per_file=20)
    dataset = lance.write_dataset(rows(50, 10), path, mode="append")
    dataset.delete("id in (3, 4, 25)")
    dataset.tags.create("one", 1)
    dataset.create_branch("br")
    dataset = lance.dataset(path)
    dataset.create_scalar_index("id", "BTREE")
    dataset.update_config({"a.b": "c"})
    dataset.update_metadata({"k": "v"})
    return path


def _plain(value: Any) -> Any:
    """What is compared of a value: all of it, but for the classes that each library has of its own."""
    if isinstance(value, (pa.Table, pa.RecordBatch)):
        return value.schema.remove_metadata(), value.to_pylist()
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, (lance.LanceDataset, lancelet.LanceDataset)):
        return value.version, value.count_rows(), value.schema.names
    if isinstance(value, (lance.LanceFragment, lancelet.LanceFragment)):
        return value.fragment_id, value.count_rows()
    if isinstance(value, datetime):
        return "a time"
    if isinstance(value, (pd.DataFrame, pa.Schema, str, bytes, int, float, type(None))):
        return value.to_dict("list") if isinstance(value, pd.DataFrame) else value
    if isinstance(value, (set, frozenset)) or hasattr(value, "__iter__"):
        return sorted(map(_plain, value))
    members = {name: getattr(value, name) for name in dir(value) if not name.startswith("_") and name not in APART}
    return type(value).__name__, {name: _plain(member) for name, member in members.items() if not callable(member)}


def _outcome(lib: Any, code: str, path: Path) -> tuple[Any, BaseException | None]:
    dataset = lib.dataset(path)
    names = {
        "lib": lib, "ds": dataset, "frag": dataset.get_fragments()[0], "path": str(path), "other": f"{path}-other",
        "pa": pa, "pc": pc, "np": np, "Path": Path, "rows": rows, "datetime": datetime, "timedelta": timedelta,
    }  # fmt: skip
    *before, last = code.split(" ;; ")
    try:
        for statement in before:
            exec(statement, names)
        return _plain(eval(last, names)), None
    except Exception as error:
        return None, error


def _kind(error: BaseException) -> type:
    return next(kind for kind in type(error).__mro__ if kind.__module__ == "builtins")


def _compare(code: str, paths: Iterator[Path]) -> None:
    theirs, refused = _outcome(lance, code, next(paths))
    ours, error = _outcome(lancelet, code, next(paths))
    if refused is None:
        assert error is None, f"{error!r}, where pylance has an answer"
        assert ours == theirs
    else:
        assert error is not None, f"{ours!r}, where pylance says {refused!r}"
        assert isinstance(error, _kind(refused)) == (code not in DIFFERENT), (error, refused)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("code", READS)
def test_calls_that_read(table: Path, code: str) -> None:
    _compare(code, iter((table, table)))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("code", WRITES)
def test_calls_that_write(table: Path, tmp_path: Path, code: str) -> None:
    _compare(code, (Path(shutil.copytree(table, tmp_path / name)) for name in ("theirs", "ours")))
