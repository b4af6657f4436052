// Many small collective calls in a row: ranks skip their synchronisation, and small writes wait to
// be combined. Nothing of it may show.
#include "check.h"
#include <unistd.h>

enum { BLOCK = 1000, CALLS = 600 };

static int rank, size;

static void fill(char *block, int call, int of) {
    for (int i = 0; i < BLOCK; i++) block[i] = (char)(call * 31 + of * 7 + i);
}

static int is_filled(const char *block, int call, int of) {
    char expected[BLOCK];
    fill(expected, call, of);
    return memcmp(block, expected, BLOCK) == 0;
}

static MPI_Offset place(int call, int of) { return ((MPI_Offset)call * size + of) * BLOCK; }

// A rank whose arguments are wrong gets its error; the others go on, or learn of it if the ranks meet just then.
static int is_wrong(int call) { return call % 97 == 96; }

static void write_all_blocks(MPI_File file) {
    char block[BLOCK];
    MPI_Status status;
    for (int call = 0; call < CALLS; call++) {
        fill(block, call, rank);
        if (is_wrong(call)) {
            if (rank == 0) {
                FAILS(MPI_ERR_COUNT, MPI_File_write_at_all(file, place(call, rank), block, -1, MPI_BYTE, &status));
            } else {
                MPI_File_write_at_all(file, place(call, rank), block, BLOCK, MPI_BYTE, &status);
            }
            continue;
        }
        CHECK(MPI_File_write_at_all(file, place(call, rank), block, BLOCK, MPI_BYTE, &status));
        EXPECT(count_of(&status, MPI_BYTE) == BLOCK);
        // Some are late.
        if (call % 50 == rank) usleep(500);
    }
}

static void read_all_blocks(MPI_File file, int together) {
    char block[BLOCK];
    MPI_Status status;
    for (int call = 0; call < CALLS; call++) {
        int of = (rank + call) % size;
        if (is_wrong(call)) continue;
        memset(block, 0, BLOCK);
        CHECK(together ? MPI_File_read_at_all(file, place(call, of), block, BLOCK, MPI_BYTE, &status)
                       : MPI_File_read_at(file, place(call, of), block, BLOCK, MPI_BYTE, &status));
        EXPECT(count_of(&status, MPI_BYTE) == BLOCK);
        EXPECT(is_filled(block, call, of));
    }
}

int main(int argc, char **argv) {
    MPI_File file, other;
    MPI_Offset length = -1;
    char block[BLOCK];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    write_all_blocks(file);
    if (argc > 2) {
        // The program ends without closing the file.
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Finalize();
        return 0;
    }
    // Another handle shows what was written, although no rank has synchronised the file.
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_open(MPI_COMM_SELF, argv[1], MPI_MODE_RDONLY, MPI_INFO_NULL, &other));
    CHECK(MPI_File_get_size(other, &length));
    EXPECT(length == place(CALLS, 0));
    read_all_blocks(other, 0);
    CHECK(MPI_File_close(&other));
    read_all_blocks(file, 1);
    read_all_blocks(file, 0);
    // The last of two calls that write the same bytes wins, however late a rank is.
    for (int call = 0; call < CALLS; call++) {
        if (call % 60 == rank) usleep(1000);
        fill(block, call, 100);
        CHECK(MPI_File_write_at_all(file, place(0, (rank + call) % size), block, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE));
    }
    CHECK(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_read_at_all(file, place(0, rank), block, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE));
    EXPECT(is_filled(block, CALLS - 1, 100));
    CHECK(MPI_File_close(&file));
    return passed();
}
