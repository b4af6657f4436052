/* Threads that are cancelled in calls of ours and of the C library. */
#include "say.h"
#include <pthread.h>

static int pipe_ends[2], file;
static int begun, cleaned;

static void clean(void *argument)
{
    (void)argument;
    __atomic_add_fetch(&cleaned, 1, __ATOMIC_SEQ_CST);
}

static void *wait_in_read(void *argument)
{
    (void)argument;
    char byte;
    pthread_cleanup_push(clean, NULL);
    __atomic_add_fetch(&begun, 1, __ATOMIC_SEQ_CST);
    if (read(pipe_ends[0], &byte, 1) < 0)
        return NULL;
    pthread_cleanup_pop(0);
    return NULL;
}

static void *write_for_ever(void *argument)
{
    (void)argument;
    pthread_cleanup_push(clean, NULL);
    __atomic_add_fetch(&begun, 1, __ATOMIC_SEQ_CST);
    for (;;) {
        pwrite(file, "x", 1, 5);
        pthread_testcancel();
    }
    pthread_cleanup_pop(0);
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    void *result;
    SAY(pipe(pipe_ends));
    file = open("file", O_RDWR | O_CREAT, 0644);
    pthread_create(&threads[0], NULL, wait_in_read, NULL);
    pthread_create(&threads[1], NULL, write_for_ever, NULL);
    while (__atomic_load_n(&begun, __ATOMIC_SEQ_CST) < 2)
        usleep(1000);
    for (int n = 0; n < 2; n++) {
        SAY(pthread_cancel(threads[n]));
        pthread_join(threads[n], &result);
        SAY(result == PTHREAD_CANCELED);
    }
    SAY(cleaned);
    SAY(write(file, "still works", 11));
    show("file");
    pid_t child = fork();
    if (child == 0)
        _exit(write(file, "!", 1) == 1 ? 0 : 1);
    int status;
    waitpid(child, &status, 0);
    SAY(status);
    return 0;
}
