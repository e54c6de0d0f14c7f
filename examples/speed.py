"""Measures the speed and memory of `neglm train-lm`, and appends a line to a file of results.

    python examples/speed.py RESULTS.jsonl NAME=VALUE… -- CORPUS OPTIONS OF train-lm…

The line has the names and values, the words per second of one epoch, without startup, the memory estimated by
--dry-run, and the peak memory of the process, in bytes. The model is discarded.
"""

import json
import os
import subprocess
import sys


def main() -> None:
    if "--" not in sys.argv[2:]:
        sys.exit(__doc__)
    end = sys.argv.index("--")
    named = dict(argument.split("=", 1) for argument in sys.argv[2:end])
    command = ["neglm", "train-lm", *sys.argv[end + 1 :], "--epochs", "1", "--no-cache", "--quiet", "--json"]
    expected = json.loads(subprocess.run([*command, "--dry-run"], check=True, stdout=subprocess.PIPE).stdout)
    process = subprocess.Popen([*command, "--output", os.devnull], stdout=subprocess.PIPE)
    assert process.stdout
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)  # resources of this process only
    if status:
        sys.exit(1)
    line = named | {
        "words_per_second": json.loads(printed)["words_per_second"],
        "estimated_memory": expected["memory_bytes"]["total"],
        "peak_memory": usage.ru_maxrss * 1024,  # in kilobytes on Linux
    }
    print(json.dumps(line, ensure_ascii=False), file=sys.stderr)
    with open(sys.argv[1], "a", encoding="utf-8") as results:
        results.write(json.dumps(line, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
