"""The child's side of the protocol that `measure/serve.rs` describes."""

import gc
import sys
import time

import numpy as np


def magnitude(output):
    """The mean magnitude of the first output."""
    while isinstance(output, (tuple, list)):
        output = output[0]
    return float(np.abs(np.asarray(output).astype(np.float64)).mean())


def serve(prepare):
    """`prepare(name)` gives a function that computes the workload and waits for it, or None."""
    # Libraries print to standard output now and then; answers go to what it was.
    answers, sys.stdout = sys.stdout, sys.stderr
    run = None
    for line in sys.stdin:
        verb, _, rest = line.strip().partition(" ")
        try:
            if verb == "open":
                run = prepare(rest)
                answer = "none not offered" if run is None else f"ok {magnitude(run())!r}"
            elif verb == "run":
                count = int(rest)
                for _ in range(count // 8 + 1):
                    run()
                gc.disable()
                start = time.perf_counter_ns()
                for _ in range(count):
                    run()
                answer = str(time.perf_counter_ns() - start)
                gc.enable()
            elif verb == "close":
                run = None
                gc.collect()
                answer = "closed"
            else:
                return
        except Exception as error:  # The driver shows it and goes on with the others.
            run = None
            answer = f"none {type(error).__name__}: {error}".replace("\n", " ")[:300]
        print(answer, file=answers, flush=True)
