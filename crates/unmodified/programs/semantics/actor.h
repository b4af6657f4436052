/* The actor: a program that does what its seed says, and tells every answer it gets.
 *
 *   actor SEED STEPS DIRECTORY
 *
 * Two runs with one seed do the same, whatever becomes of it, so their transcripts and the files that they
 * leave are the same if the system answers alike. Numbers are drawn before a call and never depend on what
 * earlier calls returned, except on whether something is open. With ACTOR_OWN_NAMES in its environment its
 * children leave the files alone that it knows by name; descriptors they inherit all the same.
 * With ACTOR_STILL_APPENDS a file that appends is not told to stop it.
 */
#ifndef ACTOR_H
#define ACTOR_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

/* How many forks lie between this process and the first. */
extern int depth;

/* Numbers. */
void sow(uint64_t seed);
uint64_t draw(void);
unsigned below(unsigned limit);
/* One in so many times. */
int seldom(unsigned often);
/* Sizes and places as programs have them: around blocks, small, large, nothing. */
size_t some_length(void);
off_t some_offset(void);

/* The transcript. */
void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The result of a call that was made after `before_call`, and what became of errno. */
void told(long long result);
void before_call(void);
void tell_out(void);
uint64_t hash(const void *bytes, size_t length);

/* Bytes to write, and room to read into, filled with what a read has to leave alone. */
#define ROOM (1 << 17)
extern unsigned char bytes_out[ROOM], bytes_in[ROOM];
void fill_out(size_t length);
void fill_in(void);

/* Descriptors, by slot: -1 where there is none. */
#define SLOTS 8
extern int slots[SLOTS];
int some_slot(void);
int free_slot(void);
const char *some_name(void);
#define NAMES 6
extern const char *const names[NAMES];

/* One step each, of its kind. */
void data_step(void);      /* reads, writes, positions of descriptors */
void shape_step(void);     /* sizes, mappings, locks, copies of descriptors */
void open_step(void);      /* opens, closes, duplicates */
void name_step(void);      /* names */
void stream_step(void);    /* stdio */
void close_streams(void);
void flush_streams(void);

#endif
