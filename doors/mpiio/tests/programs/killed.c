// Rank 1 dies before a collective call that the others are in: the launcher ends the job.
#include "check.h"
#include <signal.h>
#include <unistd.h>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, data[1024] = {0};
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_File file;
    CHECK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    CHECK(MPI_File_write_at_all(file, rank * sizeof data, data, 1024, MPI_INT, MPI_STATUS_IGNORE));
    if (rank == 1) kill(getpid(), SIGKILL);
    MPI_File_write_at_all(file, rank * sizeof data, data, 1024, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
    return passed();
}
