"""Finds import cycles between sibling modules of a crate.

A module may use its siblings only downwards: the imports between the children of one parent form
no cycle. A name that a module exports for another belongs to the one that defines it. A child may
use its parents; tests may use everything.
"""

import os
import re

TESTS = re.compile(r"#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\([a-z]+\))? )?mod \w+ \{.*?^\}", re.S | re.M)
COMMENT = re.compile(r"//[^\n]*")
TEXT = re.compile(r'"(?:[^"\\]|\\.)*"', re.S)
PATH = re.compile(r"\b(crate|super|self)((?:::(?:\w+|\{))+)")
EXPORT = re.compile(r"\bpub(?:\([a-z]+\))? use ((?:\w+::)+)(\{[^{}]*\}|\w+)")
# Exports of exports are followed this far.
HOPS = 4


def modules(source):
    """Returns the files of a crate by module path."""
    found = {}
    for folder, _, names in os.walk(source):
        for name in names:
            if not name.endswith(".rs"):
                continue
            file = os.path.join(folder, name)
            parts = os.path.relpath(file, source)[: -len(".rs")].split(os.sep)
            if parts[-1] in ("lib", "main", "mod"):
                parts.pop()
            if "tests" not in parts and not any(part.endswith("_tests") for part in parts):
                found[tuple(parts)] = file
    return found


def references(text, module):
    """Returns the absolute paths that the text of a module mentions."""
    text = TEXT.sub('""', COMMENT.sub("", TESTS.sub("", text)))
    for match in PATH.finditer(text):
        base, tail = match.group(1), [part for part in match.group(2).split("::") if part]
        group = tail and tail[-1] == "{"
        tail = tail[:-1] if group else tail
        if base == "super":
            prefix = module[:-1]
            while tail and tail[0] == "super":
                prefix, tail = prefix[:-1], tail[1:]
        else:
            prefix = () if base == "crate" else module
        path = prefix + tuple(tail)
        if not group:
            yield path
            continue
        depth, end = 1, match.end()
        while depth and end < len(text):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        for item in re.findall(r"[\w:]+", text[match.end() : end]):
            yield path + tuple(part for part in item.split("::") if part)


def exports(text, module, files):
    """Returns the modules of the names that a module exports for others: name -> path of its module."""
    found = {}
    for base, names in EXPORT.findall(COMMENT.sub("", text)):
        parts = tuple(base.split("::")[:-1])
        if parts[0] == "crate":
            path = parts[1:]
        elif parts[0] == "super":
            path = module[:-1] + parts[1:]
        else:
            path = module + parts[parts[0] == "self" :]
        if path in files:
            found.update((name, path) for name in re.findall(r"\w+", names))
    return found


def owner(path, files, exported):
    """Returns the module that defines what a path names."""
    for _ in range(HOPS):
        module = path
        while module and module not in files:
            module = module[:-1]
        rest = path[len(module) :]
        if not rest or rest[0] not in exported[module]:
            return module
        path = exported[module][rest[0]] + rest
    return module


def edges(source):
    """Returns, for each parent, the imports between its children: parent -> child -> children."""
    files = modules(source)
    texts = {}
    for module, file in files.items():
        with open(file, encoding="utf-8") as opened:
            texts[module] = opened.read()
    exported = {module: exports(text, module, files) for module, text in texts.items()}
    # A program without a file for its root exports nothing there.
    exported.setdefault((), {})
    graph = {}
    for module, text in texts.items():
        for path in references(text, module):
            path = owner(path, files, exported)
            common = 0
            while common < min(len(path), len(module)) and path[common] == module[common]:
                common += 1
            if common < len(path) and common < len(module):
                children = graph.setdefault(module[:common], {})
                children.setdefault(module[common], set()).add(path[common])
    return graph


def cycles(source):
    """Returns the groups of siblings that use each other in a circle, with their parent."""
    found = []
    for parent, children in sorted(edges(source).items()):
        reach = {}
        for child in children:
            seen, left = set(), [child]
            while left:
                for other in children.get(left.pop(), ()):
                    if other not in seen:
                        seen.add(other)
                        left.append(other)
            reach[child] = seen
        circular = {child for child, seen in reach.items() if child in seen}
        while circular:
            first = min(circular)
            group = {other for other in circular if other in reach[first] and first in reach[other]}
            circular -= group | {first}
            found.append(("::".join(("crate",) + parent), sorted(group | {first})))
    return found
