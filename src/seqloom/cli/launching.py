"""`seqloom train --processes N`: torchrun's engine inside this command. A failure is one line and exit code 2."""

import logging
import os
import sys


def launched(processes: int) -> int:
    """Runs this command again in so many processes of this machine, which train together; its exit code."""
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    logging.disable()  # the processes print why they end
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // processes)))
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes,
        run_id=f"seqloom-{os.getpid()}",
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
    )
    try:
        elastic_launch(config, sys.executable)("-m", "seqloom", *sys.argv[1:])
    except ChildFailedError as error:
        codes = {failure.exitcode for failure in error.failures.values()}
        return 1 if 1 in codes else 2  # 1: a fault of our own, whose traceback was printed
    except SignalException as stopped:
        return 128 + int(stopped.sigval)
    return 0
