/* Writes that are acknowledged and cannot be brought to storage: the program does not close its file, or does so in a
 * way that has no answer. The argument says how it ends. */
#include "say.h"
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static void *elsewhere(void *argument)
{
    (void)argument;
    exit(0);
}

static void bye(void)
{
    write(1, "bye\n", 4);
}

int main(int count, char **arguments)
{
    const char *how = count > 1 ? arguments[1] : "return";
    const char *name = count > 2 ? arguments[2] : "out";
    char record[100];
    memset(record, 'x', sizeof record);
    int file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
    int acknowledged = 0;
    for (int n = 0; n < 3000; n++)
        acknowledged += write(file, record, sizeof record) == sizeof record;
    printf("acknowledged %d\n", acknowledged);
    fflush(stdout);
    if (strcmp(how, "return") == 0)
        return 0;
    if (strcmp(how, "atexit") == 0) {
        atexit(bye);
        printf("buffered\n");
        exit(0);
    }
    if (strcmp(how, "status 256") == 0)
        exit(256);
    if (strcmp(how, "status 3") == 0)
        exit(3);
    if (strcmp(how, "_exit") == 0)
        _exit(0);
    if (strcmp(how, "_Exit") == 0)
        _Exit(0);
    if (strcmp(how, "quick") == 0)
        quick_exit(0);
    if (strcmp(how, "syscall") == 0)
        syscall(SYS_exit_group, 0);
    if (strcmp(how, "thread") == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, elsewhere, NULL);
        pthread_join(thread, NULL);
    }
    if (strcmp(how, "TERM") == 0)
        raise(SIGTERM);
    if (strcmp(how, "abort") == 0)
        abort();
    if (strcmp(how, "exec") == 0)
        execl("/bin/true", "true", (char *)NULL);
    if (strcmp(how, "close") == 0) {
        int closed = close(file);
        printf("close %d %d\n", closed, closed < 0 ? errno : 0);
        return 0;
    }
    if (strcmp(how, "dup2") == 0) {
        dup2(0, file);
        return 0;
    }
    if (strcmp(how, "close_range") == 0) {
        close_range(file, file, 0);
        return 0;
    }
    if (strcmp(how, "unlink") == 0) {
        unlink(name);
        return 0;
    }
    if (strcmp(how, "fork") == 0) {
        /* A child that has written nothing has lost nothing. */
        int child = fork(), status = 0;
        if (child == 0)
            _exit(0);
        waitpid(child, &status, 0);
        printf("child %d\n", WEXITSTATUS(status));
        fflush(stdout);
        return 0;
    }
    return 9;
}
