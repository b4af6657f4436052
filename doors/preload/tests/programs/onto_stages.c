/* Descriptors of stages are not the program's: it can neither close them nor put its own in their place, and nothing is
   lost when it tries. Prints how many it has found; what it writes is the same whether there are any or not. */
#define _GNU_SOURCE
#include "say.h"
#include <dirent.h>
#include <sys/syscall.h>

#define OWN 40

static int own[OWN], owned;

static int is_own(int fd)
{
    for (int n = 0; n < owned; n++)
        if (own[n] == fd)
            return 1;
    return fd <= 2;
}

static void put(int n, const char *text)
{
    if (write(own[n], text, strlen(text)) != (ssize_t)strlen(text))
        _exit(90);
}

static void refused(const char *call, int fd, int result)
{
    if (result != -1 || errno != EBADF) {
        printf("%s of %d: %d, %s\n", call, fd, result, strerror(errno));
        exit(91);
    }
}

int main(void)
{
    for (; owned < OWN; owned++) {
        char name[32];
        snprintf(name, sizeof name, owned < OWN / 2 ? "new%d" : "there%d", owned);
        own[owned] = open(name, O_RDWR | O_CREAT, 0644);
        if (own[owned] < 0)
            return 92;
        put(owned, "before\n");
    }
    /* What is closed by exec was not inherited: natively there is none of those. */
    DIR *listing = opendir("/proc/self/fd");
    int found[1024], count = 0;
    for (struct dirent *entry; (entry = readdir(listing));) {
        int fd = atoi(entry->d_name);
        if (entry->d_name[0] != '.' && !is_own(fd) && fd != dirfd(listing) && count < 1024
            && fcntl(fd, F_GETFD) == FD_CLOEXEC)
            found[count++] = fd;
    }
    closedir(listing);
    for (int n = 0; n < count; n++) {
        refused("dup2", found[n], dup2(own[0], found[n]));
        refused("dup3", found[n], dup3(own[1], found[n], O_CLOEXEC));
        refused("dup2 by number", found[n], (int)syscall(SYS_dup2, own[2], found[n]));
        refused("close", found[n], close(found[n]));
        refused("close by number", found[n], (int)syscall(SYS_close, found[n]));
        if (fcntl(found[n], F_GETFD) < 0)
            return 93;
    }
    /* A number that is asked for goes to none that is in use. */
    int copy = fcntl(own[0], F_DUPFD, count ? found[0] : 700);
    for (int n = 0; n < count; n++)
        if (copy == found[n])
            return 94;
    if (write(copy, "copy\n", 5) != 5 || close(copy))
        return 95;
    for (int n = 0; n < OWN; n++) {
        put(n, "after\n");
        if (close(own[n]))
            return 96;
    }
    printf("%d found\n", count);
    return 0;
}
