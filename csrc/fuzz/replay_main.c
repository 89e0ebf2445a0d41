/* replay_main.c - runs a fuzz target over files named on the command line, without a fuzzer: how the seeds and every input
 * that once crashed are tried in the ordinary tests. Link it with one fuzz_*.c. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = NULL;
    size_t size = 0;
    size_t room = 0;
    if (!file)
        return 1;
    for (;;) {
        if (size == room) {
            room = room ? room * 2 : 65536;
            uint8_t *more = realloc(data, room);
            if (!more)
                break;
            data = more;
        }
        size_t got = fread(data + size, 1, room - size, file);
        size += got;
        if (!got)
            break;
    }
    int failed = ferror(file);
    (void)fclose(file);
    /* An exact copy, so that the sanitizer sees a read of one byte too many. */
    uint8_t *exact = failed ? NULL : malloc(size ? size : 1);
    for (size_t i = 0; exact && i < size; i++)
        exact[i] = data[i];
    if (exact)
        (void)LLVMFuzzerTestOneInput(exact, size);
    failed = failed || !exact;
    free(exact);
    free(data);
    return failed;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (replay(argv[i])) {
            (void)fprintf(stderr, "cannot replay %s\n", argv[i]);
            return 1;
        }
    (void)printf("replayed %d inputs\n", argc - 1);
    return 0;
}
