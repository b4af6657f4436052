"""Creates many small files, like a program with a file for each sample: samples.py DIRECTORY FILES"""

import os
import sys

directory, files = sys.argv[1], int(sys.argv[2])
os.makedirs(directory, exist_ok=True)
state = 1
for number in range(files):
    values = []
    for _ in range(200):
        state = (state * 1103515245 + 12345) % 2**31
        values.append(str(state))
    with open(os.path.join(directory, f"sample-{number}.txt"), "x") as sample:
        sample.write(",".join(values) + "\n")
