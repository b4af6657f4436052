// The rate of the file system with plain system calls, as a limit for all implementations: one
// process writes a new file, as many as there are cores read it, in requests of 128 KiB from and to
// memory that stays in the caches.
//
//   raw FILE BYTES
//
// One process, because file systems admit one writer to a file at a time: two were slower wherever
// it was tried.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { REQUEST = 128 << 10 };

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void check(int good, const char *what) {
    if (good) return;
    perror(what);
    exit(1);
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "raw FILE BYTES\n");
        return 2;
    }
    long long bytes = atoll(argv[2]);
    char *memory = aligned_alloc(4096, REQUEST);
    check(memory != NULL, "memory");
    memset(memory, 7, REQUEST);

    double start = now();
    int file = open(argv[1], O_CREAT | O_RDWR, 0600);
    check(file >= 0, "open");
    for (long long at = 0; at < bytes; at += REQUEST) check(pwrite(file, memory, REQUEST, at) == REQUEST, "pwrite");
    check(close(file) == 0, "close");
    printf("write %lld %.9f\n", bytes, now() - start);
    fflush(stdout);

    // All begin at the same time: when the last writing end of a pipe is closed.
    int processes = (int)sysconf(_SC_NPROCESSORS_ONLN), gate[2];
    check(pipe(gate) == 0, "pipe");
    for (int i = 0; i < processes; i++) {
        int child = fork();
        check(child >= 0, "fork");
        if (child) continue;
        close(gate[1]);
        memset(memory, i, REQUEST);
        char none;
        check(read(gate[0], &none, 1) == 0, "gate");
        file = open(argv[1], O_RDONLY);
        check(file >= 0, "open");
        for (long long at = (long long)i * REQUEST; at < bytes; at += (long long)processes * REQUEST)
            check(pread(file, memory, REQUEST, at) == REQUEST, "pread");
        check(close(file) == 0, "close");
        _exit(0);
    }
    usleep(20000);
    start = now();
    close(gate[1]);
    for (int i = 0; i < processes; i++) {
        int status;
        check(wait(&status) > 0 && status == 0, "a reader");
    }
    printf("read %lld %.9f\n", bytes, now() - start);
    return 0;
}
