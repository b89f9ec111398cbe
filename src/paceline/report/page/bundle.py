"""Bundles the page's modules of JavaScript into one script that runs without imports.

A page opened from disk cannot import files, and its policy allows one script by its hash. Every module therefore
becomes a function with a scope of its own that returns what it exports, and modules follow those that they import.
That is more robust than joining files with `import` and `export` cut out: two modules may use the same name, and an
import that nothing exports is an error here, not in a reader's browser. Only the forms that the page uses are
understood, each at the start of a line; all others are refused.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass

_IMPORT = re.compile(r'^import \{([^}]*)\} from "(\.{1,2}/[^"\n]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class) (\w+))", re.MULTILINE)
_OTHER = re.compile(r"^\s*(?:import|export)\b.*|\bimport\s*\(.*", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z_$][\w$]*")
_MARKUP = ("</script", "<!--")  # would end the script, or hide the rest of it


class BundleError(Exception):
    """A module cannot be bundled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ScriptModule:
    """A module: what it imports from which others, what it exports, and the rest of it."""

    path: str
    imports: tuple[tuple[str, tuple[str, ...]], ...]
    exports: tuple[str, ...]
    body: str


def bundle_modules(texts: Mapping[str, str], entry: str) -> str:
    r"""Return one script that does what the entry module does.

    Args:
        texts: The modules by their path below one folder, with forward slashes.
        entry: The path of the module to start with.

    >>> texts = {"a.js": 'import { b } from "./b.js";\nf(b);\n', "b.js": "export const b = 1;\n"}
    >>> print(bundle_modules(texts, "a.js"))
    "use strict";
    (() => {
    const modules = {};
    modules["b.js"] = (() => {
    const b = 1;
    return { b };
    })();
    modules["a.js"] = (() => {
    const { b } = modules["b.js"];
    f(b);
    return {};
    })();
    })();
    <BLANKLINE>
    """
    parts = [_as_function(module) for module in _in_order(texts, entry)]
    script = "\n".join(['"use strict";', "(() => {", "const modules = {};", *parts, "})();", ""])
    for markup in _MARKUP:
        if markup in script.lower():
            raise BundleError(f"a script inside a page must not contain {markup!r}")
    return script


def _in_order(texts: Mapping[str, str], entry: str) -> list[_ScriptModule]:
    """Return the modules that are needed, each after those that it imports."""
    modules: dict[str, _ScriptModule] = {}  # those that are complete, in order

    def add(path: str, importers: tuple[str, ...]) -> None:
        if path in importers:
            raise BundleError(f"modules import each other: {' -> '.join([*importers[importers.index(path) :], path])}")
        if path in modules:
            return
        module = _parse(path, texts)
        for imported, names in module.imports:
            add(imported, (*importers, path))
            unknown = sorted(set(names) - set(modules[imported].exports))
            if unknown:
                raise BundleError(f"{path} imports {', '.join(unknown)}, which {imported} does not export")
        modules[path] = module

    add(entry, ())
    return list(modules.values())


def _parse(path: str, texts: Mapping[str, str]) -> _ScriptModule:
    """Take a module apart into imports, exports and the rest."""
    text = texts[path]
    imports = []
    for names, source in _IMPORT.findall(text):
        imported = posixpath.normpath(posixpath.join(posixpath.dirname(path), source))
        if imported not in texts:
            raise BundleError(f"{path} imports {source!r}, and there is no such module")
        imports.append((imported, _imported_names(path, names)))
    exports = tuple(_EXPORT.findall(text))
    body = _EXPORT.sub("", _IMPORT.sub("", text)).strip("\n")
    other = _OTHER.search(body)
    if other:
        raise BundleError(f"{path}: this form is not understood: {other.group().strip()}")
    return _ScriptModule(path=path, imports=tuple(imports), exports=exports, body=body)


def _imported_names(path: str, text: str) -> tuple[str, ...]:
    names = tuple(name for part in text.split(",") if (name := part.strip()))
    for name in names:
        if not _NAME.fullmatch(name):
            raise BundleError(f"{path}: {name!r} cannot be imported: a name stays the same everywhere")
    return names


def _as_function(module: _ScriptModule) -> str:
    imports = [f'const {{ {", ".join(names)} }} = modules["{path}"];' for path, names in module.imports]
    exports = f"return {{ {', '.join(module.exports)} }};" if module.exports else "return {};"
    return "\n".join([f'modules["{module.path}"] = (() => {{', *imports, module.body, exports, "})();"])
