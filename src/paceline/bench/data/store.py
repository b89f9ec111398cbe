"""Where files are: a local folder, read by plain system calls, or anything that fsspec knows, such as S3.

A store may be pickled and carried into workers, which open connections of their own.
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
        url: A local path, or a URL that fsspec knows.
        options: Settings of fsspec's file system.
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

    def exists(self, path: str) -> bool:
        """Tell whether a file is there."""
        return os.path.exists(f"{self.url}/{path}") if self.is_local else bool(self._remote().exists(self._full(path)))

    def open(self, path: str) -> BinaryIO:
        """Open a file that is read in parts."""
        if self.is_local:
            return open(f"{self.url}/{path}", "rb", buffering=0)
        opened: BinaryIO = self._remote().open(self._full(path), "rb", cache_type="none")
        return opened

    def write(self, path: str, content: Any) -> None:
        """Write a file so that it is either complete or missing."""
        if not self.is_local:
            self._remote().pipe_file(self._full(path), bytes(content))
            return
        target = Path(f"{self.url}/{path}")
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, content)

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
            raise InputError(
                f"{self.url} cannot be reached: {error}; S3 needs: pip install 'paceline[bench]'"
            ) from None


def store_of(workload: Workload, folder: str | None = None, *, rank: int = 0) -> Store:
    """Return the store of a workload's data, or of another of its folders; ranks share several endpoints evenly."""
    storage, folder = workload.storage, folder or workload.dataset.data_folder
    options = _fsspec_options(dict(storage.storage_options), rank)
    if "://" in folder:
        return Store(folder, options)
    if storage.storage_type == "s3":
        if not storage.storage_root:
            raise InputError("storage.storage_type is s3: storage.storage_root must name the bucket")
        return Store(f"s3://{storage.storage_root.removeprefix('s3://').strip('/')}/{folder.strip('/')}", options)
    return Store(os.path.abspath(os.path.join(storage.storage_root, folder)))


def _fsspec_options(dlio_options: dict[str, Any], rank: int) -> dict[str, Any]:
    """Return the options of fsspec for those of DLIO; fsspec's own are kept as they are."""
    options: dict[str, Any] = {}
    for name, value in dlio_options.items():
        if name == "endpoint_url":
            endpoints = str(value).split(",")
            options["endpoint_url"] = endpoints[rank % len(endpoints)].strip()
        elif name == "region":
            options.setdefault("client_kwargs", {})["region_name"] = value
        elif name == "s3_force_path_style":
            options.setdefault("config_kwargs", {})["s3"] = {"addressing_style": "path" if value else "auto"}
        elif name == "s3_max_attempts":
            options.setdefault("config_kwargs", {})["retries"] = {"max_attempts": int(value)}
        elif name != "storage_library":
            options[_S3_NAMES.get(name, name)] = value
    return options
