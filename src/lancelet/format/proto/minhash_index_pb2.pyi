from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class MinHashLshIndexDetails(_message.Message):
    __slots__ = ("num_hashes", "num_bands", "shingle_size", "tokenizer", "signature_version")
    NUM_HASHES_FIELD_NUMBER: _ClassVar[int]
    NUM_BANDS_FIELD_NUMBER: _ClassVar[int]
    SHINGLE_SIZE_FIELD_NUMBER: _ClassVar[int]
    TOKENIZER_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_VERSION_FIELD_NUMBER: _ClassVar[int]
    num_hashes: int
    num_bands: int
    shingle_size: int
    tokenizer: bytes
    signature_version: int
    def __init__(self, num_hashes: _Optional[int] = ..., num_bands: _Optional[int] = ..., shingle_size: _Optional[int] = ..., tokenizer: _Optional[bytes] = ..., signature_version: _Optional[int] = ...) -> None: ...
