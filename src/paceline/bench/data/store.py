"""Where files are: a local folder, read by plain system calls, or anything that fsspec knows, such as S3.

A store may be pickled and carried into workers; what it has open is made anew there.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, BinaryIO

from paceline.bench.workload.sections import Workload
from paceline.errors import InputError
from paceline.process.whole_files import write_whole

_S3_NAMES = {"access_key_id": "key", "secret_access_key": "secret", "session_token": "token"}


class Store:
    """One folder, local or remote.

    Args:
        url: A local path, or a URL of fsspec's.
        options: What fsspec's file system is made with.
    """

    def __init__(self, url: str, options: dict[str, Any] | None = None) -> None:
        self.url = url.rstrip("/")
        self.is_local = "://" not in url
        self.options = options or {}
        self._connected: tuple[int, Any] | None = None  # process, file system

    def __getstate__(self) -> dict[str, Any]:
        return {"url": self.url, "is_local": self.is_local, "options": self.options, "_connected": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def local_path(self, path: str) -> str:
        """Return the path of a file in a local folder."""
        return f"{self.url}/{path}"

    def read(self, path: str) -> bytes:
        """Return all of a file."""
        if not self.is_local:
            content: bytes = self._remote().cat_file(self._full(path))
            return content
        handle = os.open(f"{self.url}/{path}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(handle).st_size
            parts = [os.read(handle, size)] if size else []
            while parts and sum(map(len, parts)) < size and (more := os.read(handle, size)):
                parts.append(more)
        finally:
            os.close(handle)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def open(self, path: str) -> BinaryIO:
        """Open a file that is read in parts."""
        if self.is_local:
            return open(f"{self.url}/{path}", "rb", buffering=0)
        opened: BinaryIO = self._remote().open(self._full(path), "rb", cache_type="none")
        return opened

    def write(self, path: str, content: Any) -> None:
        """Write a file that is either whole or not there."""
        if not self.is_local:
            self._remote().pipe_file(self._full(path), bytes(content))
            return
        place = Path(f"{self.url}/{path}")
        place.parent.mkdir(parents=True, exist_ok=True)
        write_whole(place, content)

    def size(self, path: str) -> int | None:
        """Return the bytes of a file, or None if it is not there."""
        try:
            if self.is_local:
                return os.stat(f"{self.url}/{path}").st_size
            return int(self._remote().info(self._full(path))["size"])
        except FileNotFoundError:
            return None

    def remove(self, path: str) -> None:
        """Remove a file."""
        if self.is_local:
            os.unlink(f"{self.url}/{path}")
        else:
            self._remote().rm_file(self._full(path))

    def _full(self, path: str) -> str:
        return f"{self.url}/{path}"

    def _remote(self) -> Any:
        # a connection is of the process that made it: a forked worker must not use its parent's
        if self._connected is None or self._connected[0] != os.getpid():
            self._connected = os.getpid(), self._connect()
        return self._connected[1]

    def _connect(self) -> Any:
        protocol = self.url.partition("://")[0]
        try:
            import fsspec

            return fsspec.filesystem(protocol, skip_instance_cache=True, **self.options)
        except (ImportError, ValueError) as error:
            raise InputError(f"{self.url} cannot be reached: {error}; pip install 'paceline[bench]' has S3") from None


def store_of(workload: Workload, folder: str | None = None, *, rank: int = 0) -> Store:
    """Return the store of a workload's data, or of another folder of it; of several endpoints each rank takes one."""
    storage, folder = workload.storage, folder or workload.dataset.data_folder
    options = _options(dict(storage.storage_options), rank)
    if "://" in folder:
        return Store(folder, options)
    if storage.storage_type == "s3":
        if not storage.storage_root:
            raise InputError("storage.storage_type is s3: storage.storage_root must name the bucket")
        return Store(f"s3://{storage.storage_root.removeprefix('s3://').strip('/')}/{folder.strip('/')}", options)
    return Store(os.path.abspath(os.path.join(storage.storage_root, folder)))


def _options(given: dict[str, Any], rank: int) -> dict[str, Any]:
    """Return fsspec's options for DLIO's; those that are fsspec's already stay."""
    told: dict[str, Any] = {}
    for name, value in given.items():
        if name == "endpoint_url":
            ends = str(value).split(",")
            told["endpoint_url"] = ends[rank % len(ends)].strip()
        elif name == "region":
            told.setdefault("client_kwargs", {})["region_name"] = value
        elif name == "s3_force_path_style":
            told.setdefault("config_kwargs", {})["s3"] = {"addressing_style": "path" if value else "auto"}
        elif name == "s3_max_attempts":
            told.setdefault("config_kwargs", {})["retries"] = {"max_attempts": int(value)}
        elif name != "storage_library":
            told[_S3_NAMES.get(name, name)] = value
    return told
