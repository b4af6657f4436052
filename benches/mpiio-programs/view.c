// A view of small blocks that the ranks take in turn: one call writes, another reads.
//
//   view FILE BLOCK BYTES_OF_A_RANK collective|independent
#include "told.h"

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    check(argc == 5, "view FILE BLOCK BYTES collective|independent");
    int block = atoi(argv[2]), bytes = atoi(argv[3]), together = argv[4][0] == 'c';
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_ARE_FATAL);
    MPI_Datatype mine;
    MPI_Type_vector(bytes / block, block, block * size, MPI_BYTE, &mine);
    MPI_Type_commit(&mine);
    char *memory = malloc((size_t)bytes);
    for (int i = 0; i < bytes; i++) memory[i] = (char)(i * 7 + rank);
    for (int reads = 0; reads < 2; reads++) {
        int mode = reads ? MPI_MODE_RDONLY : MPI_MODE_RDWR | MPI_MODE_CREATE;
        if (reads) memset(memory, 0, (size_t)bytes);
        MPI_File file;
        begin();
        MPI_File_open(MPI_COMM_WORLD, argv[1], mode, MPI_INFO_NULL, &file);
        MPI_File_set_view(file, (MPI_Offset)rank * block, MPI_BYTE, mine, "native", MPI_INFO_NULL);
        if (reads && together) MPI_File_read_all(file, memory, bytes, MPI_BYTE, MPI_STATUS_IGNORE);
        if (reads && !together) MPI_File_read(file, memory, bytes, MPI_BYTE, MPI_STATUS_IGNORE);
        if (!reads && together) MPI_File_write_all(file, memory, bytes, MPI_BYTE, MPI_STATUS_IGNORE);
        if (!reads && !together) MPI_File_write(file, memory, bytes, MPI_BYTE, MPI_STATUS_IGNORE);
        MPI_File_close(&file);
        tell(reads ? "read" : "write", (long long)bytes * size);
    }
    for (int i = 0; i < bytes; i++) check(memory[i] == (char)(i * 7 + rank), "what is read");
    free(memory);
    MPI_Type_free(&mine);
    MPI_Finalize();
    return 0;
}
