/* Not one of the examples: threads that write to places of a shared file, read some of it back, and sync now and then.
   scattered FILE THREADS WRITES */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int file, writes;

static void *work(void *given) {
    uint64_t state = 88172645463325252ull + (uintptr_t)given;
    off_t base = (off_t)(uintptr_t)given << 22;
    char bytes[700];
    for (int n = 0; n < writes; n++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        size_t length = 100 + state % 600;
        memset(bytes, (int)(state & 127), length);
        volatile double sum = 0;
        for (int i = 0; i < 20000; i++) sum += i;
        if (pwrite(file, bytes, length, base + (off_t)(n / 8 * 4096 + n % 8 * 512)) < 0) abort();
        if (n % 50 == 49 && pread(file, bytes, 512, base + (off_t)(n / 16 * 4096)) < 0) abort();
        if (n % 400 == 399 && fdatasync(file)) abort();
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    int threads = atoi(argv[2]);
    writes = atoi(argv[3]);
    file = open(argv[1], O_CREAT | O_TRUNC | O_RDWR, 0644);
    if (file < 0 || threads > 64) return 1;
    pthread_t all[64];
    for (long n = 0; n < threads; n++) pthread_create(&all[n], 0, work, (void *)n);
    for (int n = 0; n < threads; n++) pthread_join(all[n], 0);
    return close(file) ? 1 : 0;
}
