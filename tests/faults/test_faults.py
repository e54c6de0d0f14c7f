"""Makes every system call of a command on its files fail once: the command succeeds, or prints one sentence of error,
and nothing is lost, half-written or left behind.

`make test` tries some of the calls, `make check` (FAULTS=all) all of them.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from neglm_cli.interop import hub, pytorch
from neglm_cli.store import container
from tests.conftest import users_environment
from tests.warm import Warm

SHIM = Path(__file__).with_name("shim.c")
STRIDE = 1 if os.environ.get("FAULTS") == "all" else 13  # one call in STRIDE fails
SMALL = "--hidden 4 --k 2 --epochs 2 --batch 2 --bptt 5 --threads 1 --valid other.txt --log log"
TINY = "--size 4 --min-count 1 --iter 1 --threads 1"
REMOVALS = ("unlink", "rmdir")
TEXT = "the king of new york saw the queen\na man in new york saw a king\n"
MADE = (
    "vocab other.txt -o vocab2.safetensors",
    "vocab other.txt --format text -o vocab2.txt",
    "vocab other.txt -o merged.safetensors",
    "embed other.txt --size 3 --min-count 1 --iter 1 --threads 1 --no-cache -o old",
    "vocab corpus.txt",
    "phrases other.txt -o joined.txt --list list.tsv --min-count 2 --threshold 0",
    "phrases other.txt -o joined.gz",
    "embed --size 4 --min-count 1 --iter 2 --threads 1 --no-cache",
    "export old --format text -o words.vec",
    "export old --format fasttext -o words.bin",
    "export old --quantize -o quantized.safetensors",
    "export old -o matrix.npy",
    "export old -o words.tsv",
    "export -o given.bin",
    "export -o given.npy",
    "plot old -o map.svg",
    f"train-lm other.txt --output model2.safetensors --no-cache {SMALL}",
    f"train-lm other.txt --output model4.safetensors --no-cache {SMALL}",
    "filter -m model2.safetensors corpus.txt -o kept.txt",
    "export model2.safetensors --pytorch pt2",
)
COPIED = dict.fromkeys(
    ("tokens.txt", "vectors2.safetensors", "vectors3", "imported.safetensors", "model3.safetensors"), "old"
)
COPIED |= dict.fromkeys((f"pt/{name}" for name in pytorch.FILES), "old")
COPIED |= dict.fromkeys((f"hub/{name}" for name in hub.FILES["vectors"]), "old")
COPIED |= {"adapted.safetensors": "model2.safetensors"}


class Case(NamedTuple):
    command: str
    outputs: tuple[str, ...]  # files written together


CASES = {
    "vocab": Case("vocab corpus.txt -o vocab2.safetensors", ("vocab2.safetensors",)),
    "vocab as text": Case("vocab corpus.txt --format text -o vocab2.txt", ("vocab2.txt",)),
    "merge": Case("vocab --merge vocab.safetensors -o merged.safetensors", ("merged.safetensors",)),
    "phrases": Case(
        "phrases corpus.txt -o joined.txt --list list.tsv --min-count 2 --threshold 0", ("joined.txt", "list.tsv")
    ),
    "phrases compressed": Case("phrases corpus.txt -o joined.gz", ("joined.gz",)),
    "embed": Case(f"embed {TINY} -o vectors2.safetensors", ("vectors2.safetensors",)),
    "embed without a cache": Case(f"embed corpus.gz {TINY} --no-cache -o vectors3", ("vectors3",)),
    "train-lm": Case(f"train-lm --output model2.safetensors {SMALL}", ("model2.safetensors",)),
    "resume": Case("train-lm --resume --output model2.safetensors --log log", ("model2.safetensors",)),
    "eval adapting": Case(
        "eval model4.safetensors --test corpus.txt --adapt 0.1 --threads 1 --save-adapted adapted.safetensors",
        ("adapted.safetensors",),
    ),
    "export": Case("export -o words.vec", ("words.vec",)),
    "export fasttext": Case("export --format fasttext -o words.bin", ("words.bin",)),
    "export quantized": Case("export --quantize -o quantized.safetensors", ("quantized.safetensors",)),
    "export npy": Case("export -o matrix.npy", ("matrix.npy", "matrix.words.txt")),
    "export tsv": Case("export -o words.tsv", ("words.tsv", "words.metadata.tsv")),
    "import": Case("import given.bin -o imported.safetensors", ("imported.safetensors",)),
    "import npy": Case("import given.npy -o imported.safetensors", ("imported.safetensors",)),
    "tokenize": Case("tokenize corpus.txt -o tokens.txt", ("tokens.txt",)),
    "filter": Case("filter -m model2.safetensors other.txt --keep ..90% -o kept.txt", ("kept.txt",)),
    "export pytorch": Case("export model2.safetensors --pytorch pt", tuple(f"pt/{name}" for name in pytorch.FILES)),
    "import pytorch": Case("import --pytorch pt2 -o model3.safetensors", ("model3.safetensors",)),
    "export hub": Case("export --hub hub vectors.safetensors", tuple(f"hub/{name}" for name in hub.FILES["vectors"])),
    "plot": Case("plot vectors.safetensors -o map.svg", ("map.svg",)),
}  # fmt: skip


def contents(directory: Path) -> dict[str, bytes]:
    """Return the files below a directory, by relative path."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


