// Threads that use files of their own at the same time: no call on one file waits for calls on another.
#include "check.h"
#include <pthread.h>

enum { THREADS = 2, ROUNDS = 20, LEN = 10000 };

struct part {
    MPI_Comm comm;
    char name[4096];
    int number;
};

static void *work(void *argument) {
    struct part *part = argument;
    int rank, size;
    MPI_Comm_rank(part->comm, &rank);
    MPI_Comm_size(part->comm, &size);
    MPI_File file;
    MPI_Status status;
    MPI_Request request;
    char *data = malloc(LEN), *back = malloc(LEN);
    CHECK(MPI_File_open(part->comm, part->name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Offset offset = (MPI_Offset)(round * size + rank) * LEN;
        memset(data, part->number * 100 + round * size + rank, LEN);
        CHECK(MPI_File_write_at_all(file, offset, data, LEN, MPI_BYTE, &status));
        CHECK(MPI_File_iread_at(file, offset, back, LEN, MPI_BYTE, &request));
        CHECK(MPI_Wait(&request, &status));
        EXPECT(count_of(&status, MPI_BYTE) == LEN && memcmp(data, back, LEN) == 0);
    }
    CHECK(MPI_File_close(&file));
    free(data);
    free(back);
    return NULL;
}

int main(int argc, char **argv) {
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    if (provided == MPI_THREAD_MULTIPLE) {
        pthread_t threads[THREADS];
        struct part parts[THREADS];
        for (int n = 0; n < THREADS; n++) {
            MPI_Comm_dup(MPI_COMM_WORLD, &parts[n].comm);
            parts[n].number = n;
            snprintf(parts[n].name, sizeof parts[n].name, "%s.%d", argv[1], n);
        }
        for (int n = 0; n < THREADS; n++) pthread_create(&threads[n], NULL, work, &parts[n]);
        for (int n = 0; n < THREADS; n++) pthread_join(threads[n], NULL);
        for (int n = 0; n < THREADS; n++) MPI_Comm_free(&parts[n].comm);
    }
    return passed();
}
