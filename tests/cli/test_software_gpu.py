"""Commands with `--device cuda` from end to end, on the software GPU: the compiled kernels, the real numba-cuda, and
schedules that CUDA allows."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from neglm_cli.lm.model import LanguageModel
from tests.conftest import only_text
from tests.lm.cuda.software.build import build, missing
from tests.lm.cuda.software.machine import Machine

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

SETTINGS = (
    "--hidden", "20", "--embedding", "12", "--layers", "2", "--k", "5", "--batch", "4", "--bptt", "5",
    "--init-range", "0.5", "--dropout", "0.2", "--lr", "0.1", "--epochs", "2", "--threads", "1", "--no-cache",
)  # fmt: skip
VARIANTS = {
    "neglm-b, noise of a step, Adagrad": ("--loss", "neglm-b", "--noise", "step", "--optimizer", "adagrad"),
    "nce, noise of a minibatch, reset": ("--loss", "nce", "--noise", "batch", "--reset-at-eos"),
    "softmax": ("--loss", "softmax"),
    "tied, all kinds of dropout": (
        "--tie", "--embedding", "20", "--dropout-kind", "variational", "--embedding-dropout", "0.2",
        "--recurrent-dropout", "0.3",
    ),
    "softmax, tied": ("--loss", "softmax", "--tie", "--embedding", "20"),
    "average": ("--average", "3"),
    "a launch for each step": ("--batch", "70", "--bptt", "2"),
}  # fmt: skip
SCHEDULES = {
    "late": {"SOFTWARE_GPU_STREAMS": "late", "SOFTWARE_GPU_ORDER": "backward"},
    "late work": {"SOFTWARE_GPU_STREAMS": "late work", "SOFTWARE_GPU_ORDER": "7"},
}
EXACT_ADAM = ("--optimizer", "adam", "--adam", "exact", "--lr", "0.01")

SOFTWARE = Path(__file__).parents[1] / "lm" / "cuda" / "software"

Run = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    kernels = tmp_path_factory.getbasetemp().parent / "software-gpu-kernels"
    started = Machine(build(tmp_path_factory.mktemp("gpu"), kernels))
    yield started
    started.close()


@pytest.fixture
def run(machine: Machine, workplace: Path) -> Run:
    """Run neglm on a machine with a software GPU; `schedule` has variables of driver.c."""
    write_corpus()

    def run(*arguments: str, **schedule: str) -> subprocess.CompletedProcess[bytes]:
        done = machine.run(arguments, workplace, **schedule)
        assert done.returncode == 0, done.stderr.decode()
        return done

    return run


def write_corpus() -> None:
    random = np.random.default_rng(1)
    lines = [" ".join(random.choice(list("abcdefghij"), random.integers(3, 9))) for _ in range(60)]
    Path("corpus.txt").write_text("\n".join(lines) + "\n", encoding="ascii")


def assert_same_model(name: str, other: str) -> None:
    found, expected = LanguageModel.load(name), LanguageModel.load(other)
    assert found.tensors.keys() == expected.tensors.keys()
    for each, tensor in expected.tensors.items():
        np.testing.assert_allclose(found.tensors[each], tensor, rtol=1e-3, atol=1e-5, err_msg=each)


def trained_on_both(run: Run, *options: str, **schedule: str) -> bytes:
    """Train on the CPU and on the GPU; return what the latter prints on stderr."""
    train = ("train-lm", "corpus.txt", *SETTINGS, *options)
    run(*train, "--device", "cpu", "--output", "cpu")
    errors = run(*train, "--device", "cuda", "--output", "gpu", **schedule).stderr
    assert_same_model("gpu", "cpu")
    return errors


def test_training_and_evaluating(run: Run) -> None:
    errors = trained_on_both(run)
    assert b"using software GPU (cuda:0)" in errors
    evaluate = ("eval", "cpu", "--test", "corpus.txt", "--json", "--device")
    on_cpu, on_gpu = (only_text(run(*evaluate, device).stdout)["perplexity"] for device in ("cpu", "cuda"))
    assert on_gpu == pytest.approx(on_cpu, rel=1e-5)


def test_a_late_schedule_and_exact_adam(run: Run) -> None:
    trained_on_both(run, *EXACT_ADAM, **SCHEDULES["late"])


def test_the_order_of_threads_changes_no_byte(run: Run) -> None:
    """Not even where many occurrences of a word add to its gradient."""
    train = ("train-lm", "corpus.txt", *SETTINGS, "--k", "40", "--device", "cuda", "--output")
    models = []
    for order in ("forward", "backward", "7"):
        run(*train, order, SOFTWARE_GPU_ORDER=order)
        models.append(Path(order).read_bytes())
    assert models[0] == models[1] == models[2]


def test_graphs_change_no_byte(run: Run) -> None:
    """Epochs end with a shorter minibatch; the learning rate differs in each one."""
    train = ("train-lm", "corpus.txt", *SETTINGS, "--schedule", "cosine", "--device", "cuda", "--output")
    Path("fault").write_text("no graphs", encoding="ascii")
    run(*train, "graphs", SOFTWARE_GPU_STREAMS="late")
    run(*train, "launches", SOFTWARE_GPU_FAULT=str(Path("fault").absolute()))
    assert Path("graphs").read_bytes() == Path("launches").read_bytes()


@pytest.mark.parametrize(("fault", "blocks"), [("", 4), ("no more shared memory", 6)])
def test_more_shared_memory(run: Run, fault: str, blocks: int) -> None:
    """48 KB are too little for as few blocks as the GPU has multiprocessors; without more, there are more of them."""
    Path("fault").write_text(fault, encoding="ascii")
    where = {"SOFTWARE_GPU_FAULT": str(Path("fault").absolute()), "SOFTWARE_GPU_COUNTS": str(Path("counts").absolute())}
    trained_on_both(run, "--hidden", "120", "--layers", "1", "--epochs", "1", **where)
    lines = [line.split() for line in Path("counts").read_text(encoding="ascii").splitlines()]
    threads = {int(line[1]) for line in lines if "8backward" in line[0]}
    assert max(threads) // 256 == blocks


def test_the_second_start_compiles_nothing(run: Run) -> None:
    train = ("train-lm", "corpus.txt", *SETTINGS, "--device", "cuda", "--output")
    run(*train, "one")
    assert b"compiling kernels for the GPU" not in run(*train, "two").stderr
    assert_same_model("one", "two")


@pytest.mark.parametrize(("free", "chosen"), [("16000", "cuda:0"), ("15999", "cuda:1"), ("24000", "cuda:0")])
def test_the_gpu_with_most_free_memory_is_chosen(run: Run, free: str, chosen: str) -> None:
    """The first of two, unless the other has more; nvidia-smi, whose order differs, says so."""
    smi = Path("bin/nvidia-smi")
    smi.parent.mkdir()
    first, second = ("-".join([f"GPU-{4 * x}", 2 * x, 2 * x, 2 * x, 6 * x]) for x in ("07", "08"))
    smi.write_text(f"#!/bin/sh\necho '{second}, 16000'\necho '{first}, {free}'\n", encoding="ascii")
    smi.chmod(0o755)
    run("train-lm", "corpus.txt", *SETTINGS, "--device", "cpu", "--output", "model")
    path = os.pathsep.join([str(smi.parent.absolute()), os.environ["PATH"]])
    result = run("eval", "model", "--test", "corpus.txt", PATH=path, SOFTWARE_GPUS="2")
    assert f"using software GPU ({chosen})" in result.stderr.decode()


@pytest.fixture
def cublas() -> dict[str, str]:
    """Variables of an environment with emulated cuBLAS."""
    return {"PYTHONPATH": os.pathsep.join(map(str, (SOFTWARE / "packages", SOFTWARE.parents[3])))}


def test_lower_precision(run: Run, cublas: dict[str, str]) -> None:
    """Models of tf32 and bf16 differ from that of fp32, and predict as well."""
    train = ("train-lm", "corpus.txt", *SETTINGS, "--epochs", "4", "--device", "cuda")
    perplexities = []
    for precision in ("fp32", "tf32", "bf16"):
        run(*train, "--precision", precision, "--output", precision, **cublas)
        found = run("eval", precision, "--test", "corpus.txt", "--json", "--device", "cpu")
        perplexities.append(only_text(found.stdout)["perplexity"])
    assert len(set(perplexities)) == 3
    assert perplexities[1:] == pytest.approx([perplexities[0]] * 2, rel=0.005)
    embeddings = [LanguageModel.load(precision).tensors["embedding"] for precision in ("fp32", "tf32", "bf16")]
    tf32, bf16 = (np.abs(other - embeddings[0]).max() for other in embeddings[1:])
    assert 1e-6 < tf32 < bf16 < 0.05


@pytest.mark.parametrize("options", [(), ("--batch", "70", "--bptt", "2", "--epochs", "5")], ids=["", "large batch"])
def test_graphs_capture_products_of_cublas(run: Run, cublas: dict[str, str], options: tuple[str, ...]) -> None:
    """Those of time steps, too, if the batch is large."""
    Path("fault").write_text("no graphs", encoding="ascii")
    train = ("train-lm", "corpus.txt", *SETTINGS, *options, "--precision", "bf16", "--device", "cuda", "--output")
    run(*train, "graphs", SOFTWARE_GPU_STREAMS="late", **cublas)
    run(*train, "launches", SOFTWARE_GPU_FAULT=str(Path("fault").absolute()), **cublas)
    assert Path("graphs").read_bytes() == Path("launches").read_bytes()


def test_time_steps_of_large_batches_by_products(run: Run, cublas: dict[str, str]) -> None:
    """Late streams show a product that does not wait for the cells before it, and the other way around."""
    trained_on_both(run, "--batch", "70", "--bptt", "3", *EXACT_ADAM, **SCHEDULES["late"], **cublas)
    on_gpu, on_cpu = (
        run("eval", "gpu", "--test", "corpus.txt", "--per-line", "--device", device, **cublas).stdout.decode()
        for device in ("cuda", "cpu")
    )
    found, expected = ([line.split("\t") for line in text.splitlines()] for text in (on_gpu, on_cpu))
    assert [counts for _, *counts in found] == [counts for _, *counts in expected]
    scores, correct = (np.array([row[0] for row in rows], float) for rows in (found, expected))
    np.testing.assert_allclose(scores, correct, rtol=1e-5)


@pytest.mark.slow_gpu
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_variants(run: Run, variant: str, schedule: str) -> None:
    trained_on_both(run, *VARIANTS[variant], **SCHEDULES[schedule])


@pytest.mark.slow_gpu
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_scoring(run: Run, schedule: str) -> None:
    run("train-lm", "corpus.txt", *SETTINGS, "--device", "cpu", "--output", "model")
    for command in (
        ("score", "model", "corpus.txt"), ("generate", "model", "--temperature", "0", "--max-words", "3"),
        ("next", "model", "--after", "a b"), ("eval", "model", "--test", "corpus.txt", "--adapt", "0.1", "--json"),
    ):  # fmt: skip
        expected = run(*command, "--device", "cpu").stdout
        found = run(*command, "--device", "cuda", **SCHEDULES[schedule]).stdout
        if "--json" in command:
            assert only_text(found)["perplexity"] == pytest.approx(only_text(expected)["perplexity"], rel=1e-4)
        else:
            assert found == expected


@pytest.mark.slow_gpu
@pytest.mark.parametrize("schedule", [{}, SCHEDULES["late"]], ids=["eager", "late"])
def test_doctor(run: Run, schedule: dict[str, str], cublas: dict[str, str]) -> None:
    """Every kernel is run and compared; the speed of a slow GPU is measured with a small model."""
    report = json.loads(run("doctor", "--device", "cuda", "--threads", "1", "--json", **schedule, **cublas).stdout)
    on_gpu = [check for check in report["checks"] if check["device"] == "GPU"]
    assert [check for check in report["checks"] if not check["good"]] == []
    errors = {check["name"]: check["errors"] for check in on_gpu}
    assert {"every kernel was run", "dynamic evaluation", "grouped and accumulated products, cuBLAS"} <= set(errors)
    tf32, bf16 = (errors[f"products in {each}, cuBLAS"][f"product in {each}"] for each in ("tf32", "bf16"))
    assert 1e-5 < tf32 < bf16
    assert report["rates"]["GPU"]["words_per_second"] > 0
    kernels = report["rates"]["GPU"]["kernels"]
    assert {"gather_gradients", "update_rows", "loss_and_gradient_norm"} <= set(kernels)
    assert all(kernel["milliseconds"] > 0 and kernel["launches"] > 0 for kernel in kernels.values())
    assert report["good"]
