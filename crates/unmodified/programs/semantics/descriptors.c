/* Steps on descriptors. */
#include "actor.h"

#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

int slots[SLOTS];

/* Mostly one with something in it. */
int some_slot(void) {
    int slot = (int)below(SLOTS), any = seldom(12);
    for (int tries = 0; tries < SLOTS && slots[slot] < 0 && !any; tries++)
        slot = (slot + 1) % SLOTS;
    return slot;
}

int free_slot(void) {
    int first = (int)below(SLOTS);
    for (int tries = 0; tries < SLOTS; tries++)
        if (slots[(first + tries) % SLOTS] < 0)
            return (first + tries) % SLOTS;
    tell("close %d", first);
    before_call();
    told(close(slots[first]));
    tell(", ");
    slots[first] = -1;
    return first;
}

static void tell_data(long long result) {
    told(result);
    /* All of the room: what lies behind the data must be as it was. */
    tell(" %016llx\n", (unsigned long long)hash(bytes_in, sizeof bytes_in));
}

static int some_parts(struct iovec *parts, unsigned char *room) {
    int count = (int)below(5);
    size_t at = 0;
    for (int part = 0; part < count; part++) {
        size_t length = some_length() / 4;
        parts[part] = (struct iovec){room + at, length};
        at += length;
    }
    return count;
}

static void transfer(int slot) {
    int fd = slots[slot], flags = 0;
    size_t length = some_length();
    off_t offset = seldom(25) ? -1 - (off_t)below(9) : some_offset();
    struct iovec parts[5];
    fill_in();
    switch (below(10)) {
    case 0: case 1:
        tell("read %d, %zu", slot, length);
        before_call();
        tell_data(read(fd, bytes_in, length));
        break;
    case 2:
        tell("pread %d, %zu at %lld", slot, length, (long long)offset);
        before_call();
        tell_data(pread(fd, bytes_in, length, offset));
        break;
    case 3: {
        int count = some_parts(parts, bytes_in);
        tell("readv %d, %d", slot, count);
        before_call();
        tell_data(readv(fd, parts, count));
        break;
    }
    case 4: {
        int count = some_parts(parts, bytes_in), form = (int)below(2);
        tell("preadv%s %d, %d at %lld", form ? "2" : "", slot, count, (long long)offset);
        before_call();
        tell_data(form ? preadv2(fd, parts, count, offset, flags) : preadv(fd, parts, count, offset));
        break;
    }
    case 5: case 6: case 7:
        fill_out(length);
        tell("write %d, %zu", slot, length);
        before_call();
        told(write(fd, bytes_out, length));
        tell("\n");
        break;
    case 8:
        fill_out(length);
        tell("pwrite %d, %zu at %lld", slot, length, (long long)offset);
        before_call();
        told(pwrite(fd, bytes_out, length, offset));
        tell("\n");
        break;
    default: {
        int count = some_parts(parts, bytes_out), form = (int)below(4);
        fill_out(ROOM / 2);
        tell("writev %d, %d form %d at %lld", slot, count, form, (long long)offset);
        before_call();
        if (form < 2)
            told(writev(fd, parts, count));
        else if (form == 2)
            told(pwritev(fd, parts, count, offset));
        else
            told(pwritev2(fd, parts, count, offset, seldom(3) ? RWF_DSYNC : 0));
        tell("\n");
        break;
    }
    }
}

static void seek(int slot) {
    static const int whences[] = {SEEK_SET, SEEK_CUR, SEEK_END, SEEK_CUR, 77};
    static const char *const words[] = {"SET", "CUR", "END", "CUR", "77"};
    unsigned which = seldom(20) ? 4 : below(4);
    off_t offset = some_offset();
    if (which == 3)
        offset = 0;
    else if (which > 0)
        offset -= 30000;
    tell("lseek %d, %lld %s", slot, (long long)offset, words[which]);
    before_call();
    told(lseek(slots[slot], offset, whences[which]));
    tell("\n");
}

void data_step(void) {
    int slot = some_slot();
    if (seldom(5))
        seek(slot);
    else
        transfer(slot);
}

static void tell_stat(int slot) {
    struct stat stat = {0};
    tell("fstat %d", slot);
    before_call();
    int result = fstat(slots[slot], &stat);
    told(result);
    if (result == 0)
        tell(" size %lld mode %o links %d", (long long)stat.st_size, stat.st_mode, (int)stat.st_nlink);
    tell("\n");
}

static void map(int slot) {
    /* Sizes and contents by a way that passes no other call. */
    struct stat stat = {0};
    int writable = (int)below(2);
    if (fstat(slots[slot], &stat) || stat.st_size == 0) {
        tell("map nothing\n");
        return;
    }
    size_t length = (size_t)stat.st_size, at = below((unsigned)length);
    tell("mmap %d, %zu%s", slot, length, writable ? ", changed" : "");
    before_call();
    unsigned char *memory =
        mmap(NULL, length, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, slots[slot], 0);
    told(memory == MAP_FAILED ? -1 : 0);
    if (memory != MAP_FAILED) {
        tell(" %016llx", (unsigned long long)hash(memory, length));
        if (writable)
            memory[at] ^= 0xff;
        munmap(memory, length);
    }
    tell("\n");
}

