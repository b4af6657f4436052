/* What a call costs with the library and without: blocks of 1,000 calls of each in turn. Prints the median
   of a plain call and of the difference, and both for the fastest blocks, which others disturb least. The argument is a file that is there. */
#include "say.h"
#include <dlfcn.h>
#include <time.h>

enum { BLOCK = 1000, ROUNDS = 201 };

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    double difference = *(const double *)a - *(const double *)b;
    return (difference > 0) - (difference < 0);
}

static int file;
static char bytes[64];

#define MEASURE(name, wrapped, real)                                                               \
    do {                                                                                           \
        static double with[ROUNDS], plain[ROUNDS], differences[ROUNDS];                            \
        for (int round = 0; round < ROUNDS; round++) {                                             \
            double start = now();                                                                  \
            for (int call = 0; call < BLOCK; call++)                                               \
                wrapped;                                                                           \
            double middle = now();                                                                 \
            for (int call = 0; call < BLOCK; call++)                                               \
                real;                                                                              \
            double end = now();                                                                    \
            with[round] = (middle - start) / BLOCK;                                                \
            plain[round] = (end - middle) / BLOCK;                                                 \
            differences[round] = with[round] - plain[round];                                       \
        }                                                                                          \
        qsort(with, ROUNDS, sizeof(double), compare);                                              \
        qsort(plain, ROUNDS, sizeof(double), compare);                                             \
        qsort(differences, ROUNDS, sizeof(double), compare);                                       \
        printf("%-12s %8.1f ns %+7.1f ns, of the fastest blocks %8.1f ns %+7.1f ns\n", name,       \
               plain[ROUNDS / 2], differences[ROUNDS / 2], plain[0], with[0] - plain[0]);          \
    } while (0)

int main(int count, char **arguments)
{
    void *libc = dlopen("libc.so.6", RTLD_NOW);
    ssize_t (*real_write)(int, const void *, size_t) = dlsym(libc, "write");
    ssize_t (*real_read)(int, void *, size_t) = dlsym(libc, "read");
    ssize_t (*real_pread)(int, void *, size_t, off_t) = dlsym(libc, "pread");
    ssize_t (*real_pwrite)(int, const void *, size_t, off_t) = dlsym(libc, "pwrite");
    off_t (*real_lseek)(int, off_t, int) = dlsym(libc, "lseek");
    int (*real_fstat)(int, struct stat *) = dlsym(libc, "fstat");
    int (*real_stat)(const char *, struct stat *) = dlsym(libc, "stat");
    int (*real_access)(const char *, int) = dlsym(libc, "access");
    int (*real_open)(const char *, int, ...) = dlsym(libc, "open");
    int (*real_close)(int) = dlsym(libc, "close");
    struct stat st;
    int null = open("/dev/null", O_RDWR);
    file = count > 1 ? open(arguments[1], O_RDWR | O_CREAT, 0644) : null;
    pwrite(file, bytes, sizeof bytes, 0);
    MEASURE("null write", write(null, bytes, 1), real_write(null, bytes, 1));
    MEASURE("null read", read(null, bytes, 1), real_read(null, bytes, 1));
    MEASURE("bad close", close(-1), real_close(-1));
    MEASURE("pread", pread(file, bytes, 8, 0), real_pread(file, bytes, 8, 0));
    MEASURE("pwrite", pwrite(file, bytes, 8, 0), real_pwrite(file, bytes, 8, 0));
    MEASURE("lseek", lseek(file, 0, SEEK_SET), real_lseek(file, 0, SEEK_SET));
    MEASURE("read", read(file, bytes, 0), real_read(file, bytes, 0));
    MEASURE("fstat", fstat(file, &st), real_fstat(file, &st));
    MEASURE("stat", stat("/usr/none", &st), real_stat("/usr/none", &st));
    MEASURE("stat file", stat(arguments[count - 1], &st), real_stat(arguments[count - 1], &st));
    MEASURE("access", access("relative", R_OK), real_access("relative", R_OK));
    MEASURE("open, close", close(open("/dev/null", O_RDWR)), real_close(real_open("/dev/null", O_RDWR)));
    MEASURE("open file", close(open(arguments[count - 1], O_RDONLY)),
            real_close(real_open(arguments[count - 1], O_RDONLY)));
    return 0;
}
