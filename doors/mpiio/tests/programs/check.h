// What the test programs in C have in common: every check says where it failed, and the program fails with it.
#ifndef CHECK_H
#define CHECK_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;

static inline void failed(const char *file, int line, const char *what, int code) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0, rank = -1;
    if (code != MPI_SUCCESS) MPI_Error_string(code, text, &length);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    fprintf(stderr, "%s:%d: rank %d: %s %s\n", file, line, rank, what, text);
    failures++;
}

// The call succeeds; the program cannot go on otherwise.
#define CHECK(call)                                            \
    do {                                                       \
        int code_ = (call);                                    \
        if (code_ != MPI_SUCCESS) {                            \
            failed(__FILE__, __LINE__, #call, code_);          \
            MPI_Abort(MPI_COMM_WORLD, 1);                      \
        }                                                      \
    } while (0)

// The call fails, with an error of this class.
#define FAILS(class, call)                                                             \
    do {                                                                               \
        int code_ = (call), class_ = MPI_SUCCESS;                                      \
        MPI_Error_class(code_, &class_);                                               \
        if (class_ != (class)) failed(__FILE__, __LINE__, #call " should be " #class ", is", code_); \
    } while (0)

#define EXPECT(condition)                                                        \
    do {                                                                         \
        if (!(condition)) failed(__FILE__, __LINE__, #condition, MPI_SUCCESS);   \
    } while (0)

static inline int count_of(MPI_Status *status, MPI_Datatype datatype) {
    int count = -1;
    MPI_Get_count(status, datatype, &count);
    return count;
}

// Ends the program; the launcher sees the failures of any rank.
static inline int passed(void) {
    int all = 0;
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return all ? 1 : 0;
}

#endif
