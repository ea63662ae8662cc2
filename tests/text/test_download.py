"""The dictionary of Chinese words is fetched to where tokenizers look for it, or a sentence says what to do."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import lancelet
from lancelet.download import download_jieba, download_lindera
from lancelet.errors import CorruptFile, InvalidInput, NotSupported, StorageError


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def source(tmp_path: Path) -> Iterator[str]:
    """The address of a folder with a dictionary, and with a page that is none."""
    (tmp_path / "dict.txt").write_text("长江 5 n\n大桥 3 n\n", "utf-8")
    (tmp_path / "page.html").write_text("<html>sign in first</html>\n")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=tmp_path)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LANCE_LANGUAGE_MODEL_HOME", str(tmp_path / "models"))
    return tmp_path / "models" / "jieba" / "default"


def test_a_dictionary_is_fetched_and_used(source: str, home: Path) -> None:
    download_jieba(source=f"{source}/dict.txt")
    assert [file.name for file in home.iterdir()] == ["dict.txt"]
    dataset = lancelet.write_dataset({"text": ["长江大桥"]}, "memory://download/bridge")
    dataset.create_scalar_index("text", "INVERTED", base_tokenizer="jieba/default")
    assert dataset.to_table(full_text_query="大桥").num_rows == 1


def test_what_is_no_dictionary_is_not_kept(source: str, home: Path) -> None:
    with pytest.raises(CorruptFile, match="no list of words"):
        download_jieba(source=f"{source}/page.html")
    with pytest.raises(StorageError, match=f"put it at {home / 'dict.txt'}"):
        download_jieba(source=f"{source}/nothing.txt")
    with pytest.raises(InvalidInput, match="an address"):
        download_jieba(source="/etc/passwd")
    assert not home.exists()


def test_dictionaries_of_no_use_are_refused() -> None:
    with pytest.raises(NotSupported, match="icu"):
        download_lindera("ipadic")
    done = subprocess.run(
        [sys.executable, "-m", "lancelet.download", "lindera", "-l", "ipadic"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, "Traceback" in done.stderr, "icu" in done.stderr) == (1, False, True)
