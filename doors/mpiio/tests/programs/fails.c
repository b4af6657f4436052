// Writes to a file whose file system gives out, or cannot be written: argv[2] says what is expected.
#include "check.h"

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_File file;
    MPI_Status status;
    const int len = 4 << 20;
    char *data = malloc(len);
    memset(data, rank, len);
    if (strcmp(argv[2], "read-only") == 0) {
        FAILS(MPI_ERR_READ_ONLY, MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
        EXPECT(file == MPI_FILE_NULL);
    } else {
        CHECK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
        FAILS(MPI_ERR_NO_SPACE, MPI_File_write_at_all(file, (MPI_Offset)rank * len, data, len, MPI_BYTE, &status));
        MPI_File_write_at(file, (MPI_Offset)rank * len, data, len, MPI_BYTE, &status);
        // Interleaved, so that ranks write for each other.
        MPI_Datatype vector;
        int size;
        MPI_Comm_size(MPI_COMM_WORLD, &size);
        MPI_Type_vector(len / 64, 64, 64 * size, MPI_BYTE, &vector);
        MPI_Type_commit(&vector);
        CHECK(MPI_File_set_view(file, rank * 64, MPI_BYTE, vector, "native", MPI_INFO_NULL));
        MPI_Type_free(&vector);
        FAILS(MPI_ERR_NO_SPACE, MPI_File_write_all(file, data, len, MPI_BYTE, &status));
        MPI_Request request;
        int code = MPI_File_iwrite_at(file, (MPI_Offset)rank * len, data, len, MPI_BYTE, &request);
        if (code == MPI_SUCCESS) {
            FAILS(MPI_ERR_NO_SPACE, MPI_Wait(&request, &status));
        }
        CHECK(MPI_File_close(&file));
    }
    free(data);
    return passed();
}
