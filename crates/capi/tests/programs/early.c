/* Protects a file for a key service and for a plugin of age, whose programs end before they have read anything. SIGPIPE
 * ends this program, as it does by default. */
#define _GNU_SOURCE
#include <errno.h>
#include <phalanx.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What the library calls. Nothing is written to a pipe before the program at its other end is gone. */
ssize_t write(int file, const void *bytes, size_t len)
{
    struct stat meta;
    if (fstat(file, &meta) == 0 && S_ISFIFO(meta.st_mode)) {
        struct pollfd end = {file, 0, 0};
        while (!(end.revents & POLLERR) && poll(&end, 1, -1) == -1 && errno == EINTR)
            ;
    }
    return syscall(SYS_write, file, bytes, len);
}

/* Writes to standard output without the function above. */
static void say(const char *text)
{
    syscall(SYS_write, 1, text, strlen(text));
}

static void try(phalanx_error *added, phalanx_ways *ways)
{
    phalanx_error *error = added ? added : phalanx_protect("file", "file.phx", ways, NULL, NULL);
    say(error ? phalanx_error_text(error) : "no error");
    say("\n");
    phalanx_error_free(error);
    phalanx_ways_free(ways);
}

int main(void)
{
    phalanx_ways *ways;
    signal(SIGPIPE, SIG_DFL);
    if (phalanx_ways_new(&ways))
        return 1;
    try(phalanx_ways_add_service(ways, "early://k"), ways);
    if (phalanx_ways_new(&ways))
        return 1;
    try(phalanx_ways_add_recipient(ways, "age1test1qqqqqqqqgsf9kn"), ways);
    return 0;
}
