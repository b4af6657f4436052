/* Threads on one file and on their own, and processes made in between. */
#include "say.h"
#include <pthread.h>

static int shared;

static void *work(void *argument)
{
    long number = (long)argument;
    char name[16], block[64], back[64];
    snprintf(name, sizeof name, "t%ld", number);
    memset(block, 'a' + (int)number, sizeof block);
    for (int round = 0; round < 200; round++) {
        int own = open(name, O_RDWR | O_CREAT | O_APPEND, 0644), twin = dup(own);
        if (own < 0 || twin < 0 || write(own, block, sizeof block) != sizeof block)
            return (void *)1;
        if (pwrite(shared, block, sizeof block, (number * 200 + round) * 64) != sizeof block)
            return (void *)2;
        close(own);
        if (pread(twin, back, sizeof back, round * 64) != sizeof back || memcmp(block, back, 64))
            return (void *)3;
        close(twin);
    }
    return NULL;
}

/* Another thread closes one descriptor of a file while this one uses the other. */
static int ends[2], stop;

static void *use(void *argument)
{
    (void)argument;
    char byte;
    while (!__atomic_load_n(&stop, __ATOMIC_SEQ_CST))
        if (pread(ends[1], &byte, 1, 0) != 1 || byte != 'u')
            return (void *)1;
    return NULL;
}

static void *streams(void *argument)
{
    (void)argument;
    for (int round = 0; round < 300; round++) {
        FILE *f = fopen("streamed", "a");
        if (!f)
            return (void *)1;
        fprintf(f, "%d\n", round);
        if (round % 10 == 0)
            fflush(NULL);
        fclose(f);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[4], other;
    void *result;
    shared = open("shared", O_RDWR | O_CREAT, 0644);
    for (long n = 0; n < 4; n++)
        pthread_create(&threads[n], NULL, work, (void *)n);
    for (int n = 0; n < 4; n++) {
        pthread_join(threads[n], &result);
        SAY((long)result);
    }
    /* At the position each write is whole. */
    int used = open("used", O_RDWR | O_CREAT, 0644);
    SAY(write(used, "u", 1));
    ends[0] = used;
    ends[1] = dup(used);
    pthread_create(&other, NULL, use, NULL);
    SAY(close(used));
    for (int round = 0; round < 300; round++) {
        int wrong = open("wrong", O_RDWR | O_CREAT, 0644);
        pwrite(wrong, "w", 1, 0);
        int third = dup(ends[1]);
        close(third);
        close(wrong);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_SEQ_CST);
    pthread_join(other, &result);
    SAY((long)result);

    /* Processes are copied while streams are written. */
    pthread_create(&other, NULL, streams, NULL);
    int bad = 0;
    for (int round = 0; round < 40; round++) {
        pid_t child = fork();
        if (child == 0) {
            int own = open("forked", O_WRONLY | O_CREAT | O_APPEND, 0644);
            _exit(write(own, "f", 1) == 1 ? 0 : 1);
        }
        int status;
        waitpid(child, &status, 0);
        bad += status != 0;
    }
    SAY(bad);
    pthread_join(other, &result);
    SAY((long)result);
    struct stat st;
    SAY(stat("forked", &st));
    SAY(st.st_size);
    return 0;
}
