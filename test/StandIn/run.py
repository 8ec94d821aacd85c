"""Runs a program as one or more ranks on the stand-in.

usage: run.py [--ranks N] [--seeds N] [--expect STATUS,...] [--same]
  [--launcher COMMAND] STANDIN PROGRAM ARG...

STANDIN is the folder of the stand-in's libraries. Every rank must end with the
expected status (default 0; one for all or one for each), for each seed. With
--same the ranks' standard output must be the same for each seed, and is printed
once. With --launcher, that command starts the ranks, and its status counts.
"""
import argparse
import os
import shlex
import socket
import subprocess
import sys
import tempfile

parser = argparse.ArgumentParser()
parser.add_argument("--ranks", type=int, default=1)
parser.add_argument("--seeds", type=int, default=1)
parser.add_argument("--expect", default="0")
parser.add_argument("--same", action="store_true")
parser.add_argument("--launcher", type=shlex.split)
parser.add_argument("standin")
parser.add_argument("command", nargs=argparse.REMAINDER)
arguments = parser.parse_args()
if arguments.launcher:
    command = arguments.launcher + arguments.command
    ranks = [{}]
else:
    command = arguments.command
    ranks = [
        {"RANK": str(rank), "WORLD_SIZE": str(arguments.ranks)}
        for rank in range(arguments.ranks)
    ]
expected = [int(status) for status in arguments.expect.split(",")]
if len(expected) == 1:
    expected *= len(ranks)

output = None


def reserve_port():
    """A socket bound to a port that nobody else gets while it is open; rank 0
    may listen there, as both allow the other's address."""
    holder = socket.socket()
    holder.bind(("", 0))
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return holder


for seed in range(arguments.seeds):
    with (
        tempfile.TemporaryDirectory() as folder,
        tempfile.TemporaryFile() as log,
        reserve_port() as port,
    ):
        environment = dict(
            os.environ,
            LD_LIBRARY_PATH=arguments.standin,
            RENDEZVOUS=folder,
            MOE_RT_PORT=str(port.getsockname()[1]),
        )
        if arguments.seeds > 1:
            environment["MOE_STANDIN_SEED"] = str(seed)
        started = [
            subprocess.Popen(
                command,
                env={**environment, **rank},
                stdout=log if arguments.same else None,
            )
            for rank in ranks
        ]
        got = [process.wait() for process in started]
        log.seek(0)
        text = log.read().decode()
    if got != expected:
        sys.exit(f"seed {seed}: exit statuses {got}, expected {expected}")
    if output not in (None, text):
        sys.exit(f"seed {seed}: prints\n{text}instead of\n{output}")
    output = text
print(output, end="")
