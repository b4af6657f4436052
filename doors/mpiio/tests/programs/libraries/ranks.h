// What the programs of I/O libraries have in common: a call that fails ends the job, and says where.
#ifndef RANKS_H
#define RANKS_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

static inline void start(int *argc, char ***argv) {
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
}

static inline void give_up(const char *file, int line, const char *what, const char *why) {
    fprintf(stderr, "%s:%d: rank %d: %s: %s\n", file, line, rank, what, why);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

#define EXPECT(condition)                                                       \
    do {                                                                        \
        if (!(condition)) give_up(__FILE__, __LINE__, #condition, "not so");    \
    } while (0)

#endif
