/* Every call that returns a descriptor returns the lowest number that is free, whatever a stage has open itself. The
   program prints numbers only; it tells them to a file that it was given open, so that the standard streams can be closed. */
#include "say.h"
#include <dirent.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>

#define TOLD 200

static void tell(const char *form, ...)
{
    char line[256];
    va_list rest;
    va_start(rest, form);
    int length = vsnprintf(line, sizeof line, form, rest);
    va_end(rest);
    if (write(TOLD, line, (size_t)length) != length)
        _exit(90);
}

#define NUMBER(call) (tell("%s = %d\n", #call, (int)(call)))

/* Writes to it, so that stages have something to do. */
static void use(int fd)
{
    char text[400];
    memset(text, 'a' + fd % 26, sizeof text);
    if (write(fd, text, sizeof text) < 0)
        tell("write: %s\n", strerror(errno));
}

static int made(const char *name)
{
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
    use(fd);
    return fd;
}

static void pair(const char *what, int result, const int *ends)
{
    tell("%s = %d: %d %d\n", what, result, ends[0], ends[1]);
}

static int child(const char *name)
{
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    char *words[] = {"sh", "-c", "echo out; echo error >&2; exec 5<in; cat <&5; : >of-shell; echo >>there", NULL};
    char *environment[] = {"PATH=/usr/bin:/bin", NULL};
    pid_t process;
    int status = posix_spawn(&process, "/bin/sh", &actions, NULL, words, environment);
    posix_spawn_file_actions_destroy(&actions);
    if (status)
        return -status;
    waitpid(process, &status, 0);
    return WEXITSTATUS(status);
}

static void *opener(void *unused)
{
    (void)unused;
    NUMBER(made("of-thread"));
    return NULL;
}

