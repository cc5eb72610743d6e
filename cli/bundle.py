"""Starts the compiler without a search: its modules come from one file, and site-packages waits until it is needed.

To find a module, Python lists folders, asks for times and reads a file of byte code; for the hundred modules of a
check that takes as long as the check. And before the first of them `site` has run, with whatever hooks other packages
have put into it: twice as long as the interpreter itself. `bin/rlc-start` knows where our packages are, so it comes
here first:

- *The bundle* holds the byte code of the modules that a command imported before, beside Python's own byte code and
  trusted as much: a module is taken from it while its source has the time and size that it had, and the sums are right;
  else Python finds it as ever, and the bundle is written again at the end.
- *Site-packages* is searched when somebody imports what neither the bundle nor the standard library has.

Nothing here is imported but what the interpreter has loaded already.
"""

import _frozen_importlib_external as external
import marshal
import os
import sys
from _frozen_importlib import ModuleSpec
from binascii import crc32

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import ModuleType
    from typing import Any

    Kept = tuple[str, str, int, int, int, int, int]  # source, byte code, its time and size; begin, length, sum

FORMAT = "rlspec bundle 1"
MOST = 1 << 17  # bytes of an index
MOST_TEXTS = 1 << 20  # bytes of what was compiled from texts
TEXTS = "(texts)"  # the part that is no module


class Loader(external.SourceFileLoader):
    """Takes a module's byte code from the bundle; in all else a loader of source files."""

    def __init__(self, name: str, path: str, code: bytes) -> None:
        super().__init__(name, path)
        self.code = code

    def get_code(self, fullname: str) -> "Any":
        return marshal.loads(self.code)


class Bundle:
    """Finds modules in the bundle of a command, and our packages where `packages` says (name -> folder)."""

    def __init__(self, place: str, packages: "Mapping[str, str]", said_by: str | None) -> None:
        self.place, self.packages, self.said_by = place, packages, said_by
        self.index, self.file, self.payload = _read(place)
        self.before = frozenset(sys.modules)

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "ModuleSpec | None":
        kept = self.index.get(name)
        if kept is None:
            return self._package(name)
        source, cached, modified, size, begin, length, check = kept
        try:
            info = os.stat(source)
        except OSError:
            return self._package(name)
        code = self._part(begin, length)
        if info.st_mtime_ns != modified or info.st_size != size or crc32(code) != check:
            return self._package(name)
        spec = ModuleSpec(name, Loader(name, source, code), origin=source)
        spec.has_location, spec.cached = True, cached
        folder, _, file = source.rpartition(os.sep)
        if file == "__init__.py":
            spec.submodule_search_locations = [folder]
        return spec

    def _part(self, begin: int, length: int) -> bytes:
        """A part of the file: the whole would be more than most runs need."""
        return os.pread(self.file, length, self.payload + begin) if length else b""

    def _package(self, name: str) -> "ModuleSpec | None":
        folder = self.packages.get(name)
        if folder is None:
            return None
        if "." in name:
            file = os.path.join(folder, "__init__.py")
            return external.spec_from_file_location(name, file, submodule_search_locations=[folder])
        spec = ModuleSpec(name, None, is_package=True)  # without `__init__.py`: what is in it has folders of its own
        spec.submodule_search_locations = [folder] if folder else []
        return spec

    # ------------------------------------------------------------------------------- from one run to the next

    def recall(self) -> None:
        """Hand over what earlier runs have compiled from texts (`rlspec.dsl.compiled`)."""
        from rlspec.dsl import compiled

        _, _, _, _, begin, length, check = self.index.get(TEXTS, ("", "", 0, 0, 0, 0, 0))
        data = self._part(begin, length)
        if length and crc32(data) == check:
            compiled.KEPT.update(marshal.loads(data))

    def refresh(self) -> None:
        """Write the bundle again, if modules were imported or texts compiled that it does not have. Whoever cannot
        write byte code cannot write it either; that is no error."""
        from rlspec.dsl import compiled

        new = [(name, module) for name, module in list(sys.modules.items()) if name not in self.before]
        modules = {name: module for name, module in new if _is_ours(name, module)}
        known = not compiled.MADE and all(isinstance(m.__loader__, Loader) for m in modules.values())
        if known or sys.dont_write_bytecode:
            return
        draft = f"{self.place}.{os.getpid()}"
        try:
            handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(self._whole(modules, {**compiled.KEPT, **compiled.MADE}))
                os.replace(draft, self.place)
            except OSError:
                os.unlink(draft)
        except OSError:
            return

    def _whole(self, modules: "Mapping[str, ModuleType]", texts: dict[str, bytes]) -> bytes:
        """A bundle of the modules that it has, of these, and of what was compiled from texts."""
        parts: list[bytes] = []
        index: dict[str, Kept] = {}
        begin = 0
        for name in sorted((self.index.keys() | modules.keys()) - {TEXTS}):
            source, cached = self.index[name][:2] if name in self.index else _files(modules[name])
            found = _byte_code(source, cached)
            if found is not None:
                modified, size, code = found
                index[name] = source, cached, modified, size, begin, len(code), crc32(code)
                parts.append(code)
                begin += len(code)
        data = marshal.dumps(texts)
        if len(data) <= MOST_TEXTS:  # else most of it is from before, and made again when it is needed
            index[TEXTS] = "", "", 0, 0, begin, len(data), crc32(data)
            parts.append(data)
        head = marshal.dumps(index)
        return b"".join([f"{_about()} {len(head)} {crc32(head)}\n".encode(), head, *parts])


