"""Writes rows to a database in WAL mode, and tells each one that is committed; or tells all that are there."""
import os
import sqlite3
import sys


def connect():
    base = sqlite3.connect("base.db", timeout=100, isolation_level=None)
    base.execute("pragma journal_mode = wal")
    base.execute("pragma synchronous = normal")
    return base


if sys.argv[1] == "read":
    base = sqlite3.connect("base.db", timeout=100)
    print(base.execute("pragma integrity_check").fetchone()[0])
    for who, number in base.execute("select who, number from rows"):
        print(who, number)
else:
    own, number = sys.argv[2], int(sys.argv[3])
    base = connect()
    base.execute("create table if not exists rows (who text, number integer, more blob, primary key (who, number))")
    while True:
        base.execute("insert into rows values (?, ?, ?)", (own, number, os.urandom(300 + number % 3000)))
        # At once: a line that a kill has cut says nothing.
        os.write(1, f"{own} {number}\n".encode())
        number += 1
        if number % 40 == 0:
            # The last one to close it writes the log back.
            base.close()
            base = connect()
