/* Calls that the C library or the kernel carries out on files that stages want. Each result is printed as stages are to
   be told it. */
#define _GNU_SOURCE
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <wchar.h>

#define FICLONE 0x40049409

struct range { long long source; unsigned long long from, length, to; };
#define FICLONERANGE 0x4020940d

static void tell(const char *name, long result)
{
    if (result < 0)
        printf("%s -1 %d\n", name, errno);
    else
        printf("%s %ld\n", name, result);
}

static int list_form(int fd, const char *format, ...)
{
    va_list rest;
    va_start(rest, format);
    int count = vdprintf(fd, format, rest);
    va_end(rest);
    return count;
}

static int made(const char *name)
{
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (write(fd, "12 34 and more", 14) != 14)
        _exit(1);
    return fd;
}

static long send_both(int one, int other)
{
    int ends[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    char byte[3] = "abc", control[CMSG_SPACE(2 * sizeof(int))] = {0};
    struct iovec part = {byte, 3};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(2 * sizeof(int));
    int both[2] = {one, other};
    memcpy(CMSG_DATA(header), both, sizeof both);
    return sendmsg(ends[0], &message, 0);
}

int main(void)
{
    int fd = made("printed");
    tell("printed", dprintf(fd, "%d and %s and %.1f\n", 42, "text", 1.5));
    tell("printed", list_form(fd, "%s %d %d %d %d %d %d\n", "many", 1, 2, 3, 4, 5, 6));
    int unwritable = open("printed", O_RDONLY);
    tell("printed", dprintf(unwritable, "nowhere"));

    int sent = made("sent"), second = made("sent-too");
    long count = send_both(sent, second);
    tell("sent", count);
    tell("sent-too", count);

    int listed = made("listed"), listed_too = made("listed-too");
    char bytes[2][4] = {"abc", "def"};
    struct aiocb one = {.aio_fildes = listed, .aio_buf = bytes[0], .aio_nbytes = 3, .aio_lio_opcode = LIO_WRITE};
    struct aiocb two = {.aio_fildes = listed_too, .aio_buf = bytes[1], .aio_nbytes = 3, .aio_lio_opcode = LIO_READ};
    struct aiocb *both[] = {&one, NULL, &two};
    count = lio_listio(LIO_WAIT, both, 3, NULL);
    tell("listed", count);
    tell("listed-too", count);

    close(made("scanned"));
    FILE *stream = fopen("scanned", "r");
    int number = 0;
    wchar_t word[16];
    if (fwscanf(stream, L"%d", &number) != 1 || number != 12)
        return 2;
    tell("scanned", 2);
    if (fwscanf(stream, L"%d %ls %ls", &number, word, word) != 3)
        return 3;
    tell("scanned", 12);
    if (fwscanf(stream, L"%d", &number) != EOF || !feof(stream))
        return 4;
    tell("scanned", 0);
    fclose(stream);

    int from = made("from"), onto = made("onto");
    count = ioctl(onto, FICLONE, from);
    tell("onto", count);
    tell("from", count);
    struct range range = {from, 0, 0, 0};
    count = ioctl(onto, FICLONERANGE, &range);
    tell("onto", count);
    tell("from", count);

    /* What a name of a descriptor leads to is shared, which is no call of its own. */
    char name[32];
    snprintf(name, sizeof name, "/proc/self/fd/%d", made("named"));
    close(open(name, O_RDONLY));
    return 0;
}
