/* Streams in all modes. */
#include "say.h"
#include <stdio_ext.h>

int main(void)
{
    char line[256], *long_line = NULL;
    size_t room = 0;
    FILE *f = fopen("w", "w");
    SAY(fprintf(f, "one %d\ntwo %s\n", 1, "zwei"));
    SAY(ftell(f));
    SAY(fputc('x', f));
    SAY(fflush(f));
    show("w");
    SAY(fread(line, 1, 4, f)); /* not for reading */
    SAY(ferror(f) != 0);
    clearerr(f);
    SAY(fwrite("0123456789", 2, 5, f));
    SAY(fseek(f, 2, SEEK_SET));
    SAY(fputs("ZZ", f));
    SAY(fseek(f, 0, SEEK_END));
    SAY(ftell(f));
    SAY(fputs("end\n", f));
    SAY(fclose(f));
    show("w");

    f = fopen("w", "r");
    SAY(fgets(line, sizeof line, f) != NULL);
    printf("%s", line);
    SAY(getc(f));
    SAY(ungetc('Q', f));
    SAY(ftell(f));
    SAY(getc(f));
    SAY(getline(&long_line, &room, f));
    printf("%s", long_line);
    SAY(fputs("no", f));
    SAY(fseek(f, -4, SEEK_END));
    SAY(fread(line, 1, 100, f));
    SAY(feof(f) != 0);
    rewind(f);
    SAY(feof(f) != 0);
    SAY(fscanf(f, "%99s", line));
    printf("%s\n", line);
    SAY(lseek(fileno(f), 0, SEEK_CUR) >= 0);
    SAY(fclose(f));

    f = fopen("w", "a");
    SAY(ftell(f));
    SAY(fputs("appended\n", f));
    SAY(ftell(f));
    SAY(fseek(f, 0, SEEK_SET));
    SAY(fputs("again\n", f));
    SAY(fclose(f));
    show("w");

    f = fopen("w", "r+");
    SAY(fread(line, 1, 3, f));
    SAY(fseek(f, 0, SEEK_CUR));
    SAY(fputs("<<>>", f));
    SAY(fseek(f, 0, SEEK_CUR));
    SAY(fread(line, 1, 5, f));
    line[5] = 0;
    printf("%s\n", line);
    SAY(fclose(f));
    show("w");

    f = fopen("w", "a+");
    SAY(fgets(line, sizeof line, f) != NULL);
    printf("%s", line);
    SAY(fputs("plus\n", f));
    SAY(fseek(f, 0, SEEK_SET));
    SAY(fgets(line, sizeof line, f) != NULL);
    printf("%s", line);
    SAY(fclose(f));
    show("w");

    SAY(fopen("w", "wx") == NULL);
    SAY(fopen("none", "r") == NULL);
    SAY(fopen("w", "q") == NULL);
    SAY(fopen("none/none", "w") == NULL);
    f = fopen("exclusive", "wxe");
    SAY(f != NULL);
    SAY(fcntl(fileno(f), F_GETFD));
    SAY(setvbuf(f, NULL, _IONBF, 0));
    SAY(fputs("unbuffered", f));
    show("exclusive");
    SAY(fclose(f));

    f = fopen("lines", "w+");
    static char buffer[1000];
    SAY(setvbuf(f, buffer, _IOLBF, sizeof buffer));
    SAY(fputs("line\nrest", f));
    show("lines");
    SAY(fflush(NULL));
    show("lines");
    SAY(ftruncate(fileno(f), 3));
    SAY(fseek(f, 0, SEEK_SET));
    SAY(fread(line, 1, 100, f));
    SAY(fclose(f));

    /* Large pieces, and small ones. */
    f = fopen("large", "w+");
    static char piece[100000];
    for (size_t place = 0; place < sizeof piece; place++)
        piece[place] = (char)(place * 7);
    SAY(fwrite(piece, 1, sizeof piece, f));
    for (int round = 0; round < 20000; round++)
        fputc(round, f);
    SAY(fwrite(piece, 1, 5000, f));
    SAY(ftello(f));
    SAY(fseeko(f, 99990, SEEK_SET));
    static char again[200000];
    SAY(fread(again, 1, 20, f));
    SAY(memcmp(again, piece + 99990, 10));
    SAY(fread(again, 1, sizeof again, f));
    SAY(feof(f) != 0);
    SAY(fclose(f));

    /* The descriptor and the stream are one file. */
    f = fopen("both", "w+");
    int d = fileno(f);
    SAY(d);
    SAY(fileno_unlocked(f) == d);
    SAY(fputs("stream ", f));
    SAY(fflush(f));
    SAY(write(d, "descriptor ", 11));
    SAY(fputs("stream\n", f));
    SAY(fsync(d));
    struct stat st;
    SAY(fstat(d, &st));
    SAY(fflush(f));
    SAY(fstat(d, &st));
    SAY(st.st_size);
    SAY(fclose(f));
    SAY(write(d, "x", 1));
    show("both");

    /* Streams on descriptors. */
    d = open("fd", O_RDWR | O_CREAT, 0600);
    SAY(write(d, "before ", 7));
    f = fdopen(d, "r+");
    SAY(ftell(f));
    SAY(fputs("after", f));
    SAY(fclose(f));
    SAY(close(d));
    show("fd");
    d = open("fd", O_RDONLY);
    SAY(fdopen(d, "w") == NULL);
    f = fdopen(d, "r");
    SAY(fgets(line, sizeof line, f) != NULL);
    printf("%s\n", line);
    SAY(fclose(f));
    d = open("fd", O_WRONLY);
    f = fdopen(d, "a");
    SAY(fcntl(d, F_GETFL) & O_APPEND);
    SAY(fputs(" appended", f));
    SAY(fclose(f));
    show("fd");
    SAY(fdopen(-1, "r") == NULL);

    /* Other files under the same stream. */
    f = fopen("first", "w");
    d = fileno(f);
    SAY(fputs("in the first", f));
    FILE *g = freopen("second", "w", f);
    SAY(f == g);
    SAY(fileno(g) == d);
    SAY(fputs("in the second", g));
    g = freopen("second", "r", g);
    SAY(fgets(line, sizeof line, g) != NULL);
    printf("%s\n", line);
    SAY(fputs("not now", g) == EOF);
    clearerr(g);
    SAY(freopen("first", "a+", g) == f);
    SAY(fputs(", and more", g));
    SAY(fclose(g));
    show("first");
    show("second");
    /* Nothing of what it was before is left in it; and blocks are as large as they were. */
    f = fopen("third", "wx");
    SAY(fputs("written", f));
    SAY(freopen("second", "r", f) == f);
    SAY(fputc('x', f));
    SAY(fgetc(f));
    SAY(fclose(f));
    show("third");
    d = open("large", O_RDONLY);
    int twin = dup(d);
    f = fdopen(d, "r");
    SAY(fread(line, 1, 100, f));
    SAY(fclose(f));
    SAY(lseek(twin, 0, SEEK_CUR));
    f = fopen("blocks", "w");
    for (int round = 0; round < 5000; round++)
        fputc('b', f);
    struct stat blocks;
    SAY(stat("blocks", &blocks));
    SAY(blocks.st_size);
    SAY(fclose(f));
    SAY(freopen("redirected", "w", stderr) == stderr);
    SAY(fputs("to a file", stderr));
    SAY(fclose(stderr));
    show("redirected");

    /* What is asked of streams. */
    f = fopen("asked", "w+");
    SAY(__fwritable(f) != 0);
    SAY(__freadable(f) != 0);
    SAY(fputs("12345", f));
    SAY(__fpending(f));
    SAY(fseek(f, 10, SEEK_SET));
    SAY(fputc('!', f));
    SAY(fseek(f, -1000, SEEK_SET));
    SAY(fseek(f, 3, 77));
    fpos_t position;
    SAY(fgetpos(f, &position));
    rewind(f);
    SAY(fsetpos(f, &position));
    SAY(ftell(f));
    fclose(f);
    show("asked");

    f = tmpfile();
    SAY(fputs("temporary", f));
    SAY(fclose(f));
    f = fopen("left open", "w");
    SAY(fputs("written at the end", f));
    free(long_line);
    return 0;
}
