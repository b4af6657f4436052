// Wrong arguments: the error class that the standard names, on the ranks that it names, and no rank
// waits for ever.
#include "check.h"
#include <unistd.h>

static int called = 0, called_code = 0;
static MPI_File called_file;

static void handler(MPI_File *file, int *code, ...) {
    called++;
    called_file = *file;
    called_code = *code;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size, data[8] = {0};
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_File file, closed;
    MPI_Status status;
    MPI_Request request;
    char name[4096];

    // Opening.
    FAILS(MPI_ERR_AMODE, MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDONLY | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    FAILS(MPI_ERR_AMODE, MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDONLY | MPI_MODE_CREATE, MPI_INFO_NULL, &file));
    FAILS(MPI_ERR_AMODE, MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE, MPI_INFO_NULL, &file));
    FAILS(MPI_ERR_AMODE, MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDWR | MPI_MODE_SEQUENTIAL, MPI_INFO_NULL, &file));
    FAILS(MPI_ERR_NO_SUCH_FILE, MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    EXPECT(file == MPI_FILE_NULL);
    snprintf(name, sizeof name, "%s/none/none", argv[1]);
    FAILS(MPI_ERR_NO_SUCH_FILE, MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    if (size > 1) {
        int mine = rank == 1 ? MPI_MODE_CREATE | MPI_MODE_WRONLY : MPI_MODE_CREATE | MPI_MODE_RDWR;
        FAILS(MPI_ERR_NOT_SAME, MPI_File_open(MPI_COMM_WORLD, argv[1], mine, MPI_INFO_NULL, &file));
        // One rank is wrong, all are told.
        mine = rank == 1 ? 0 : MPI_MODE_CREATE | MPI_MODE_RDWR;
        FAILS(MPI_ERR_AMODE, MPI_File_open(MPI_COMM_WORLD, argv[1], mine, MPI_INFO_NULL, &file));
    }

    CHECK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    // Counts, offsets, types.
    FAILS(MPI_ERR_COUNT, MPI_File_write_at(file, 0, data, -1, MPI_INT, &status));
    FAILS(MPI_ERR_ARG, MPI_File_write_at(file, -1, data, 1, MPI_INT, &status));
    FAILS(MPI_ERR_TYPE, MPI_File_write_at(file, 0, data, 1, MPI_DATATYPE_NULL, &status));
    FAILS(MPI_ERR_COUNT, MPI_File_read(file, data, -5, MPI_INT, &status));
    FAILS(MPI_ERR_COUNT, MPI_File_iwrite_at(file, 0, data, -1, MPI_INT, &request));
    MPI_Datatype vector, backwards;
    MPI_Type_vector(2, 1, 2, MPI_INT, &vector);
    FAILS(MPI_ERR_TYPE, MPI_File_write_at(file, 0, data, 1, vector, &status));
    FAILS(MPI_ERR_TYPE, MPI_File_set_view(file, 0, MPI_INT, vector, "native", MPI_INFO_NULL));
    MPI_Type_commit(&vector);
    // Of a collective call: the rank with the wrong argument, and the ranks that would wait for it.
    FAILS(MPI_ERR_COUNT, MPI_File_write_at_all(file, 0, data, rank == 0 ? -1 : 1, MPI_INT, &status));
    FAILS(MPI_ERR_COUNT, MPI_File_read_all(file, data, rank == size - 1 ? -1 : 1, MPI_INT, &status));
    FAILS(MPI_ERR_ARG, MPI_File_write_at_all(file, rank == 0 ? -4 : 4, data, 1, MPI_INT, &status));
    FAILS(MPI_ERR_COUNT, MPI_File_write_ordered(file, data, rank == 0 ? -1 : 1, MPI_INT, &status));
    FAILS(MPI_ERR_COUNT, MPI_File_write_all_begin(file, data, rank == 0 ? -1 : 1, MPI_INT));
    // Views.
    int lengths[2] = {1, 1}, places[2] = {4, 0};
    MPI_Type_indexed(2, lengths, places, MPI_INT, &backwards);
    MPI_Type_commit(&backwards);
    FAILS(MPI_ERR_IO, MPI_File_set_view(file, 0, MPI_INT, backwards, "native", MPI_INFO_NULL));
    FAILS(MPI_ERR_IO, MPI_File_set_view(file, 0, MPI_INT, rank == 0 ? backwards : MPI_INT, "native", MPI_INFO_NULL));
    FAILS(MPI_ERR_ARG, MPI_File_set_view(file, rank == 0 ? -1 : 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    FAILS(MPI_ERR_UNSUPPORTED_DATAREP, MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "mine", MPI_INFO_NULL));
    CHECK(MPI_File_set_view(file, 0, MPI_INT, vector, "native", MPI_INFO_NULL));
    FAILS(MPI_ERR_IO, MPI_File_write(file, data, 3, MPI_BYTE, &status));
    CHECK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    MPI_Type_free(&vector);
    MPI_Type_free(&backwards);
    // Sizes and positions.
    FAILS(MPI_ERR_ARG, MPI_File_set_size(file, rank == 0 ? -1 : 100));
    FAILS(MPI_ERR_ARG, MPI_File_preallocate(file, -1));
    if (size > 1) FAILS(MPI_ERR_NOT_SAME, MPI_File_set_size(file, 100 + rank));
    FAILS(MPI_ERR_ARG, MPI_File_seek(file, -1, MPI_SEEK_SET));
    FAILS(MPI_ERR_ARG, MPI_File_seek(file, 0, 12345));
    FAILS(MPI_ERR_ARG, MPI_File_seek_shared(file, -1, MPI_SEEK_SET));
    // Halves of calls that do not fit.
    FAILS(MPI_ERR_OTHER, MPI_File_write_all_end(file, data, &status));
    CHECK(MPI_File_write_all_begin(file, data, 1, MPI_INT));
    FAILS(MPI_ERR_OTHER, MPI_File_read_all_end(file, data, &status));
    FAILS(MPI_ERR_OTHER, MPI_File_write_at_all(file, 0, data, 1, MPI_INT, &status));
    CHECK(MPI_File_write_all_end(file, data, &status));

    // Handlers: by default the code is returned; one of the program is called with handle and code.
    MPI_Errhandler errhandler, got;
    CHECK(MPI_File_get_errhandler(file, &got));
    EXPECT(got == MPI_ERRORS_RETURN);
    MPI_Errhandler_free(&got);
    CHECK(MPI_File_create_errhandler(handler, &errhandler));
    CHECK(MPI_File_set_errhandler(file, errhandler));
    CHECK(MPI_File_get_errhandler(file, &got));
    EXPECT(got == errhandler);
    MPI_Errhandler_free(&got);
    MPI_Errhandler_free(&errhandler);
    FAILS(MPI_ERR_COUNT, MPI_File_write_at(file, 0, data, -1, MPI_INT, &status));
    EXPECT(called == 1 && called_file == file && called_code == MPI_ERR_COUNT);
    CHECK(MPI_File_call_errhandler(file, MPI_ERR_IO));
    EXPECT(called == 2 && called_code == MPI_ERR_IO);
    CHECK(MPI_File_set_errhandler(file, MPI_ERRORS_RETURN));
    // That of MPI_FILE_NULL is for calls without a file, and for files to come.
    CHECK(MPI_File_create_errhandler(handler, &errhandler));
    CHECK(MPI_File_set_errhandler(MPI_FILE_NULL, errhandler));
    MPI_Errhandler_free(&errhandler);
    snprintf(name, sizeof name, "%s.none", argv[1]);
    FAILS(MPI_ERR_NO_SUCH_FILE, MPI_File_delete(name, MPI_INFO_NULL));
    EXPECT(called == 3 && called_file == MPI_FILE_NULL);
    CHECK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));

    // A handle that was closed.
    closed = file;
    CHECK(MPI_File_close(&file));
    EXPECT(file == MPI_FILE_NULL);
    FAILS(MPI_ERR_FILE, MPI_File_write_at(closed, 0, data, 1, MPI_INT, &status));
    FAILS(MPI_ERR_FILE, MPI_File_sync(closed));
    FAILS(MPI_ERR_FILE, MPI_File_close(&closed));
    FAILS(MPI_ERR_FILE, MPI_File_sync(file));

    // Directions.
    CHECK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    FAILS(MPI_ERR_READ_ONLY, MPI_File_write(file, data, 1, MPI_INT, &status));
    FAILS(MPI_ERR_READ_ONLY, MPI_File_write_all(file, data, 1, MPI_INT, &status));
    CHECK(MPI_File_close(&file));
    CHECK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_WRONLY, MPI_INFO_NULL, &file));
    FAILS(MPI_ERR_ACCESS, MPI_File_read(file, data, 1, MPI_INT, &status));
    CHECK(MPI_File_close(&file));
    return passed();
}
