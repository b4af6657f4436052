# A program of two files, compiled, archived, linked and run.
set -eu
cat >part.c <<'C'
#include <stdio.h>
int answer(void) { FILE *f = fopen("made", "w"); fprintf(f, "%d\n", 42); fclose(f); return 42; }
C
cat >whole.c <<'C'
#include <stdio.h>
int answer(void);
int main(void) { printf("%d\n", answer()); return answer() == 42 ? 7 : 0; }
C
gcc -O2 -c part.c -o part.o
gcc -O2 -pipe -c whole.c -o whole.o
ar rcD libpart.a part.o
gcc -o whole whole.o libpart.a
gcc -O1 -save-temps -o again whole.c part.c
status=0
./whole || status=$?
echo "status $status"
./again || true
nm -g --defined-only libpart.a | grep answer
