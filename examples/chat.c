/* A chat in a terminal: cc chat.c $(pkg-config --cflags --libs riffle) -o chat && ./chat MODEL
 * Ctrl-C ends an answer, and at the prompt the chat. */
#define _POSIX_C_SOURCE 200809L
#include <riffle.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static riffle_session *session;

static void on_interrupt(int signal)
{
    (void)signal;
    riffle_cancel(session); /* allowed in signal handlers */
}

static int on_event(void *user, const riffle_event *event)
{
    FILE *answer = user;
    fwrite(event->text, 1, event->text_bytes, answer);
    fwrite(event->text, 1, event->text_bytes, stdout);
    return fflush(stdout) != 0 || ferror(answer); /* non-zero stops */
}

/* Prints the answer to n messages and returns it, for the caller to free; "" if there is none. */
static char *print_answer(const riffle_message *messages, size_t n)
{
    char *text = NULL;
    const char *sentence = "";
    size_t bytes;
    FILE *answer = open_memstream(&text, &bytes);
    if (!answer) return perror("chat"), exit(1), NULL;
    if (riffle_chat_prefill(session, messages, n) < 0 ||
        riffle_generate(session, NULL, on_event, answer) < 0)
        sentence = riffle_last_error();
    else
        riffle_session_finish(session, &sentence); /* "" unless there is something to explain */
    fclose(answer);
    printf("\n%s%s", sentence, *sentence ? "\n" : "");
    return text;
}

int main(int argc, char **argv)
{
    riffle_model *model = NULL;
    riffle_sampling sampling;
    riffle_sampling_init(&sampling, sizeof sampling);
    sampling.temperature = 0.7f;
    if (argc < 2 || riffle_model_open(&model, argv[1], NULL) ||
        riffle_session_open(&session, model, NULL) ||
        riffle_session_set_sampling(session, &sampling)) {
        fprintf(stderr, "%s\n", argc < 2 ? "usage: chat MODEL" : riffle_last_error());
        return 1;
    }
    sigaction(SIGINT, &(struct sigaction){.sa_handler = on_interrupt}, NULL);

    riffle_message *messages = NULL; /* the whole conversation; only what is new is read */
    char *line = NULL, *answer = NULL;
    for (size_t n = 0, cap = 0;; line = NULL, cap = 0) {
        printf("> ");
        fflush(stdout);
        if (getline(&line, &cap, stdin) < 0) break; /* also Ctrl-C */
        line[strcspn(line, "\n")] = 0;
        messages = realloc(messages, (n + 2) * sizeof *messages);
        if (!messages) return perror("chat"), 1;
        messages[n] = (riffle_message){"user", line};
        answer = print_answer(messages, n + 1);
        messages[n + 1] = (riffle_message){"assistant", answer};
        if (*answer) n += 2; /* else the turn is forgotten */
    }
    putchar('\n');
    riffle_session_close(session);
    riffle_model_close(model);
    return 0;
}
