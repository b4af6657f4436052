"""Two workers that write a log each, line by line, and a small file with the outcome of each job:
logger.py DIRECTORY JOBS"""

import os
import sys
import time

directory, jobs = sys.argv[1], int(sys.argv[2])
os.makedirs(directory, exist_ok=True)


def work(worker):
    log = os.open(os.path.join(directory, f"worker-{worker}.log"), os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
    for job in range(jobs):
        for step in range(8):
            time.sleep(0.001)
            os.write(log, f"worker {worker}: job {job}: step {step} is done\n".encode())
        with open(os.path.join(directory, f"job-{worker}-{job}.json"), "w") as outcome:
            outcome.write('{"steps": 8, "outcome": "done"}\n')
    os.close(log)


children = []
for worker in range(2):
    child = os.fork()
    if child == 0:
        work(worker)
        os._exit(0)
    children.append(child)
for child in children:
    os.waitpid(child, 0)
