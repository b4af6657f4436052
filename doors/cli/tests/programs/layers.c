/* A program with a layer of its own above POSIX: it tells of two calls, and writes within one of them. */
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

struct layer_call {
    uint32_t size, function;
    const char *path;
    uint64_t file;
    int64_t offset;
    uint64_t length, count, moved;
    int32_t error;
    uint32_t reserved;
};

int main(void)
{
    uint64_t (*begin)(void) = (uint64_t(*)(void))dlsym(RTLD_DEFAULT, "striate_preload_layer_begin");
    void (*tell)(uint64_t, const struct layer_call *) =
        (void (*)(uint64_t, const struct layer_call *))dlsym(RTLD_DEFAULT, "striate_preload_layer_call");
    if (!begin || !tell)
        return 3;
    char directory[PATH_MAX], path[PATH_MAX + 16];
    if (!getcwd(directory, sizeof directory))
        return 4;
    snprintf(path, sizeof path, "%s/data.bin", directory);
    int file = open("data.bin", O_CREAT | O_WRONLY, 0644);
    char bytes[4096] = {0};
    uint64_t start = begin();
    if (pwrite(file, bytes, 4096, 0) != 4096 || pwrite(file, bytes, 4096, 4096) != 4096)
        return 5;
    /* 41: MPI_File_write_at_all; 40: MPI_File_write_at, which fails. */
    struct layer_call call = {sizeof call, 41, path, 7, 0, 8192, 1024, 8192, 0, 0};
    tell(start, &call);
    struct layer_call failed = {sizeof call, 40, path, 7, INT64_MIN, 16, 2, 0, 32, 0};
    tell(begin(), &failed);
    /* What cannot be known is left out. */
    struct layer_call unknown = {sizeof call, 9999, path, 7, 0, 0, 0, 0, 0, 0};
    tell(begin(), &unknown);
    struct layer_call cut = {8, 41, path, 7, 0, 0, 0, 0, 0, 0};
    tell(begin(), &cut);
    tell(0, &call);
    tell(start, NULL);
    if (pwrite(file, bytes, 10, 0) != 10)
        return 6;
    return close(file);
}
