/* Counts the tokens of a conversation and drops its oldest turns. Whole turns are dropped: a user's
 * message goes with its answer. */
#include "chat/context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output/errors.h"
#include "output/output.h"
#include "output/wrap.h"
#include "riffle_experimental.h"

int chat_drops(const struct chat *chat)
{
    return strcmp(chat->options->overflow, "drop") == 0;
}

void chat_explain_full(struct chat *chat)
{
    if (!chat->explained_full)
        inform(
            "riffle: the context of %d tokens is full; /undo forgets the last turn, /reset all of "
            "them, and with /set overflow drop the oldest ones go when there is no room",
            riffle_session_n_ctx(chat->engine.session));
    chat->explained_full = 1;
    cli_room = "/undo or /reset makes room";
}

/* The tokens of the system message and of all messages from `first` on, ready for an answer; or a
 * negative code. */
static int64_t conversation_tokens(struct chat *chat, size_t first)
{
    char *document = conversation_document(&chat->conversation, chat->engine.model, first);
    int64_t n = riffle_chat_tokenize_json(chat->engine.model, document, strlen(document), NULL, 0);
    free(document);
    return n;
}

/* The user's message that follows the turn at `first`; the count if that turn is the last. */
static size_t next_turn(const struct conversation *conversation, size_t first)
{
    size_t next = first + 1;
    while (next < conversation_count(conversation) &&
           !conversation_has_role(conversation, next, "user"))
        next++;
    return next;
}

int chat_make_room(struct chat *chat, size_t n_answer)
{
    struct conversation *conversation = &chat->conversation;
    const size_t begin = conversation_system(conversation) ? 1 : 0;
    int64_t n_ctx = riffle_session_n_ctx(chat->engine.session), room = n_ctx / 16, n;
    size_t first = begin;
    int turns = 0;
    /* Once turns must go, as many go that the next ones need not: every time all is read again. */
    for (;; room = n_ctx / 4, turns++) {
        n = conversation_tokens(chat, first);
        if (n < 0) return cli_status(n);
        n += (int64_t)n_answer;
        size_t next = next_turn(conversation, first);
        int fits = n + room <= n_ctx && (turns || !n_answer);
        if (fits || next >= conversation_count(conversation)) break;
        first = next;
    }
    int is_too_long = n >= n_ctx || (n_answer && turns == 0);
    if (n_answer && chat->interactive) fputc('\n', stderr); /* the cursor is behind the answer */
    if (is_too_long && n_answer)
        return cli_fail("the context of %lld tokens is full, and no older turn is left to drop; "
                        "/undo forgets this one, /reset all",
                        (long long)n_ctx);
    if (is_too_long)
        return cli_fail("the message has %lld tokens with what comes before it%s, and the context "
                        "%lld; a shorter one may fit",
                        (long long)n, begin ? ", the system message," : "", (long long)n_ctx);
    if (turns == 0) return CLI_OK;
    conversation_drop(conversation, begin, first - begin);
    inform("dropped the oldest turn%s (%d): the context of %lld tokens was full", plural(turns),
           turns, (long long)n_ctx);
    return CLI_OK;
}
