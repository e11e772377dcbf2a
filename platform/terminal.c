#define _DEFAULT_SOURCE /* TIOCGWINSZ */
#include "platform/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

void rf_guard_streams(void)
{
    for (int stream = RF_STDIN; stream <= RF_STDERR; stream++) {
        if (fcntl(stream, F_GETFD) != -1 || errno != EBADF) continue;
        /* The lowest free number is this one. The wrong direction makes every use fail. */
        int flags = stream == RF_STDIN ? O_WRONLY : O_RDONLY;
        if (open("/dev/null", flags) < 0 && open("/", O_RDONLY) < 0) return;
    }
}

int rf_is_terminal(enum rf_stream stream)
{
    return isatty((int)stream) == 1;
}

int rf_terminal_width(enum rf_stream stream)
{
    struct winsize size;
    if (ioctl((int)stream, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
    return 80;
}

int rf_terminal_colour(enum rf_stream stream)
{
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    if (no_color && no_color[0]) return 0;
    if (!term || !term[0] || strcmp(term, "dumb") == 0) return 0;
    return rf_is_terminal(stream);
}

void rf_terminal_use_utf8(void)
{
    if (setlocale(LC_CTYPE, "") && strcmp(nl_langinfo(CODESET), "UTF-8") == 0) return;
    if (!setlocale(LC_CTYPE, "C.UTF-8")) setlocale(LC_CTYPE, "en_US.UTF-8");
}

/* Signals belong to the process, so their state is static. The pipe ends a wait for input even
 * where another thread received the signal, or where it came just before the wait began. */
enum { UNANSWERED_INTERRUPTS = 3 };
static struct {
    volatile sig_atomic_t count;
    void (*wake)(void *user);
    void *user;
    int pipe[2];
    int installed;
} interrupts = {.pipe = {-1, -1}};

static void on_interrupt(int number)
{
    (void)number;
    int saved = errno;
    interrupts.count = interrupts.count + 1;
    if (interrupts.count >= UNANSWERED_INTERRUPTS) _exit(130);
    if (interrupts.wake) interrupts.wake(interrupts.user);
    if (interrupts.pipe[1] >= 0 && write(interrupts.pipe[1], "", 1) < 0) {
        /* A full pipe wakes the reader as well. */
    }
    errno = saved;
}

void rf_interrupts_catch(void (*wake)(void *user), void *user)
{
    sigset_t block, before;
    sigemptyset(&block);
    sigaddset(&block, SIGINT);
    pthread_sigmask(SIG_BLOCK, &block, &before);
    interrupts.wake = wake;
    interrupts.user = user;
    if (!interrupts.installed) {
        if (pipe(interrupts.pipe) == 0) {
            for (int i = 0; i < 2; i++) {
                fcntl(interrupts.pipe[i], F_SETFL, O_NONBLOCK);
                fcntl(interrupts.pipe[i], F_SETFD, FD_CLOEXEC);
            }
        } else {
            interrupts.pipe[0] = interrupts.pipe[1] = -1;
        }
        struct sigaction action = {.sa_handler = on_interrupt};
        sigemptyset(&action.sa_mask);
        interrupts.installed = sigaction(SIGINT, &action, NULL) == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void rf_interrupts_catch_all(void)
{
    static const int signals[] = {SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct sigaction before, action = {.sa_handler = on_interrupt};
        sigemptyset(&action.sa_mask);
        if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
    }
}

int rf_interrupts(void)
{
    return (int)interrupts.count;
}

void rf_interrupts_clear(void)
{
    char drain[64];
    interrupts.count = 0;
    while (interrupts.pipe[0] >= 0 && read(interrupts.pipe[0], drain, sizeof drain) > 0) {
    }
}

int64_t rf_stdin_read(char *data, size_t n)
{
    for (;;) {
        struct pollfd wait[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
                                 {.fd = interrupts.pipe[0], .events = POLLIN}};
        if (interrupts.count) return RF_READ_INTERRUPTED;
        if (poll(wait, 2, -1) < 0) {
            if (errno == EINTR) continue;
            return RF_READ_FAILED;
        }
        if (interrupts.count) return RF_READ_INTERRUPTED;
        ssize_t got = read(STDIN_FILENO, data, n);
        if (got >= 0) return got;
        /* EAGAIN: a standard input that another program left non-blocking; poll waits for it. */
        if (errno != EINTR && errno != EAGAIN) return RF_READ_FAILED;
    }
}