static void copy(int slot, int other) {
    size_t length = some_length();
    off_t from = some_offset(), to = some_offset();
    int form = (int)below(4);
    off_t *from_at = form & 1 ? &from : NULL, *to_at = form & 2 ? &to : NULL;
    if (seldom(2)) {
        tell("sendfile %d to %d, %zu form %d at %lld", slot, other, length, form, (long long)from);
        before_call();
        told(sendfile(slots[other], slots[slot], from_at, length));
    } else {
        tell("copy_file_range %d to %d, %zu form %d at %lld, %lld", slot, other, length, form,
             (long long)from, (long long)to);
        before_call();
        told(copy_file_range(slots[slot], from_at, slots[other], to_at, length, 0));
    }
    tell(" %lld %lld\n", (long long)from, (long long)to);
}

static void lock(int slot) {
    struct flock area = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 10};
    if (seldom(2)) {
        tell("flock %d", slot);
        before_call();
        told(flock(slots[slot], seldom(2) ? LOCK_UN : LOCK_SH | LOCK_NB));
    } else {
        area.l_type = seldom(2) ? F_UNLCK : F_RDLCK;
        tell("lock %d", slot);
        before_call();
        told(fcntl(slots[slot], F_SETLK, &area));
    }
    tell("\n");
}

void shape_step(void) {
    int slot = some_slot(), other = some_slot();
    off_t length = seldom(20) ? -5 : some_offset();
    switch (below(14)) {
    case 0: case 1:
        tell("fsync %d", slot);
        before_call();
        told(fsync(slots[slot]));
        break;
    case 2:
        tell("fdatasync %d", slot);
        before_call();
        told(fdatasync(slots[slot]));
        break;
    case 3: case 4:
        tell("ftruncate %d, %lld", slot, (long long)length);
        before_call();
        told(ftruncate(slots[slot], length));
        break;
    case 5: {
        int modes[] = {0, FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE};
        int mode = modes[below(3)];
        off_t from = some_offset();
        tell("fallocate %d, mode %d, %lld and %lld", slot, mode, (long long)from, (long long)length);
        before_call();
        told(fallocate(slots[slot], mode, from, length));
        break;
    }
    case 6:
        tell("posix_fallocate %d, %lld", slot, (long long)length);
        before_call();
        told(posix_fallocate(slots[slot], length / 2, length));
        break;
    case 7: map(slot); return;
    case 8: case 9: copy(slot, other); return;
    case 10: lock(slot); return;
    default: tell_stat(slot); return;
    }
    tell("\n");
}

static void some_open(void) {
    static const int ways[] = {O_RDONLY, O_WRONLY, O_RDWR, O_RDWR, O_RDWR};
    const char *name = some_name();
    int flags = ways[below(5)], form = (int)below(4), mode = seldom(3) ? 0640 : 0666, fd, slot = free_slot();
    flags |= seldom(4) ? 0 : O_CREAT;
    flags |= seldom(4) ? O_TRUNC : 0;
    flags |= seldom(4) ? O_APPEND : 0;
    flags |= seldom(12) ? O_EXCL : 0;
    flags |= seldom(12) ? O_SYNC : 0;
    flags |= seldom(3) ? O_CLOEXEC : 0;
    tell("open %d, %s flags %x form %d", slot, name, (unsigned)flags, form);
    before_call();
    if (form == 0) {
        fd = openat(AT_FDCWD, name, flags, mode);
    } else if (form == 1) {
        char absolute[4096];
        if (!getcwd(absolute, sizeof absolute - 100))
            return;
        strcat(strcat(absolute, "/./d/../"), name);
        before_call();
        fd = open(absolute, flags, mode);
    } else if (form == 2 && (flags & (O_TRUNC | O_CREAT)) == (O_TRUNC | O_CREAT)) {
        fd = creat(name, (mode_t)mode);
    } else {
        fd = open(name, flags, mode);
    }
    told(fd < 0 ? -1 : 0);
    slots[slot] = fd;
    tell("\n");
}

void open_step(void) {
    int slot = some_slot(), other;
    switch (below(12)) {
    case 0: case 1: case 2: case 3: case 4: some_open(); return;
    case 5: case 6:
        tell("close %d", slot);
        before_call();
        told(close(slots[slot]));
        slots[slot] = -1;
        break;
    case 7:
        other = free_slot();
        tell("dup %d to %d", slot, other);
        before_call();
        slots[other] = dup(slots[slot]);
        told(slots[other] < 0 ? -1 : 0);
        break;
    case 8:
        other = some_slot();
        if (slots[other] < 0 || slots[slot] < 0)
            return tell("no dup2\n");
        tell("dup2 %d to %d", slot, other);
        before_call();
        told(dup2(slots[slot], slots[other]) == slots[other]);
        break;
    case 9:
        other = free_slot();
        tell("F_DUPFD %d to %d", slot, other);
        before_call();
        slots[other] = fcntl(slots[slot], seldom(2) ? F_DUPFD : F_DUPFD_CLOEXEC, 20);
        told(slots[other] < 0 ? -1 : slots[other] >= 20);
        break;
    case 10: {
        int flags = (seldom(2) ? O_APPEND : 0);
        if (getenv("ACTOR_STILL_APPENDS"))
            flags |= fcntl(slots[slot], F_GETFL) & O_APPEND;
        tell("F_SETFL %d, %x", slot, (unsigned)flags);
        before_call();
        told(fcntl(slots[slot], F_SETFL, flags));
        break;
    }
    default:
        tell("F_GETFL, F_GETFD %d", slot);
        before_call();
        told(fcntl(slots[slot], F_GETFL));
        told(fcntl(slots[slot], F_GETFD));
        break;
    }
    tell("\n");
}
