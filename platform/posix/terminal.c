/* Standard streams and the terminal: sizes, modes, widths of characters, and signals that end or
 * resize. Handlers only set flags and write to a pipe, which wakes the thread that reads. Whatever
 * changes the terminal's mode also restores it, at exit and when the program is stopped. */
#define _DEFAULT_SOURCE   /* TIOCGWINSZ, SIGWINCH */
#define _XOPEN_SOURCE 700 /* wcwidth */
#include "platform/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

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

int rf_terminal_height(enum rf_stream stream)
{
    struct winsize size;
    if (ioctl((int)stream, TIOCGWINSZ, &size) == 0 && size.ws_row > 0) return size.ws_row;
    return 24;
}

int rf_terminal_escapes(enum rf_stream stream)
{
    const char *term = getenv("TERM");
    return term && term[0] && strcmp(term, "dumb") != 0 && strcmp(term, "emacs") != 0 &&
           rf_is_terminal(stream);
}

int rf_terminal_colour(enum rf_stream stream)
{
    const char *no_color = getenv("NO_COLOR");
    return !(no_color && no_color[0]) && rf_terminal_escapes(stream);
}

int rf_terminal_edits(enum rf_stream stream)
{
    return rf_terminal_escapes(stream);
}

void rf_terminal_write(enum rf_stream stream, const char *data, size_t n)
{
    while (n > 0) {
        ssize_t written = write((int)stream, data, n);
        if (written < 0 && errno == EAGAIN) {
            poll(&(struct pollfd){.fd = (int)stream, .events = POLLOUT}, 1, -1);
            continue;
        }
        if (written < 0 && errno != EINTR) return;
        if (written < 0) continue;
        data += written;
        n -= (size_t)written;
    }
}

void rf_terminal_use_utf8(void)
{
    if (setlocale(LC_CTYPE, "") && strcmp(nl_langinfo(CODESET), "UTF-8") == 0) return;
    if (!setlocale(LC_CTYPE, "C.UTF-8")) setlocale(LC_CTYPE, "en_US.UTF-8");
}

int rf_terminal_columns(uint32_t code_point)
{
    int columns = wcwidth((wchar_t)code_point);
    return columns < 0 ? 1 : columns; /* the C library may be older than the character */
}

/* The modes of the terminal, of which a process has one. */
static struct {
    struct termios saved, quiet, stopped;
    const char *undo; /* NULL: nothing is saved */
    volatile sig_atomic_t is_quiet;
    volatile sig_atomic_t resized, continued;
} terminal;

/* For signal handlers, too. */
static void posix_restore_terminal(void)
{
    if (!terminal.is_quiet) return;
    tcsetattr(STDIN_FILENO, TCSANOW, &terminal.saved);
    if (write(STDERR_FILENO, terminal.undo, strlen(terminal.undo)) < 0) {
        /* A failure here has nobody to report to. */
    }
}

/* Signals belong to the process, so their state is static. The pipe ends a wait for input even
 * where another thread received the signal, or where it came just before the wait began. */
enum { UNANSWERED_INTERRUPTS = 3 };
static struct {
    atomic_int count; /* any thread may ask for it */
    void (*wake)(void *user);
    void *user;
    int pipe[2];
    int installed;
} interrupts = {.pipe = {-1, -1}};

static void wake_reader(void)
{
    if (interrupts.pipe[1] >= 0 && write(interrupts.pipe[1], "", 1) < 0) {
        /* A full pipe wakes the reader as well. */
    }
}

static void posix_on_interrupt(int number)
{
    (void)number;
    int saved = errno;
    if (atomic_fetch_add(&interrupts.count, 1) + 1 >= UNANSWERED_INTERRUPTS) {
        posix_restore_terminal();
        _exit(130);
    }
    if (interrupts.wake) interrupts.wake(interrupts.user);
    wake_reader();
    errno = saved;
}

static int catch_signal(int number, void (*handler)(int), int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigemptyset(&action.sa_mask);
    return sigaction(number, &action, NULL);
}

