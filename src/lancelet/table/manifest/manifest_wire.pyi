def split_manifest(data: bytes) -> tuple[bytes, list[bytes]] | None: ...

HAS_DELETIONS: int
HAS_SPILLED: int
HAS_ROW_IDS: int

def survey_fragments(
    data: bytes,
) -> tuple[bytes, bytes, bytes, bytes, bytes, int, int, int, bool, bytes, bytes] | None: ...
