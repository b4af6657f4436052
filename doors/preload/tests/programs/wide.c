/* Streams of wide characters. */
#include "say.h"
#include <locale.h>
#include <wchar.h>

int main(void)
{
    setlocale(LC_ALL, "C.UTF-8");
    wchar_t line[100];
    FILE *f = fopen("wide", "w+");
    SAY(fwide(f, 0));
    SAY(fputwc(L'ä', f));
    SAY(fwide(f, 0) > 0);
    SAY(fputws(L" → ∞\nsecond\n", f) >= 0);
    SAY(fwprintf(f, L"%d %ls %.1f %s\n", 42, L"wörds", 1.5, "narrow"));
    SAY(fflush(f));
    show("wide");
    rewind(f);
    SAY(fgetwc(f));
    SAY(ungetwc(L'ö', f));
    SAY(fgetwc(f));
    SAY(fgetws(line, 100, f) != NULL);
    SAY(wcslen(line));
    SAY(fgetws(line, 3, f) != NULL);
    SAY(wcslen(line));
    SAY(getwc(f));
    while (fgetwc(f) != WEOF)
        ;
    SAY(feof(f) != 0);
    SAY(fclose(f));
    int number = 0, other = 0;
    float real = 0;
    f = fopen("scanned", "w+");
    SAY(fputws(L"17 ∞wörds 2.5\n  -4 x 9", f) >= 0);
    rewind(f);
    SAY(fwscanf(f, L"%d %99ls", &number, line));
    SAY(number);
    SAY(wcslen(line));
    SAY(line[0]);
    SAY(fgetwc(f));
    SAY(fwscanf(f, L"%f", &real));
    SAY((int)(real * 10));
    SAY(fwscanf(f, L"%d %d", &number, &other));
    SAY(number);
    SAY(fgetwc(f));
    SAY(feof(f) != 0);
    SAY(fwscanf(f, L"%d", &number));
    SAY(number);
    SAY(feof(f) != 0);
    SAY(fwscanf(f, L"%d", &number));
    SAY(ferror(f) != 0);
    SAY(fclose(f));
    f = fopen("scanned", "w");
    SAY(fwscanf(f, L"%d", &number));
    SAY(ferror(f) != 0);
    SAY(fclose(f));
    return 0;
}
