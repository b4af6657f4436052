// Two files at a time, of which one may be left to the MPI: handles and handlers do not get mixed up.
#include "check.h"

static int called = 0;

static void handler(MPI_File *file, int *code, ...) {
    (void)file;
    (void)code;
    called++;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_File files[2];
    MPI_Status status;
    int values[100], back[100];
    for (int which = 0; which < 2; which++)
        CHECK(MPI_File_open(MPI_COMM_WORLD, argv[1 + which], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &files[which]));
    EXPECT(MPI_File_c2f(files[0]) != MPI_File_c2f(files[1]));
    for (int which = 0; which < 2; which++) {
        MPI_File file = MPI_File_f2c(MPI_File_c2f(files[which]));
        EXPECT(file == files[which]);
        for (int i = 0; i < 100; i++) values[i] = which * 100000 + rank * 1000 + i;
        CHECK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
        CHECK(MPI_File_write_at_all(file, rank * 100, values, 100, MPI_INT, &status));
        CHECK(MPI_File_sync(file));
        MPI_Barrier(MPI_COMM_WORLD);
        CHECK(MPI_File_read_at(file, rank * 100, back, 100, MPI_INT, &status));
        EXPECT(memcmp(values, back, sizeof values) == 0 && count_of(&status, MPI_INT) == 100);
        MPI_Errhandler errhandler;
        CHECK(MPI_File_create_errhandler(handler, &errhandler));
        CHECK(MPI_File_set_errhandler(file, errhandler));
        CHECK(MPI_Errhandler_free(&errhandler));
        CHECK(MPI_File_call_errhandler(file, MPI_ERR_IO));
        EXPECT(called == which + 1);
    }
    for (int which = 0; which < 2; which++) CHECK(MPI_File_close(&files[which]));
    return passed();
}
