"""Writes a corpus available on every machine with Python: its own documentation, one sentence per line.

Contains the language reference (pydoc_data.topics) and the docstrings of the standard library, parsed from its source
files: nothing is imported or run. Usage: python python_docs.py > corpus.txt
"""

import ast
import re
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from pydoc_data.topics import topics

SKIPPED = {"site-packages", "dist-packages", "test", "tests", "idle_test", "lib2to3", "__pycache__"}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

CODE = re.compile(r"^\s*(>>>|\.\.\.|[|+=*~#-]{3,}|\.\. )")
MARKUP = re.compile(r"\*{1,2}|``?|:\w+:")
SENTENCE_END = re.compile(r"(?<=[.!?:])\s+(?=[A-Z\"'(])")
TOKEN = re.compile(r"_*[^\W\d_]\w*(?:['-]\w+)*(?:\(\))?|\d+(?:\.\d+)*|[^\w\s]")


def docstrings(library: Path) -> Iterator[str]:
    """Yield every docstring of every module below this directory."""
    for path in sorted(library.rglob("*.py")):
        if SKIPPED.isdisjoint(path.relative_to(library).parts):
            try:
                tree = ast.parse(path.read_text(encoding="utf-8"))
            except (OSError, SyntaxError, UnicodeDecodeError):
                continue
            for node in ast.walk(tree):
                if isinstance(node, DOCUMENTED) and (text := ast.get_docstring(node)):
                    yield text


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text: words and punctuation in lower case, separated by blanks."""
    for paragraph in re.split(r"\n\s*\n", text):
        if CODE.match(paragraph):
            continue
        prose = MARKUP.sub("", " ".join(line for line in paragraph.split("\n") if not CODE.match(line)))
        for sentence in SENTENCE_END.split(prose):
            tokens = TOKEN.findall(sentence.lower())
            letters = sum(token[0].isalpha() or token[0] == "_" for token in tokens)
            if letters >= 3 and letters >= len(tokens) / 2:  # the rest is code or tables
                yield " ".join(tokens)


def main() -> None:
    seen = set()
    library = Path(sysconfig.get_path("stdlib"))
    for text in (*(topics[name] for name in sorted(topics)), *docstrings(library)):
        for sentence in sentences(text):
            if sentence not in seen:  # topics share pages, and methods share docstrings
                seen.add(sentence)
                sys.stdout.buffer.write(sentence.encode() + b"\n")


if __name__ == "__main__":
    main()
