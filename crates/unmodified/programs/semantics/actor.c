/* The course of the actor: steps by threads in turn, children that inherit what is open, and how it ends. */
#include "actor.h"

#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

unsigned char bytes_out[ROOM], bytes_in[ROOM];
extern char **environ;

static const char *own_path;
static char transcript[1 << 16];
static size_t told_length;
static uint64_t state;
/* In a child: other threads are not there any more, and children of children end soon. */
static int alone;
int depth;

void sow(uint64_t seed) { state = seed; }

uint64_t draw(void) {
    uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

unsigned below(unsigned limit) { return (unsigned)((draw() >> 32) * limit >> 32); }

int seldom(unsigned often) { return below(often) == 0; }

size_t some_length(void) {
    switch (below(12)) {
    case 0: return 0;
    case 1: case 2: return 1 + below(16);
    case 3: case 4: case 5: return 1 + below(600);
    case 6: return 4096;
    case 7: return 4096 * (1 + below(3)) - 2 + below(5);
    case 8: case 9: case 10: return 1 + below(10000);
    default: return 1 + below(70000);
    }
}

off_t some_offset(void) {
    switch (below(8)) {
    case 0: return 0;
    case 1: return below(100);
    case 2: case 3: return (off_t)4096 * below(16);
    case 4: return (off_t)4096 * below(16) - 1 + below(3);
    default: return below(70000);
    }
}

uint64_t hash(const void *bytes, size_t length) {
    const unsigned char *at = bytes;
    uint64_t value = 0xcbf29ce484222325u;
    for (size_t i = 0; i < length; i++)
        value = (value ^ at[i]) * 0x100000001b3u;
    return value;
}

void fill_out(size_t length) {
    for (size_t i = 0; i < length; i += 8) {
        uint64_t value = draw();
        memcpy(bytes_out + i, &value, 8);
    }
}

void fill_in(void) { memset(bytes_in, 0xa5, sizeof bytes_in); }

void tell_out(void) {
    size_t done = 0;
    while (done < told_length) {
        ssize_t n = write(1, transcript + done, told_length - done);
        if (n <= 0)
            _exit(97);
        done += (size_t)n;
    }
    told_length = 0;
}

void tell(const char *format, ...) {
    if (told_length > sizeof transcript - 4096)
        tell_out();
    va_list list;
    va_start(list, format);
    told_length += (size_t)vsnprintf(transcript + told_length, 4096, format, list);
    va_end(list);
}

/* No call of the system sets this one, so that one which changes errno without need is seen. */
#define UNTOUCHED 4242

void before_call(void) { errno = UNTOUCHED; }

void told(long long result) {
    int error = errno;
    if (error == UNTOUCHED)
        tell(" = %lld", result);
    else
        tell(" = %lld %s", result, strerrorname_np(error) ? strerrorname_np(error) : "?");
}

/* What a child with inherited descriptors does. */
static void steps(unsigned count);

static void wait_for(pid_t child) {
    int status = -1;
    pid_t ended = waitpid(child, &status, 0);
    tell("  child %s, status %x\n", ended == child ? "ended" : "lost", (unsigned)status);
}

static void end_child(int plainly, int status) {
    tell("  child ends\n");
    flush_streams();
    tell_out();
    if (plainly)
        exit(status);
    _exit(status);
}

static void fork_step(void) {
    uint64_t seed = draw();
    unsigned count = 1 + below(12), status = below(100);
    int plainly = (int)below(2);
    tell("fork\n");
    flush_streams();
    tell_out();
    pid_t child = fork();
    if (child == 0) {
        alone = 1;
        depth++;
        sow(seed);
        steps(count);
        end_child(plainly, (int)status);
    }
    wait_for(child);
}

/* Parent and child use the descriptors in turn: they have one position together. Names are left alone. */
static void turns_step(void) {
    uint64_t seed = draw();
    unsigned turns = 1 + below(5);
    int there[2], back[2];
    char token = 't';
    if (pipe(there) || pipe(back))
        _exit(96);
    tell("fork to take turns\n");
    flush_streams();
    tell_out();
    pid_t child = fork();
    int is_child = child == 0;
    if (is_child) {
        alone = 1;
        depth++;
    }
    int take = is_child ? there[0] : back[0], give = is_child ? back[1] : there[1];
    close(is_child ? there[1] : back[1]);
    close(is_child ? back[0] : there[0]);
    sow(seed + (uint64_t)is_child);
    for (unsigned turn = 0; turn < turns; turn++) {
        if (is_child && read(take, &token, 1) != 1)
            _exit(95);
        tell(is_child ? "  child: " : "  parent: ");
        data_step();
        tell_out();
        if (write(give, &token, 1) != 1)
            _exit(94);
        if (!is_child && read(take, &token, 1) != 1)
            break;
    }
    close(take);
    close(give);
    if (is_child)
        _exit(0);
    sow(seed + 2);
    wait_for(child);
}

/* The arguments by which this program goes on in another process, with the descriptors that it gets. */
static char **resumed(unsigned count) {
    static char numbers[SLOTS + 3][32], *list[SLOTS + 6];
    int n = 0;
    list[n++] = (char *)own_path;
    list[n++] = "--resumed";
    snprintf(numbers[SLOTS], 32, "%llu", (unsigned long long)draw());
    snprintf(numbers[SLOTS + 1], 32, "%u", count);
    list[n++] = numbers[SLOTS];
    list[n++] = numbers[SLOTS + 1];
    for (int slot = 0; slot < SLOTS; slot++) {
        int fd = slots[slot], flags = fd < 0 ? FD_CLOEXEC : fcntl(fd, F_GETFD);
        snprintf(numbers[slot], 32, "%d", flags & FD_CLOEXEC ? -1 : fd);
        list[n++] = numbers[slot];
    }
    list[n] = NULL;
    return list;
}

static void exec_step(void) {
    char **list = resumed(1 + below(10));
    int how = (int)below(4);
    pid_t child = -1;
    static const char *const hows[] = {"fork and exec", "vfork and exec", "posix_spawn", "system"};
    tell("%s\n", hows[how]);
    flush_streams();
    tell_out();
    if (how == 0 || how == 1) {
        child = how == 0 ? fork() : vfork();
        if (child == 0) {
            execv(own_path, list);
            _exit(93);
        }
    } else if (how == 2) {
        if (posix_spawn(&child, own_path, NULL, NULL, list, environ))
            child = -1;
    } else {
        char line[4096] = "";
        for (char **word = list; *word; word++)
            strcat(strcat(line, *word), " ");
        tell("  system = %d\n", system(line));
        return;
    }
    wait_for(child);
}

/* What another program sees of a file, or what comes of output that a shell sends to one. */
static void ask_step(void) {
    char line[256], answer[256] = "";
    const char *name = some_name();
    unsigned count = below(3000);
    if (seldom(2))
        snprintf(line, sizeof line, "cksum < %s 2>/dev/null || echo none", name);
    else
        snprintf(line, sizeof line, "seq %u > r%d; cat r%d r%d >> q%d; exec 3>>q%d; seq 9 >&3; cksum < q%d",
                 count, depth, depth, depth, depth, depth, depth);
    tell("popen %s", line);
    flush_streams();
    tell_out();
    FILE *pipe = popen(line, "re");
    if (pipe && !fgets(answer, sizeof answer, pipe))
        strcpy(answer, "no answer\n");
    int status = pipe ? pclose(pipe) : -1;
    tell(" = %d %s", status, answer);
}

static void one_step(void) {
    unsigned kind = below(100);
    if (kind < 46)
        data_step();
    else if (kind < 58)
        shape_step();
    else if (kind < 74)
        open_step();
    else if (kind < 84)
        name_step();
    else if (kind < 95 || depth > 1)
        stream_step();
    else if (kind < 96)
        fork_step();
    else if (kind < 97)
        turns_step();
    else if (kind < 98)
        exec_step();
    else
        ask_step();
}

/* Threads take turns: the thread whose turn it is, or -1. */
#define THREADS 3
static pthread_mutex_t turn_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn_came = PTHREAD_COND_INITIALIZER;
static int turn = -1;

static void *worker(void *number) {
    int own = (int)(intptr_t)number;
    pthread_mutex_lock(&turn_lock);
    for (;;) {
        while (turn != own)
            pthread_cond_wait(&turn_came, &turn_lock);
        pthread_mutex_unlock(&turn_lock);
        one_step();
        pthread_mutex_lock(&turn_lock);
        turn = -1;
        pthread_cond_broadcast(&turn_came);
    }
    return NULL;
}

static void by_thread(int number) {
    pthread_mutex_lock(&turn_lock);
    turn = number;
    pthread_cond_broadcast(&turn_came);
    while (turn != -1)
        pthread_cond_wait(&turn_came, &turn_lock);
    pthread_mutex_unlock(&turn_lock);
}

static void steps(unsigned count) {
    for (unsigned step = 0; step < count; step++) {
        int thread = (int)below(THREADS);
        tell("%*s%u: ", depth * 2, "", step);
        if (alone || thread == 0)
            one_step();
        else
            by_thread(thread);
    }
}

static void end(void) {
    unsigned kind = below(9);
    if (below(3) > 0) {
        for (int slot = 0; slot < SLOTS; slot++)
            if (slots[slot] >= 0) {
                before_call();
                tell("end: close %d", slot);
                told(close(slots[slot]));
                tell("\n");
            }
    }
    if (below(2))
        close_streams();
    else if (kind > 1)
        flush_streams();
    tell("ends by %u\n", kind);
    tell_out();
    switch (kind) {
    case 0: case 1: exit(0);
    case 2: case 3: _exit(3);
    case 4: quick_exit(4);
    case 5: raise(SIGTERM); break;
    case 6: abort();
    case 7: raise(SIGINT); break;
    default: {
        char **list = resumed(3);
        execv(own_path, list);
    }
    }
    _exit(92);
}

int main(int count, char **words) {
    own_path = words[0];
    umask(022);
    for (int slot = 0; slot < SLOTS; slot++)
        slots[slot] = -1;
    if (count == 4 + SLOTS && !strcmp(words[1], "--resumed")) {
        alone = 1;
        depth = 2;
        sow(strtoull(words[2], NULL, 10));
        for (int slot = 0; slot < SLOTS; slot++)
            slots[slot] = atoi(words[4 + slot]);
        steps((unsigned)atoi(words[3]));
        close_streams();
        tell("  resumed ends\n");
        tell_out();
        return 5;
    }
    if (count != 4 || chdir(words[3]))
        return 91;
    sow(strtoull(words[1], NULL, 10));
    for (int number = 1; number < THREADS; number++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, worker, (void *)(intptr_t)number))
            return 90;
    }
    steps((unsigned)atoi(words[2]));
    end();
}