static void everything(void)
{
    int ends[2];
    struct stat found;
    int first = made("a");
    tell("a = %d\n", first);
    NUMBER(open("a", O_RDONLY));
    NUMBER(open("there", O_RDWR));
    NUMBER(open("there", O_RDONLY | O_CLOEXEC));
    NUMBER(open("none", O_RDONLY));
    NUMBER(openat(AT_FDCWD, "b", O_WRONLY | O_CREAT, 0600));
    NUMBER(creat("c", 0600));
    NUMBER(open("there2", O_WRONLY | O_TRUNC));
    NUMBER(open("there3", O_WRONLY | O_APPEND));
#ifdef SYS_openat2
    struct { uint64_t flags, mode, resolve; } how = {O_RDWR | O_CREAT, 0600, 0};
    NUMBER(syscall(SYS_openat2, AT_FDCWD, "d", &how, sizeof how));
#endif
    NUMBER(syscall(SYS_openat, AT_FDCWD, "e", O_RDWR | O_CREAT, 0600));
    NUMBER(dup(first));
    NUMBER(fcntl(first, F_DUPFD, 0));
    NUMBER(fcntl(first, F_DUPFD_CLOEXEC, 20));
    NUMBER(dup2(first, 30));
    NUMBER(dup3(first, 31, O_CLOEXEC));
    use(30);
    /* Gaps are filled from below. */
    close(first + 1);
    close(first + 3);
    NUMBER(made("f"));
    NUMBER(open("there", O_RDWR));
    NUMBER(made("g"));
    close(first + 2);
    NUMBER(open("there4", O_RDWR));
    close(first + 2);
    pair("pipe", pipe(ends), ends);
    close(ends[0]);
    NUMBER(made("h"));
    pair("pipe2", pipe2(ends, O_CLOEXEC), ends);
    pair("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, ends), ends);
    int listening = socket(AF_UNIX, SOCK_STREAM, 0);
    tell("socket = %d\n", listening);
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};
    int calling = socket(AF_UNIX, SOCK_STREAM, 0);
    tell("socket = %d\n", calling);
    tell("bind = %d\n", bind(listening, (struct sockaddr *)&address, sizeof address) | listen(listening, 1));
    tell("connect = %d\n", connect(calling, (struct sockaddr *)&address, sizeof address));
    NUMBER(accept(listening, NULL, NULL));
    close(first + 4);
    NUMBER(open("there5", O_RDWR));
    NUMBER(memfd_create("memory", 0));
    NUMBER(epoll_create1(0));
    NUMBER(eventfd(0, 0));
    NUMBER(timerfd_create(CLOCK_MONOTONIC, 0));
    NUMBER(inotify_init());
    sigset_t none;
    sigemptyset(&none);
    NUMBER(signalfd(-1, &none, 0));
    NUMBER(open(".", O_TMPFILE | O_RDWR, 0600));
    NUMBER(open("a", O_PATH));
    NUMBER(open(".", O_DIRECTORY | O_RDONLY));
    DIR *directory = opendir(".");
    NUMBER(dirfd(directory));
    while (readdir(directory))
        ;
    FILE *stream = fopen("i", "w+");
    NUMBER(fileno(stream));
    fprintf(stream, "stream\n");
    FILE *other = fopen("there6", "r+");
    NUMBER(fileno(other));
    closedir(directory);
    fclose(stream);
    NUMBER(made("j"));
    stream = freopen("k", "w", other);
    NUMBER(fileno(stream));
    fclose(stream);
    char name[] = "tmp-XXXXXX";
    int temporary = mkstemp(name);
    tell("mkstemp = %d\n", temporary);
    use(temporary);
    unlink(name);
    stream = tmpfile();
    NUMBER(fileno(stream));
    NUMBER(shm_open("/striate-numbers-test", O_RDWR | O_CREAT | O_EXCL, 0600));
    shm_unlink("/striate-numbers-test");
    /* What stages do with other files on the way. */
    NUMBER(stat("a", &found));
    NUMBER(rename("b", "b2"));
    NUMBER(unlink("c"));
    NUMBER(truncate("there", 10));
    NUMBER(chmod("there", 0640));
    NUMBER(link("there", "linked"));
    NUMBER(made("l"));
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    NUMBER(fcntl(first, F_SETLK, &lock));
    void *memory = mmap(NULL, 100, PROT_READ, MAP_SHARED, first, 0);
    NUMBER(memory == MAP_FAILED);
    NUMBER(made("m"));
    pthread_t thread;
    pthread_create(&thread, NULL, opener, NULL);
    pthread_join(thread, NULL);
    NUMBER(made("n"));
    NUMBER(child("of-child"));
    NUMBER(made("o"));
    pid_t process = fork();
    if (process == 0) {
        NUMBER(made("p"));
        close(first);
        NUMBER(made("q"));
        NUMBER(open("there", O_RDWR));
        _exit(0);
    }
    waitpid(process, NULL, 0);
    NUMBER(made("r"));
    for (int fd = first; fd < 80; fd++)
        close(fd);
    for (int n = 0; n < 30; n++) {
        char many[16];
        snprintf(many, sizeof many, "many%d", n);
        int fd = made(many);
        tell("%s = %d\n", many, fd);
        if (n % 3)
            close(fd);
    }
    for (int fd = first; fd < 80; fd++)
        close(fd);
    /* Many are closed and moved behind the program's back: nothing of that has a number of its own. */
    for (int n = 0; n < 150; n++) {
        char many[16];
        snprintf(many, sizeof many, "moved%d", n % 40);
        close(made(many));
        int one = dup(TOLD);
        if (one != first)
            tell("%d = %d\n", n, one);
        close(one);
    }
    /* As a daemon does it: what stages have open is not there for the program. */
    int last = made("last");
    for (int fd = last + 1; fd < 1024; fd++)
        if (fd != TOLD && !close(fd))
            tell("%d was open\n", fd);
    use(last);
    NUMBER(made("after"));
    NUMBER(stat("last", &found));
    tell("size %d\n", (int)found.st_size);
    closefrom(TOLD + 1);
    use(last);
    NUMBER(close_range(TOLD + 1, ~0u, 0));
    use(last);
    NUMBER(fcntl(last + 1, F_GETFD));
    NUMBER(close(last));
    /* As a shell does it. */
    int kept = fcntl(1, F_DUPFD, 10);
    close(1);
    int out = open("out", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    printf("printed\n");
    fflush(stdout);
    tell("out = %d\n", out);
    if (kept >= 0)
        dup2(kept, 1);
}

static void put_there(void)
{
    static const char *names[] = {"there", "there2", "there3", "there4", "there5", "there6", "in"};
    for (int n = 0; n < 7; n++) {
        int fd = open(names[n], O_WRONLY | O_CREAT, 0644);
        if (fd < 0 || write(fd, "what was there before\n", 22) != 22 || close(fd))
            _exit(91);
    }
}

int main(int count, char **words)
{
    /* "put": the files, natively. Else which of the standard streams are closed from the start, and how many
       descriptors there may be; and the program is started again, so that the library starts without them. */
    if (!strcmp(words[1], "put")) {
        put_there();
        int told = open("told", O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0644);
        dup2(told, TOLD);
        close(told);
        for (const char *one = words[2]; *one; one++)
            if (*one >= '0' && *one <= '2')
                close(*one - '0');
        for (int fd = 3; fd < TOLD; fd++)
            close(fd);
        setenv("LD_PRELOAD", getenv("LIBRARY") ? getenv("LIBRARY") : "", 1);
        execl("/proc/self/exe", words[0], "go", NULL);
        _exit(92);
    }
    (void)count;
    everything();
    return 0;
}
