"""Runs a program as one or more ranks on the stand-in.

usage: run.py [--ranks N] [--seeds N] [--expect STATUS,...] STANDIN PROGRAM ARG...

STANDIN is the folder of the stand-in's libraries. Every rank must end with the
expected status (default 0; one for all or one for each), for each seed.
"""
import argparse
import os
import subprocess
import sys
import tempfile

parser = argparse.ArgumentParser()
parser.add_argument("--ranks", type=int, default=1)
parser.add_argument("--seeds", type=int, default=1)
parser.add_argument("--expect", default="0")
parser.add_argument("standin")
parser.add_argument("command", nargs=argparse.REMAINDER)
arguments = parser.parse_args()
expected = [int(status) for status in arguments.expect.split(",")]
if len(expected) == 1:
    expected *= arguments.ranks

for seed in range(arguments.seeds):
    with tempfile.TemporaryDirectory() as folder:
        ranks = []
        for rank in range(arguments.ranks):
            environment = dict(
                os.environ,
                LD_LIBRARY_PATH=arguments.standin,
                RANK=str(rank),
                WORLD_SIZE=str(arguments.ranks),
                RENDEZVOUS=folder,
            )
            if arguments.seeds > 1:
                environment["MOE_STANDIN_SEED"] = str(seed)
            ranks.append(subprocess.Popen(arguments.command, env=environment))
        got = [rank.wait() for rank in ranks]
    if got != expected:
        sys.exit(f"seed {seed}: exit statuses {got}, expected {expected}")
