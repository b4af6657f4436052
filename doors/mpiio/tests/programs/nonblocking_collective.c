// Collective calls that are begun on several files, and waited for in different orders, by tests and between other calls.
#include "check.h"

enum { FILES = 3, LEN = 300000 };

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_File files[FILES];
    MPI_Request requests[FILES];
    MPI_Status status;
    char *data[FILES], *back = malloc(LEN);
    MPI_Datatype blocks;
    MPI_Type_vector(LEN / 100, 100, 100 * size, MPI_BYTE, &blocks);
    MPI_Type_commit(&blocks);
    for (int which = 0; which < FILES; which++) {
        char name[4096];
        snprintf(name, sizeof name, "%s.%d", argv[1], which);
        CHECK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &files[which]));
        CHECK(MPI_File_set_view(files[which], 100 * rank, MPI_BYTE, blocks, "native", MPI_INFO_NULL));
        data[which] = malloc(LEN);
        memset(data[which], 'a' + rank * FILES + which, LEN);
    }
    for (int which = 0; which < FILES; which++)
        CHECK(MPI_File_iwrite_all(files[which], data[which], LEN, MPI_BYTE, &requests[which]));
    // Every rank begins with another file.
    for (int step = 0; step < FILES; step++) {
        int which = (rank + step) % FILES;
        CHECK(MPI_Wait(&requests[which], &status));
        EXPECT(count_of(&status, MPI_BYTE) == LEN);
    }
    // Messages between ranks while calls are under way.
    int left = (rank + size - 1) % size, right = (rank + 1) % size, got = -1, done = 0;
    CHECK(MPI_File_iread_at_all(files[0], 0, back, LEN, MPI_BYTE, &requests[0]));
    MPI_Sendrecv(&rank, 1, MPI_INT, right, 0, &got, 1, MPI_INT, left, 0, MPI_COMM_WORLD, &status);
    EXPECT(got == left);
    while (!done) CHECK(MPI_Test(&requests[0], &done, &status));
    EXPECT(count_of(&status, MPI_BYTE) == LEN && memcmp(back, data[0], LEN) == 0);
    // A blocking call behind one that was begun.
    CHECK(MPI_File_iwrite_at_all(files[1], 0, data[2], LEN, MPI_BYTE, &requests[1]));
    CHECK(MPI_File_read_at_all(files[1], 0, back, LEN, MPI_BYTE, &status));
    EXPECT(memcmp(back, data[2], LEN) == 0);
    CHECK(MPI_Wait(&requests[1], &status));
    // A rank with a wrong argument: all are told, at once or when they wait.
    int code = MPI_File_iwrite_at_all(files[2], rank == 0 ? -1 : 0, data[2], LEN, MPI_BYTE, &requests[2]);
    if (code == MPI_SUCCESS) code = MPI_Wait(&requests[2], &status);
    FAILS(MPI_ERR_ARG, code);
    for (int which = 0; which < FILES; which++) {
        CHECK(MPI_File_close(&files[which]));
        free(data[which]);
    }
    free(back);
    MPI_Type_free(&blocks);
    return passed();
}
