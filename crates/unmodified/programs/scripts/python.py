"""Children, threads, processes, and the modules that programs use for files."""
import json
import mmap
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile
from pathlib import Path


def write(number):
    with open(f"thread{number}", "w+") as file:
        for line in range(2000):
            print(number, line, file=file)
        file.seek(0)
        return sum(len(line) for line in file)


def process(number):
    return write(100 + number)


def several(way):
    with multiprocessing.get_context(way).Pool(2) as pool:
        return pool.map(process, range(4))


def children():
    print(subprocess.run(["cat"], input=b"through a pipe", capture_output=True, check=True).stdout)
    with open("log", "w") as log:
        log.write("first\n")
        log.flush()
        subprocess.run(["sh", "-c", "echo by a child; echo wrong >&2"], stdout=log, stderr=subprocess.STDOUT, check=True)
        log.write("last\n")
    print(Path("log").read_text())
    # A child that gets a descriptor.
    with open("passed", "wb", buffering=0) as file:
        file.write(b"0123456789")
        subprocess.run(["sh", "-c", f"printf child >&{file.fileno()}"], pass_fds=[file.fileno()], check=True)
        file.write(b"!")
        print(file.tell())
    print(Path("passed").read_bytes())


def in_threads():
    sums = [0] * 8

    def work(number):
        sums[number] = write(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(sums)


def main():
    children()
    in_threads()
    for way in ["fork", "spawn"]:
        print(several(way))
    data = {"numbers": list(range(1000)), "text": "ä" * 100}
    with open("data.json", "w") as file:
        json.dump(data, file, indent=1)
    with open("data.json") as file:
        assert json.load(file) == data
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "inside").write_bytes(b"x" * 100000)
        shutil.copytree(directory, "copied")
        shutil.copy2(Path(directory, "inside"), "copied/again")
    assert not os.path.exists(directory)
    with tempfile.TemporaryFile() as file:
        file.write(b"y" * 5000)
        file.seek(1000)
        print(len(file.read()))
    with tempfile.NamedTemporaryFile(dir=".", delete=False) as file:
        file.write(b"named")
    os.replace(file.name, "named")
    with open("mapped", "w+b") as file:
        file.write(b"a" * 8192)
        file.flush()
        with mmap.mmap(file.fileno(), 0) as memory:
            memory[4000:4004] = b"here"
        file.seek(3998)
        print(file.read(8))
    with open("sparse", "wb") as file:
        file.seek(100000)
        file.write(b"end")
        file.truncate(50000)
    print(os.stat("sparse").st_size)
    with zipfile.ZipFile("all.zip", "w") as archive:
        archive.writestr(zipfile.ZipInfo("a"), b"z" * 10000)
    print(zipfile.ZipFile("all.zip").read("a") == b"z" * 10000)
    fd = os.open("low", os.O_RDWR | os.O_CREAT | os.O_APPEND)
    os.write(fd, b"one")
    os.pwrite(fd, b"two", 0)
    other = os.dup(fd)
    os.lseek(other, 1, os.SEEK_SET)
    print(os.read(fd, 10), os.fstat(fd).st_size)
    os.close(fd)
    os.write(other, b"three")
    os.close(other)
    print(Path("low").read_bytes(), sorted(os.listdir("copied")), [entry.stat().st_size for entry in sorted(os.scandir("copied"), key=lambda e: e.name)])
    shutil.rmtree("copied")
    shutil.move("named", "moved")
    print(sorted(os.listdir()))
    sys.stdout.flush()
    if os.fork() == 0:
        with open("forked", "w") as file:
            file.write("child")
        os._exit(0)
    os.wait()
    print(Path("forked").read_text())


if __name__ == "__main__":
    main()