class Sandbox:
    """A directory for commands, with its own cache and temporary directory, that can be restored."""

    def __init__(self, root: Path, shim: Path) -> None:
        self.root = root
        self._before = root.with_name(f"{root.name}-before")
        self.work, self.cache, self.temporary = (root / name for name in ("work", "cache", "tmp"))
        for directory in (self.work, self.cache, self.temporary):
            directory.mkdir()
        environment = {"LD_PRELOAD": str(shim), "NEGLM_CACHE": str(self.cache), "TMPDIR": str(self.temporary)}
        self._warm = Warm(users_environment() | environment)

    def run(self, command: str, failing: int = 0) -> tuple["subprocess.CompletedProcess[bytes]", int, str]:
        """Run a command. Return also the number of calls, and the name of the one that failed."""
        return self._warm.run_with_fault(command.split(), self.work, (str(self.root), failing))

    def works(self, command: str) -> None:
        done, _, _ = self.run(command)
        assert done.returncode == 0, (command, done.stderr.decode())

    def keep(self) -> None:
        """Save the current files for `restore`."""
        shutil.rmtree(self._before, ignore_errors=True)
        shutil.copytree(self.root, self._before)

    def restore(self) -> None:
        for directory in (self.work, self.cache, self.temporary):
            shutil.rmtree(directory)
            shutil.copytree(self._before / directory.name, directory)

    def files(self) -> dict[str, bytes]:
        return contents(self.work)

    def hidden(self) -> list[str]:
        sandboxs = (self.work, self.cache)
        return sorted(path.name for sandbox in sandboxs for path in sandbox.rglob(".*"))

    def leftovers(self) -> list[str]:
        return [*self.hidden(), *(path.name for path in self.temporary.iterdir())]

    def close(self) -> None:
        self._warm.close()


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not os.path.exists("/proc/self/fd"):
        pytest.skip("needs a C compiler and Linux")
    shim = tmp_path_factory.mktemp("shim") / "shim.so"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", shim, SHIM, "-ldl"], check=True)
    made = Sandbox(tmp_path_factory.mktemp("faults"), shim)
    (made.work / "corpus.txt").write_text(TEXT * 20)
    (made.work / "other.txt").write_text("the queen of york saw a man\n" * 20)
    with open(made.work / "corpus.gz", "wb") as file:
        subprocess.run(["gzip", "--no-name", "--stdout", made.work / "corpus.txt"], stdout=file, check=True)
    for command in MADE:
        made.works(command)
    for copy, original in COPIED.items():
        (made.work / copy).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(made.work / original, made.work / copy)
    made.keep()
    yield made
    made.close()