/* Leaves signals alone that the parent ignores, as nohup does. */
static void catch_unless_ignored(int number, void (*handler)(int))
{
    struct sigaction before;
    if (sigaction(number, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        catch_signal(number, handler, SA_RESTART);
}

/* Lets the signal do what it does without a handler. */
static void act_by_default(int number)
{
    sigset_t set;
    catch_signal(number, SIG_DFL, 0);
    sigemptyset(&set);
    sigaddset(&set, number);
    raise(number);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static void on_end(int number)
{
    posix_restore_terminal();
    act_by_default(number);
}

/* Returns when the process continues. */
static void on_stop(int number)
{
    int saved = errno;
    tcgetattr(STDIN_FILENO, &terminal.stopped);
    posix_restore_terminal();
    act_by_default(number);
    catch_signal(number, on_stop, SA_RESTART);
    if (terminal.is_quiet) tcsetattr(STDIN_FILENO, TCSANOW, &terminal.stopped);
    terminal.continued = 1;
    wake_reader();
    errno = saved;
}

static void on_resize(int number)
{
    (void)number;
    int saved = errno;
    terminal.resized = 1;
    wake_reader();
    errno = saved;
}

void rf_terminal_quiet(const char *undo)
{
    if (!terminal.undo) {
        if (tcgetattr(STDIN_FILENO, &terminal.saved) != 0) return;
        terminal.quiet = terminal.saved;
        terminal.quiet.c_lflag &= ~(tcflag_t)(ECHO | ECHONL | ICANON);
        terminal.quiet.c_cc[VMIN] = 1;
        terminal.quiet.c_cc[VTIME] = 0;
        terminal.undo = undo;
        const int ends[] = {SIGTERM, SIGHUP, SIGQUIT};
        for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
            catch_unless_ignored(ends[i], on_end);
        catch_unless_ignored(SIGTSTP, on_stop);
        catch_unless_ignored(SIGWINCH, on_resize);
        atexit(rf_terminal_restore);
    }
    terminal.is_quiet = 1;
    tcsetattr(STDIN_FILENO, TCSANOW, &terminal.quiet);
}

void rf_terminal_restore(void)
{
    posix_restore_terminal();
    terminal.is_quiet = 0;
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
        interrupts.installed = catch_signal(SIGINT, posix_on_interrupt, 0) == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static volatile sig_atomic_t hangups; /* only the handler writes */

static void on_hangup(int number)
{
    (void)number;
    hangups++;
}

void rf_interrupts_catch_all(void)
{
    static const int signals[] = {SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct sigaction before, action = {.sa_handler = posix_on_interrupt};
        sigemptyset(&action.sa_mask);
        if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN &&
            before.sa_handler != on_hangup)
            sigaction(signals[i], &action, NULL);
    }
}

void rf_hangups_catch(void)
{
    catch_unless_ignored(SIGHUP, on_hangup);
}

int rf_hangups_take(void)
{
    static sig_atomic_t taken;
    sig_atomic_t now = hangups;
    int is_new = now != taken;
    taken = now;
    return is_new;
}

int rf_interrupts(void)
{
    return atomic_load(&interrupts.count);
}

static void drain_pipe(void)
{
    char drain[64];
    while (interrupts.pipe[0] >= 0 && read(interrupts.pipe[0], drain, sizeof drain) > 0) {
    }
}

void rf_interrupts_clear(void)
{
    atomic_store(&interrupts.count, 0);
    drain_pipe();
}

/* Whether the flag was set; clears it. */
static int take_signal_flag(volatile sig_atomic_t *flag)
{
    int was_set = *flag;
    *flag = 0;
    return was_set;
}

int64_t rf_stdin_read(char *data, size_t n)
{
    for (;;) {
        struct pollfd wait[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
                                 {.fd = interrupts.pipe[0], .events = POLLIN}};
        if (rf_interrupts()) return RF_READ_INTERRUPTED;
        if (terminal.is_quiet && take_signal_flag(&terminal.continued)) return RF_READ_CONTINUED;
        if (terminal.is_quiet && take_signal_flag(&terminal.resized)) return RF_READ_RESIZED;
        if (poll(wait, 2, -1) < 0) {
            if (errno == EINTR) continue;
            return RF_READ_FAILED;
        }
        if (wait[1].revents) { /* flags are set before the pipe is written */
            drain_pipe();
            continue;
        }
        ssize_t got = read(STDIN_FILENO, data, n);
        if (got >= 0) return got;
        /* EAGAIN: a standard input that another program left non-blocking; poll waits for it. */
        if (errno != EINTR && errno != EAGAIN) return RF_READ_FAILED;
    }
}
