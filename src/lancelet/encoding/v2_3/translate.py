"""Page layouts of file version 2.3: structure and values described apart.

A dense structure is the levels of 2.2 in other words, and so are its values: such
pages are translated and read by the decoders of 2.2. What the words of 2.2 cannot
say has decoders of its own: a sparse structure, and lists whose items are all null.
"""

from __future__ import annotations

from lancelet.encoding.place import Place
from lancelet.errors import NotSupported
from lancelet.format.file_versions import DEFAULT_VERSION
from lancelet.format.proto import encodings21_pb2 as pb
from lancelet.format.proto import encodings23_pb2 as planar_pb


def translate(planar: planar_pb.PlanarLayout, place: Place) -> pb.PageLayout | None:
    """A 2.3 page in the words of 2.2; None where they do not suffice."""
    match planar.structure.WhichOneof("kind"):
        case "sparse":
            return None
        case "dense":
            return _translate_dense(planar, place)
        case _:
            raise unknown("structure", place)


def _translate_dense(planar: planar_pb.PlanarLayout, place: Place) -> pb.PageLayout | None:
    layers, values = planar.structure.dense.layers, planar.values
    match values.WhichOneof("kind"):
        case "chunked":
            mini = chunked_layout(values.chunked)
            mini.layers.extend(layers)
            return pb.PageLayout(mini_block_layout=mini)
        case "zipped" if holds_nothing(values.zipped.values):
            return None
        case "zipped":
            full = zipped_layout(values.zipped)
            full.layers.extend(layers)
            return pb.PageLayout(full_zip_layout=full)
        case "constant":
            constant = pb.ConstantLayout(layers=layers, inline_value=values.constant.scalar)
            return pb.PageLayout(constant_layout=constant)
        case "none":
            return pb.PageLayout(constant_layout=pb.ConstantLayout(layers=layers))
        case _:
            raise unknown("kind of values", place)


def chunked_layout(chunked: planar_pb.ChunkedValues) -> pb.MiniBlockLayout:
    """A mini-block page without its layers."""
    mini = pb.MiniBlockLayout(
        value_compression=chunked.values,
        num_dictionary_items=chunked.num_dictionary_items,
        num_buffers=chunked.num_buffers,
        repetition_index_depth=chunked.levels.repetition_index_depth,
        num_items=chunked.num_items,
        has_large_chunk=True,
    )
    if chunked.levels.HasField("repetition"):
        mini.rep_compression.CopyFrom(chunked.levels.repetition)
    if chunked.levels.HasField("definition"):
        mini.def_compression.CopyFrom(chunked.levels.definition)
    if chunked.HasField("dictionary"):
        mini.dictionary.CopyFrom(chunked.dictionary)
    return mini


def zipped_layout(zipped: planar_pb.ZippedValues) -> pb.FullZipLayout:
    """A full-zip page without its layers."""
    full = pb.FullZipLayout(
        bits_rep=zipped.levels.bits_rep,
        bits_def=zipped.levels.bits_def,
        num_items=zipped.num_items,
        num_visible_items=zipped.num_visible_items,
        value_compression=zipped.values,
    )
    match zipped.WhichOneof("details"):
        case "bits_per_value":
            full.bits_per_value = zipped.bits_per_value
        case "bits_per_offset":
            full.bits_per_offset = zipped.bits_per_offset
    return full


def holds_nothing(codec: pb.CompressiveEncoding) -> bool:
    """Whether these are fixed-size lists without bytes for their items."""
    if codec.WhichOneof("compression") != "fixed_size_list":
        return False
    inner = codec.fixed_size_list.values
    return inner.WhichOneof("compression") == "constant" or holds_nothing(inner)


def unknown(what: str, place: Place) -> NotSupported:
    return NotSupported(
        f"{place.path}, {place.where}: a {what} of the unstable file version 2.3 that is not known; "
        f"write the table with data_storage_version='{DEFAULT_VERSION}'"
    )
