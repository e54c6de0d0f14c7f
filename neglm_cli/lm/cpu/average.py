"""The average of parameters over snapshots of a training."""

from neglm_cli.barrier import barrier_wait
from neglm_cli.kernels import kernel
from neglm_cli.lm.cpu.threads import rows_of


@kernel
def update_average(average, parameters, weight, worker):
    """Compute average += weight · (parameters − average) in the thread's share of two flat arrays."""
    first, last = rows_of(parameters.size, worker)
    for i in range(first, last):
        average[i] += weight * (parameters[i] - average[i])
    barrier_wait(worker)


@kernel
def swap(a, b, worker):
    """Exchange the thread's share of two flat arrays."""
    first, last = rows_of(a.size, worker)
    for i in range(first, last):
        a[i], b[i] = b[i], a[i]
    barrier_wait(worker)
