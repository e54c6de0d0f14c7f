"""`neglm doctor`: describe the machine and check that neglm works on it."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from neglm_cli import __version__
from neglm_cli.cli.app import subcommand
from neglm_cli.cli.console import console
from neglm_cli.cli.options import RUNTIME, Debug, DeviceName, Json, Quiet, Threads, find_gpu, thread_count

if TYPE_CHECKING:
    from neglm_cli.cli.doctor_machine import Found
    from neglm_cli.cli.doctor_run import Examined

FAILED = 1


@subcommand(
    "doctor",
    ("neglm doctor", "A report to read, or to paste into a bug report."),
    ("neglm doctor --quick", "Skip the benchmark."),
    ("neglm doctor --compile", "Compile all kernels now, for an image."),
    ("neglm doctor --device cuda:1", "The second GPU; an error if it cannot be used."),
)
def doctor(
    device: DeviceName = "auto",
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Skip the benchmark.", rich_help_panel=RUNTIME),
    ] = False,
    compile: Annotated[
        bool,
        typer.Option(
            "--compile",
            help="Only compile the kernels of common commands for this CPU, so that none has to wait later: for images "
            "of containers and clusters.",
            rich_help_panel=RUNTIME,
        ),
    ] = False,
    threads: Threads = None,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Describe this machine, and check that neglm works on it.

    Small trainings on the CPU are compared with a reference implementation. With a GPU, every kernel is run at real
    sizes and compared, and a training moves between the devices. Then the paper's model is benchmarked on synthetic
    text; on a GPU, each kernel is measured, too, beside its estimated least time. The report does not contain the names
    of the machine, its user or their directories, except the cache's.

    The exit code is 1 if a check fails.
    """
    if compile:
        from neglm_cli.cli.doctor_compile import compile_all

        compile_all()
        return
    console.announce_compiling()
    from neglm_cli.cli import doctor_machine, doctor_run
    from neglm_cli.errors import NeglmError

    try:
        gpu, refused = doctor_run.examinable(find_gpu(device)), None
    except NeglmError as error:
        gpu, refused = None, error
    rows = [*doctor_machine.found(), doctor_machine.gpu_row(device) if gpu is None else doctor_run.gpu_row(gpu)]
    rows += doctor_run.all_gpus_rows() if gpu is not None else []
    examined = None if refused else doctor_run.examine(gpu, thread_count(threads), quick)
    bad = [row.name for row in rows if row.state == doctor_machine.BROKEN]
    bad += [] if examined is None else [check.name for _, check in examined.checks if not check.good]
    verdict = _verdict(bad, examined, gpu is not None)
    if json:
        console.json(_as_json(rows, examined, verdict, not bad and not refused))
    elif not quiet:
        console.result("\n".join(_as_text(rows, examined, "" if refused else verdict)))
    if refused:
        raise refused
    if bad:
        raise typer.Exit(FAILED)


def _verdict(bad: list[str], examined: "Examined | None", with_gpu: bool) -> str:
    if bad:
        return f"failed: {'; '.join(bad)}; please report it with this text"
    rates = examined.rates if examined else {}
    where = "the CPU and the GPU" if with_gpu else "the CPU"
    speed = ", ".join(f"{rate['words_per_second']:,} words/s on the {name}" for name, rate in rates.items())
    return f"neglm works on {where}" + (f": {speed}" if speed else "")


def _as_text(rows: list["Found"], examined: "Examined | None", verdict: str) -> list[str]:
    lines = [f"neglm {__version__}"]
    lines += [f"  {row.state:<8} {row.name:<16}{row.what}" for row in rows]
    if examined is not None:
        for place in dict.fromkeys(place for place, _ in examined.checks):
            lines.append(f"checks of the {place}: the largest errors")
            for there, check in examined.checks:
                if there == place:
                    errors = ", ".join(f"{what} {error:.0e}" for what, error in check.errors.items())
                    state = "ok" if check.good else "broken"
                    lines.append(f"  {state:<8} {check.name}" + _behind(check.failure or errors))
        for place, rate in examined.rates.items():
            lines.append(f"speed of the {place}, {examined.model}")
            lines += [f"  {label:<24} {value}" for label, value in _speed(rate)]
    return lines + ([f"verdict: {verdict}"] if verdict else [])


def _behind(text: str) -> str:
    return f": {text}" if text else ""


def _speed(rate: dict[str, Any]) -> list[tuple[str, str]]:
    products = ", ".join(f"{_flops(value)} ({name})" for name, value in rate["product_flops"].items())
    lines = [
        ("training", f"{rate['words_per_second']:,} words/s"),
        ("products in training", _flops(rate["training_flops"])),
        ("products at their best", products),
        ("share", f"{rate['share']:.0%} of {rate['fastest_product']}"),
    ]
    if "launches_per_minibatch" in rate:
        lines.append(("launches of a minibatch", f"{rate['launches_per_minibatch']:g}"))
        lines.append(("steps", rate["steps"]))
    for name, kernel in rate.get("kernels", {}).items():
        least = kernel.get("least_milliseconds")
        estimated = "" if least is None else f", estimated: at least {least:.3f} ms"
        lines.append((f"  {name}", f"{kernel['milliseconds']:.3f} ms, launches {kernel['launches']:g}{estimated}"))
    return lines


def _flops(rate: float) -> str:
    return f"{rate / 1e9:,.0f} GFLOP/s"


def _as_json(rows: list["Found"], examined: "Examined | None", verdict: str, good: bool) -> dict[str, Any]:
    checks, rates = (examined.checks, examined.rates) if examined else ([], {})
    return {
        "version": __version__,
        "machine": [row._asdict() for row in rows],
        "checks": [
            {"device": place, "name": check.name, "good": check.good, "errors": check.errors, "failure": check.failure}
            for place, check in checks
        ],
        "rates": rates,
        "good": good,
        "verdict": verdict,
    }
