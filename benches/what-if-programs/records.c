/* A program that writes a small record after each step, for which it computes or waits (for an instrument):
   records FILE STEPS BYTES MICROSECONDS computes|waits */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void compute(double microseconds) {
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - begin.tv_sec) * 1e6 + (now.tv_nsec - begin.tv_nsec) / 1e3 < microseconds);
}

static void wait_for(double microseconds) {
    struct timespec time = {0, (long)(microseconds * 1e3)};
    nanosleep(&time, 0);
}

int main(int argc, char **argv) {
    if (argc != 6) return 2;
    int steps = atoi(argv[2]), bytes = atoi(argv[3]);
    double microseconds = atof(argv[4]);
    void (*step_takes)(double) = strcmp(argv[5], "waits") ? compute : wait_for;
    char *record = calloc(1, bytes);
    int file = open(argv[1], O_CREAT | O_TRUNC | O_WRONLY, 0644);
    if (file < 0 || !record) return 1;
    for (int step = 0; step < steps; step++) {
        if (microseconds > 0) step_takes(microseconds);
        memset(record, 'a' + step % 26, bytes);
        if (write(file, record, bytes) != bytes) return 1;
    }
    return close(file) ? 1 : 0;
}
