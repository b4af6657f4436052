// Threads that use files at the same time: files of their own, where no call on one waits for calls on another, and one
// file of all. With an argument `in-turn` they promise MPI to call it one after the other.
#include "check.h"
#include <pthread.h>

enum { THREADS = 2, ROUNDS = 20, LEN = 10000 };

struct part {
    MPI_Comm comm;
    char name[4096];
    int number, in_turn;
};

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static MPI_File common;

// Opens and closes files with communicators of the same processes.
static void *open_many(void *argument) {
    struct part *part = argument;
    int rank;
    MPI_Comm_rank(part->comm, &rank);
    // Ranks whose threads come in another order are rare.
    for (int round = 0; round < ROUNDS * 10; round++) {
        MPI_File file;
        char byte = round, back = 0;
        CHECK(MPI_File_open(part->comm, part->name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
        CHECK(MPI_File_write_at_all(file, rank, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE));
        CHECK(MPI_File_read_at(file, rank, &back, 1, MPI_BYTE, MPI_STATUS_IGNORE));
        EXPECT(back == byte);
        CHECK(MPI_File_close(&file));
    }
    return NULL;
}

// Writes and reads places of its own in a file of all threads.
static void *share(void *argument) {
    struct part *part = argument;
    int rank, size;
    MPI_Comm_rank(part->comm, &rank);
    MPI_Comm_size(part->comm, &size);
    for (int round = 0; round < ROUNDS * 50; round++) {
        MPI_Offset offset = (MPI_Offset)((round * THREADS + part->number) * size + rank) * sizeof round;
        int back = -1;
        if (part->in_turn) pthread_mutex_lock(&turn);
        CHECK(MPI_File_write_at(common, offset, &round, 1, MPI_INT, MPI_STATUS_IGNORE));
        CHECK(MPI_File_read_at(common, offset, &back, 1, MPI_INT, MPI_STATUS_IGNORE));
        if (part->in_turn) pthread_mutex_unlock(&turn);
        EXPECT(back == round);
    }
    return NULL;
}

static void in_threads(void *(*work)(void *), struct part *parts) {
    pthread_t threads[THREADS];
    for (int n = 0; n < THREADS; n++) pthread_create(&threads[n], NULL, work, &parts[n]);
    for (int n = 0; n < THREADS; n++) pthread_join(threads[n], NULL);
}

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
    int provided, in_turn = argc > 2, level = in_turn ? MPI_THREAD_SERIALIZED : MPI_THREAD_MULTIPLE;
    MPI_Init_thread(&argc, &argv, level, &provided);
    if (provided >= level) {
        struct part parts[THREADS];
        for (int n = 0; n < THREADS; n++) {
            MPI_Comm_dup(MPI_COMM_WORLD, &parts[n].comm);
            parts[n].number = n;
            parts[n].in_turn = in_turn;
            snprintf(parts[n].name, sizeof parts[n].name, "%s.%d", argv[1], n);
        }
        if (!in_turn) {
            in_threads(work, parts);
            in_threads(open_many, parts);
        }
        CHECK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &common));
        in_threads(share, parts);
        CHECK(MPI_File_close(&common));
        for (int n = 0; n < THREADS; n++) MPI_Comm_free(&parts[n].comm);
    }
    return passed();
}
