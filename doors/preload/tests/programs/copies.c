/* Bytes that go to files by other ways: mappings, copies in the kernel, printing to descriptors. */
#include "say.h"
#include <aio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

int main(void)
{
    char bytes[200] = {0};
    int a = open("a", O_RDWR | O_CREAT, 0644), b = open("b", O_RDWR | O_CREAT, 0644);
    SAY(write(a, "0123456789abcdefghij", 20));
    SAY(lseek(a, 2, SEEK_SET));
    SAY(write(b, "##", 2));
    SAY(copy_file_range(a, NULL, b, NULL, 5, 0));
    SAY(lseek(a, 0, SEEK_CUR));
    SAY(lseek(b, 0, SEEK_CUR));
    off_t from = 10, to = 30;
    SAY(copy_file_range(a, &from, b, &to, 4, 0));
    SAY(from);
    SAY(to);
    SAY(lseek(b, 0, SEEK_CUR));
    SAY(copy_file_range(a, NULL, b, &to, 100, 0));
    SAY(lseek(a, 0, SEEK_CUR));
    SAY(copy_file_range(a, NULL, b, NULL, 5, 77));
    from = -5;
    SAY(copy_file_range(a, &from, b, NULL, 5, 0));
    show("b");
    SAY(lseek(a, 1, SEEK_SET));
    SAY(sendfile(b, a, NULL, 3));
    from = 15;
    SAY(sendfile(b, a, &from, 3));
    SAY(from);
    SAY(lseek(a, 0, SEEK_CUR));
    SAY(lseek(b, 0, SEEK_CUR));
    show("b");
    int ends[2];
    SAY(pipe(ends));
    SAY(splice(a, NULL, ends[1], NULL, 4, 0));
    SAY(lseek(a, 0, SEEK_CUR));
    SAY(splice(ends[0], NULL, b, NULL, 4, 0));
    SAY(write(b, "after", 5));
    show("b");

    int c = open("c", O_RDWR | O_CREAT, 0644);
    SAY(write(c, "number: ", 8));
    SAY(dprintf(c, "%d %s %.2f %c %ld", 7, "seven", 7.5, '7', 77L));
    SAY(lseek(c, 0, SEEK_CUR));
    SAY(write(c, "|", 1));
    show("c");

    int d = open("d", O_RDWR | O_CREAT, 0644);
    SAY(write(d, "mapped", 6));
    SAY(ftruncate(d, 100));
    char *map = mmap(NULL, 100, PROT_READ | PROT_WRITE, MAP_SHARED, d, 0);
    SAY(memcmp(map, "mapped", 6));
    SAY(write(d, "after", 5));
    SAY(memcmp(map, "mappedafter", 11));
    map[50] = 'M';
    SAY(pread(d, bytes, 1, 50));
    SAY(bytes[0]);
    SAY(munmap(map, 100));
    SAY(close(d));
    show("d");

    int e = open("e", O_RDWR | O_CREAT, 0644);
    SAY(write(e, "locked ", 7));
    SAY(flock(e, LOCK_EX));
    SAY(write(e, "more ", 5));
    SAY(flock(e, LOCK_UN));
    static struct aiocb request;
    request.aio_fildes = e;
    request.aio_buf = "aio";
    request.aio_nbytes = 3;
    request.aio_offset = 20;
    SAY(aio_write(&request));
    while (aio_error(&request) == EINPROGRESS)
        usleep(100);
    SAY(aio_return(&request));
    SAY(write(e, "end", 3));
    show("e");

    /* A descriptor that another process gets. */
    int pair[2], f = open("f", O_RDWR | O_CREAT, 0644);
    SAY(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        char control[CMSG_SPACE(sizeof(int))], data;
        struct iovec part = {&data, 1};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control,
                                 .msg_controllen = sizeof control};
        if (recvmsg(pair[1], &message, 0) != 1)
            _exit(1);
        int received;
        memcpy(&received, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof received);
        _exit(write(received, " sent", 5) == 5 ? 0 : 2);
    }
    int g = open("g", O_RDWR | O_CREAT, 0644);
    SAY(write(g, "to be", 5));
    char control[CMSG_SPACE(sizeof(int))] = {0}, data = 'x';
    struct iovec part = {&data, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control,
                             .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &g, sizeof g);
    SAY(sendmsg(pair[0], &message, 0));
    int status;
    waitpid(child, &status, 0);
    SAY(status);
    SAY(write(g, " it was", 7));
    show("g");
    (void)f;

    /* By number. */
    int h = (int)syscall(SYS_openat, AT_FDCWD, "h", O_RDWR | O_CREAT, 0644);
    SAY(h);
    SAY(syscall(SYS_write, h, "by number", 9));
    SAY(write(h, ", by name", 9));
    SAY(syscall(SYS_lseek, h, 3, SEEK_SET));
    SAY(read(h, bytes, 3));
    SAY(syscall(SYS_pread64, h, bytes, 5, 0));
    SAY(syscall(SYS_dup, h));
    SAY(syscall(SYS_close, h));
    SAY(write(h, "x", 1));
    SAY(syscall(SYS_getpid) == getpid());
    show("h");

    /* In parts. */
    int i = open("i", O_RDWR | O_CREAT, 0644);
    struct iovec parts[3] = {{"one", 3}, {"", 0}, {"three", 5}};
    SAY(writev(i, parts, 3));
    SAY(pwritev(i, parts, 3, 20));
    SAY(pwritev2(i, parts, 1, -1, 0));
    SAY(lseek(i, 0, SEEK_CUR));
    SAY(writev(i, parts, -1));
    SAY(writev(i, parts, 2000));
    SAY(writev(i, parts, 0));
    char one[4] = {0}, two[30] = {0};
    struct iovec into[2] = {{one, 3}, {two, 29}};
    SAY(preadv(i, into, 2, 1));
    printf("%s %s\n", one, two);
    SAY(lseek(i, 1, SEEK_SET));
    SAY(readv(i, into, 2));
    printf("%s %s\n", one, two);
    SAY(preadv2(i, into, 2, -1, 0));
    SAY(preadv(i, into, 2, -3));
    SAY(pread(i, bytes, 5, -1));
    SAY(pwrite(i, bytes, 5, -1));
    SAY(read(i, NULL, 5));
    SAY(write(i, NULL, 5));
    SAY(read(-1, bytes, 5));
    SAY(read(1 << 25, bytes, 5));
    SAY(posix_fallocate(i, 0, 1000));
    SAY(lseek(i, 0, SEEK_END));
    SAY(posix_fallocate(i, 0, -1));
    SAY(fallocate(i, FALLOC_FL_KEEP_SIZE, 0, 5000));
    SAY(lseek(i, 0, SEEK_END));
    SAY(fdatasync(i));
    SAY(sync_file_range(i, 0, 0, SYNC_FILE_RANGE_WRITE));
    SAY(posix_fadvise(i, 0, 0, POSIX_FADV_SEQUENTIAL));
    sync();
    SAY(syncfs(i));
    return 0;
}
