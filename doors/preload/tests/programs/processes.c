/* Other processes with the same files. */
#include "say.h"
#include <spawn.h>
#include <sched.h>

extern char **environ;

static void wait_for(pid_t child)
{
    int status = 0;
    waitpid(child, &status, 0);
    printf("child: %d\n", status);
    fflush(stdout);
}

int main(int count, char **arguments)
{
    char bytes[100] = {0};
    if (count > 1) {
        /* The program that was started: descriptor 7 is open, or it is not. */
        SAY(lseek(7, 0, SEEK_CUR));
        SAY(write(7, arguments[1], strlen(arguments[1])));
        return 5;
    }
    int a = open("a", O_RDWR | O_CREAT, 0644);
    SAY(write(a, "parent ", 7));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        write(a, "child ", 6);
        lseek(a, -2, SEEK_CUR);
        int own = open("own", O_RDWR | O_CREAT, 0644);
        write(own, "child's own", 11);
        if (fork() == 0) {
            write(own, " and its child's", 16);
            write(a, "grandchild ", 11);
            _exit(0);
        }
        wait(NULL);
        SAY(lseek(own, 0, SEEK_CUR));
        SAY(lseek(a, 0, SEEK_CUR));
        exit(3);
    }
    wait_for(child);
    SAY(lseek(a, 0, SEEK_CUR));
    SAY(write(a, "parent again ", 13));
    show("a");
    show("own");

    /* On the parent's memory. */
    int b = open("b", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    SAY(write(b, "before ", 7));
    fflush(stdout);
    child = vfork();
    if (child == 0) {
        dup2(b, 7);
        int other = open("opened in between", O_WRONLY | O_CREAT, 0644);
        write(other, "x", 1);
        close(other);
        execl("/proc/self/exe", "self", "by vfork ", NULL);
        _exit(127);
    }
    wait_for(child);
    SAY(write(7, "x", 1));
    SAY(write(b, "after ", 6));
    int c = open("c", O_RDWR | O_CREAT, 0644);
    SAY(write(c, "c", 1));
    show("b");
    fflush(stdout);
    child = vfork();
    if (child == 0)
        _exit(9);
    wait_for(child);
    SAY(write(c, "cc", 2));
    show("c");

    /* Started. */
    SAY(lseek(b, 2, SEEK_SET));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, b, 7);
    char *argv[] = {"self", "by spawn ", NULL};
    fflush(stdout);
    SAY(posix_spawn(&child, "/proc/self/exe", &actions, NULL, argv, environ));
    wait_for(child);
    SAY(write(b, "after spawn ", 12));
    show("b");
    int d = open("d", O_RDWR | O_CREAT, 0644);
    SAY(write(d, "for the shell ", 14));
    SAY(dup2(d, 8));
    fflush(stdout);
    SAY(system("cat d; echo from the shell >&8"));
    SAY(write(d, "after\n", 6));
    show("d");
    FILE *e = fopen("e", "w");
    fprintf(e, "for the pipe\n");
    fflush(e);
    FILE *pipe = popen("cat e", "r");
    SAY(fgets(bytes, sizeof bytes, pipe) != NULL);
    printf("%s", bytes);
    SAY(pclose(pipe));
    fclose(e);

    /* A stream in two processes. */
    FILE *f = fopen("f", "w");
    fprintf(f, "once ");
    fflush(f);
    fprintf(f, "twice ");
    fflush(stdout);
    child = fork();
    if (child == 0) {
        fprintf(f, "child ");
        exit(0);
    }
    wait_for(child);
    fprintf(f, "parent ");
    fclose(f);
    show("f");

    /* In the place of this program, with its descriptors. */
    int g = open("g", O_RDWR | O_CREAT | O_TRUNC, 0644);
    SAY(write(g, "before ", 7));
    SAY(dup2(g, 7));
    SAY(execl("/does/not/exist", "x", NULL));
    SAY(write(g, "still here ", 11));
    fflush(stdout);
    char *next[] = {"self", "by exec ", NULL};
    execv("/proc/self/exe", next);
    return 1;
}
