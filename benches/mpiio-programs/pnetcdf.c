// Blocks of three-dimensional variables of PnetCDF, a collective call each or all at once at the end, as simulations do.
//
//   pnetcdf FILE EDGE VARIABLES blocking|nonblocking      EDGE is that of the block of a rank
#include "told.h"

#include <pnetcdf.h>

static void good(int status, const char *what) {
    if (status != NC_NOERR) fprintf(stderr, "%s\n", ncmpi_strerror(status));
    check(status == NC_NOERR, what);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size, grid[3] = {0, 0, 0}, dimensions[3];
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    check(argc == 5, "pnetcdf FILE EDGE VARIABLES blocking|nonblocking");
    MPI_Dims_create(size, 3, grid);
    MPI_Offset edge = atoi(argv[2]), count[3] = {edge, edge, edge};
    int variables = atoi(argv[3]), later = argv[4][0] == 'n';
    MPI_Offset start[3] = {rank / (grid[1] * grid[2]) * edge, rank / grid[2] % grid[1] * edge, rank % grid[2] * edge};
    size_t elements = (size_t)(edge * edge * edge);
    int *memory = malloc(elements * (size_t)variables * sizeof *memory), *ids = malloc((size_t)variables * sizeof *ids);
    int *requests = malloc((size_t)variables * sizeof *requests), *statuses = malloc((size_t)variables * sizeof *statuses);
    for (size_t i = 0; i < elements * (size_t)variables; i++) memory[i] = (int)(i * 3) + rank;
    for (int reads = 0; reads < 2; reads++) {
        int file;
        if (reads) memset(memory, 0, elements * (size_t)variables * sizeof *memory);
        begin();
        if (reads) {
            good(ncmpi_open(MPI_COMM_WORLD, argv[1], NC_NOWRITE, MPI_INFO_NULL, &file), "open");
        } else {
            good(ncmpi_create(MPI_COMM_WORLD, argv[1], NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &file), "create");
            for (int i = 0; i < 3; i++) {
                char name[2] = {(char)('x' + i), 0};
                good(ncmpi_def_dim(file, name, edge * grid[i], &dimensions[i]), "dimension");
            }
            for (int i = 0; i < variables; i++) {
                char name[16];
                snprintf(name, sizeof name, "v%d", i);
                good(ncmpi_def_var(file, name, NC_INT, 3, dimensions, &ids[i]), "variable");
            }
            good(ncmpi_enddef(file), "enddef");
        }
        for (int i = 0; i < variables; i++) {
            int *mine = memory + elements * (size_t)i;
            if (reads && later) good(ncmpi_iget_vara_int(file, ids[i], start, count, mine, &requests[i]), "iget");
            if (reads && !later) good(ncmpi_get_vara_int_all(file, ids[i], start, count, mine), "get");
            if (!reads && later) good(ncmpi_iput_vara_int(file, ids[i], start, count, mine, &requests[i]), "iput");
            if (!reads && !later) good(ncmpi_put_vara_int_all(file, ids[i], start, count, mine), "put");
        }
        if (later) good(ncmpi_wait_all(file, variables, requests, statuses), "wait");
        good(ncmpi_close(file), "close");
        tell(reads ? "read" : "write", (long long)(elements * sizeof *memory) * size * variables);
    }
    for (size_t i = 0; i < elements * (size_t)variables; i++) check(memory[i] == (int)(i * 3) + rank, "what is read");
    free(statuses);
    free(requests);
    free(ids);
    free(memory);
    MPI_Finalize();
    return 0;
}
