/* How processes end. The argument says how. Early and late calls write as well. */
#include "say.h"
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>

static FILE *stream;
static int file;

__attribute__((constructor)) static void early(void)
{
    int early = open("early", O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (write(early, "early ", 6) < 0)
        _exit(1);
    close(early);
    FILE *f = fopen("early stream", "a");
    fputs("early", f);
    fclose(f);
}

static void at_exit(void)
{
    write(file, "at exit ", 8);
    fputs("at exit ", stream);
    int late = open("late", O_WRONLY | O_CREAT, 0644);
    write(late, "late", 4);
}

__attribute__((destructor)) static void late(void)
{
    write(file, "destructor ", 11);
    fputs("destructor ", stream);
    FILE *f = fopen("late stream", "w");
    fputs("late", f);
}

static void handle(int signal)
{
    char text[] = "signal 00 ";
    text[7] = (char)('0' + signal / 10);
    text[8] = (char)('0' + signal % 10);
    write(file, text, 10);
}

static void *write_for_ever(void *argument)
{
    (void)argument;
    for (;;)
        pwrite(file, "x", 1, 100);
}

/* On the smallest stack there is. */
static void *use_names(void *argument)
{
    (void)argument;
    int small = open("small stack", O_WRONLY | O_CREAT, 0644);
    write(small, "small", 5);
    close(small);
    rename("small stack", "renamed");
    struct stat st;
    return (void *)(long)(stat("renamed", &st) == 0 ? st.st_size : -1);
}

static void *elsewhere(void *argument)
{
    (void)argument;
    exit(4);
}

int main(int count, char **arguments)
{
    const char *how = count > 1 ? arguments[1] : "return";
    file = open("file", O_RDWR | O_CREAT | O_TRUNC, 0644);
    stream = fopen("stream", "w");
    atexit(at_exit);
    write(file, "begin ", 6);
    fputs("begin ", stream);
    fflush(stream);
    fputs("buffered ", stream);
    struct sigaction action = {0}, before = {0};
    if (!strcmp(how, "exit"))
        exit(7);
    if (!strcmp(how, "_exit"))
        _exit(8);
    if (!strcmp(how, "_Exit"))
        _Exit(8);
    if (!strcmp(how, "quick"))
        quick_exit(9);
    if (!strcmp(how, "syscall"))
        syscall(SYS_exit_group, 10);
    if (!strcmp(how, "abort"))
        abort();
    if (!strcmp(how, "thread")) {
        pthread_t thread;
        pthread_create(&thread, NULL, elsewhere, NULL);
        pthread_join(thread, NULL);
    }
    if (!strcmp(how, "main thread ends")) {
        write(file, "main ends ", 10);
        pthread_exit(NULL);
    }
    if (!strcmp(how, "TERM"))
        raise(SIGTERM);
    if (!strcmp(how, "kill INT"))
        kill(getpid(), SIGINT);
    if (!strcmp(how, "PIPE")) {
        int ends[2];
        if (pipe(ends))
            return 1;
        close(ends[0]);
        write(ends[1], "x", 1);
    }
    if (!strcmp(how, "SEGV"))
        *(volatile int *)8 = 1;
    if (!strcmp(how, "DFL")) {
        /* Set twice: what was there is told. */
        SAY(sigaction(SIGTERM, NULL, &before));
        SAY(before.sa_handler == SIG_DFL);
        action.sa_handler = handle;
        SAY(sigaction(SIGTERM, &action, &before));
        SAY(before.sa_handler == SIG_DFL);
        raise(SIGTERM);
        action.sa_handler = SIG_DFL;
        action.sa_flags = SA_RESTART;
        SAY(sigaction(SIGTERM, &action, &before));
        SAY(before.sa_handler == handle);
        SAY(sigaction(SIGTERM, NULL, &before));
        SAY(before.sa_handler == SIG_DFL);
        SAY(before.sa_flags & SA_RESTART);
        SAY(signal(SIGINT, SIG_DFL) == SIG_DFL);
        SAY(signal(SIGINT, handle) == SIG_DFL);
        SAY(signal(SIGINT, SIG_DFL) == handle);
        SAY(signal(SIGINT, SIG_IGN) == SIG_DFL);
        raise(SIGINT);
        SAY(signal(SIGINT, SIG_DFL) == SIG_IGN);
        SAY(sigaction(SIGKILL, &action, NULL));
        SAY(sigaction(999, &action, NULL));
        fflush(stdout);
        raise(SIGTERM);
    }
    if (!strcmp(how, "handler")) {
        signal(SIGTERM, handle);
        signal(SIGUSR1, handle);
        raise(SIGTERM);
        raise(SIGUSR1);
        write(file, "after ", 6);
    }
    if (!strcmp(how, "abort handler")) {
        signal(SIGABRT, handle);
        abort();
    }
    if (!strcmp(how, "ALRM")) {
        alarm(1);
        for (;;)
            pwrite(file, "x", 1, 100);
    }
    if (!strcmp(how, "ALRM in malloc")) {
        alarm(1);
        for (unsigned size = 1;; size = size * 3 % 5000 + 1)
            free(malloc(size));
    }
    if (!strcmp(how, "TERM in threads")) {
        pthread_t threads[3];
        for (int n = 0; n < 3; n++)
            pthread_create(&threads[n], NULL, write_for_ever, NULL);
        usleep(100000);
        kill(getpid(), SIGTERM);
        pause();
    }
    if (!strcmp(how, "small stack")) {
        pthread_t thread;
        pthread_attr_t attributes;
        void *result;
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN);
        SAY(pthread_create(&thread, &attributes, use_names, NULL));
        pthread_join(thread, &result);
        SAY((long)result);
    }
    return 6;
}