class Site:
    """The last finder: what nobody has found may be in site-packages, or in a place that its hooks know."""

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "ModuleSpec | None":
        standard = name.partition(".")[0] in sys.stdlib_module_names  # what it lacks, it does without
        if not standard and self._searched():
            for finder in sys.meta_path:
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    return spec
        return None

    def find_distributions(self, context: "Any" = None) -> "Iterator[Any]":
        """For `importlib.metadata`, which does not import what it looks for."""
        if self._searched():
            for finder in sys.meta_path:
                yield from getattr(finder, "find_distributions", lambda context: ())(context)

    def _searched(self) -> bool:
        """Search site-packages, once."""
        if self not in sys.meta_path:
            return False
        sys.meta_path.remove(self)
        import site

        site.main()
        return True


def begin(command: str, packages: "Mapping[str, str]", said_by: str | None) -> Bundle:
    """From now on, import as is said above. `said_by` is the file that tells where the packages are."""
    beside = external.cache_from_source(os.path.join(os.path.dirname(__file__), "main.py"))
    bundle = Bundle(f"{beside.removesuffix('.pyc')}.{command}.bundle", packages, said_by)
    sys.meta_path.insert(0, bundle)
    sys.meta_path.append(Site())
    return bundle


def _about() -> str:
    """What byte code depends on, besides its source."""
    return f"{FORMAT} {external.MAGIC_NUMBER.hex()} {' '.join(sys.version.split())} {os.__file__}"


def _read(place: str) -> "tuple[dict[str, Kept], int, int]":
    """The index of a bundle, the file, and where the byte code begins in it; nothing where there is none for this
    interpreter. The file stays open for as long as the process lives."""
    try:
        file = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
        data = os.pread(file, MOST, 0)
        start = data.index(b"\n") + 1
        about, length, check = data[:start].decode().rsplit(" ", 2)
        head = data[start : start + int(length)]
        if about == _about() and crc32(head) == int(check):
            return marshal.loads(head), file, start + int(length)
    except (OSError, ValueError, EOFError, TypeError):
        pass
    return {}, -1, 0


def _is_ours(name: str, module: "ModuleType") -> bool:
    """Whether a module is one of ours or of the standard library, and was read from a file of source."""
    spec = getattr(module, "__spec__", None)
    if spec is None or name == "__main__" or not isinstance(spec.loader, external.SourceFileLoader) or not spec.origin:
        return False
    library = os.path.dirname(os.__file__) + os.sep
    standard = spec.origin.startswith(library) and not spec.origin.startswith(library + "site-packages")
    return (standard or name.startswith("rlspec.")) and spec.cached is not None


def _files(module: "ModuleType") -> tuple[str, str]:
    assert module.__spec__ is not None
    return str(module.__spec__.origin), str(module.__spec__.cached)


def _byte_code(source: str, cached: str) -> tuple[int, int, bytes] | None:
    """Time and size of a source and its byte code, if that is of this source."""
    try:
        info = os.stat(source)
        with open(cached, "rb", 0) as file:
            data = file.read()
    except OSError:
        return None
    stamp = int(info.st_mtime) & 0xFFFFFFFF, info.st_size & 0xFFFFFFFF
    head = external.MAGIC_NUMBER + b"".join(number.to_bytes(4, "little") for number in (0, *stamp))
    return (info.st_mtime_ns, info.st_size, data[16:]) if data[:16] == head else None
