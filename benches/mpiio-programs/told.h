// Measuring and printing of the programs: seconds of the slowest rank, as lines of `operation bytes
// seconds`.
#ifndef TOLD_H
#define TOLD_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double began;

static inline void begin(void) {
    MPI_Barrier(MPI_COMM_WORLD);
    began = MPI_Wtime();
}

static inline void tell(const char *operation, long long bytes) {
    double mine = MPI_Wtime() - began, slowest;
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("%s %lld %.9f\n", operation, bytes, slowest);
}

static inline void check(int good, const char *what) {
    if (good) return;
    fprintf(stderr, "%s failed\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

#endif