def interrupted(sandbox: Sandbox) -> None:
    """Leave the checkpoint of a training whose model could not be written at the end."""
    _, calls, _ = sandbox.run(CASES["train-lm"].command)
    for failing in range(calls, 0, -1):
        sandbox.restore()
        sandbox.run(CASES["train-lm"].command, failing)
        if (sandbox.work / "model2.safetensors.partial").exists():
            return
    raise AssertionError("no training was cut short")


@pytest.mark.parametrize("name", CASES)
def test_each_call_fails_once(sandbox: Sandbox, name: str) -> None:
    case = CASES[name]
    sandbox.restore()
    if name == "resume":
        interrupted(sandbox)
    elif name == "plot":
        pytest.importorskip("matplotlib")
    start = Start(sandbox)
    try:
        done, calls, _ = sandbox.run(case.command)
        assert done.returncode == 0, done.stderr.decode()
        new = {output: sandbox.files()[output] for output in case.outputs}
        assert all(new[output] != start.files[output] for output in case.outputs if name != "resume")
        assert not sandbox.leftovers()
        first = 1 + list(CASES).index(name) % STRIDE
        wrong = []
        for failing in range(first, calls + 1, STRIDE):
            start.restore()
            try:
                check(sandbox, case, failing, start.files, new)
            except AssertionError as error:
                wrong.append(f"call {failing} of {calls}: {error}")
        assert not wrong, "\n".join([f"neglm {case.command}", *wrong])
    finally:
        start.close()


class Start:
    """The files before each run of a case."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self.files = sandbox.files()
        self._cache = contents(sandbox.cache)

    def restore(self) -> None:
        for directory, wanted in ((self._sandbox.work, self.files), (self._sandbox.cache, self._cache)):
            for name in contents(directory).keys() - wanted.keys():
                (directory / name).unlink()
            for name, data in wanted.items():
                path = directory / name
                if not path.exists() or path.read_bytes() != data:
                    path.write_bytes(data)
        for path in self._sandbox.temporary.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def close(self) -> None:
        self._sandbox.restore()


def check(sandbox: Sandbox, case: Case, failing: int, old: dict[str, bytes], new: dict[str, bytes]) -> None:
    done, _, kind = sandbox.run(case.command, failing)
    said = done.stderr.decode()
    assert kind, "no call failed"
    assert "unexpected" not in said, (kind, said)
    assert "Traceback" not in said, (kind, said)
    sentences = [line for line in said.splitlines() if line.startswith("neglm: ")]
    assert done.returncode in (0, 1), (kind, done.returncode, said)
    assert len(sentences) == done.returncode, (kind, said)
    files = sandbox.files()
    checkpoint = "model2.safetensors.partial"
    found = {output: files.get(output) for output in case.outputs}
    assert found in (new, {output: old[output] for output in case.outputs}), (kind, said, "outputs do not agree")
    if done.returncode == 0:
        assert found == new, (kind, said, "not written")
    elif "nothing was changed" in said and checkpoint not in files:
        assert found != new, (kind, said, "it was changed")
    for name, data in old.items():
        if name == "log":
            assert files[name].startswith(data) or case.command.startswith("train-lm --output"), (kind, "log")
        elif name not in (*case.outputs, checkpoint):
            assert files[name] == data, (kind, name, "changed")
    scores = {"kept.txt.partial"} if case is CASES["filter"] else set()
    assert set(files) - set(old) <= {checkpoint, *scores} or kind in REMOVALS, (kind, said, set(files) - set(old))
    if checkpoint in files:
        container.read(sandbox.work / checkpoint)
    assert not sandbox.leftovers() or kind in REMOVALS, (kind, said, sandbox.leftovers())
    again(sandbox, case, new, checkpoint in files)


def again(sandbox: Sandbox, case: Case, new: dict[str, bytes], is_unfinished: bool) -> None:
    """Run again without faults: outputs are correct, and leftovers are removed."""
    for path in sandbox.temporary.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    if is_unfinished:
        sandbox.works(CASES["resume"].command)
    elif case is CASES["resume"]:  # it has finished: nothing to resume
        return
    else:
        sandbox.works(case.command)
    assert {output: sandbox.files()[output] for output in case.outputs} == new
    assert not sandbox.leftovers(), sandbox.leftovers()
