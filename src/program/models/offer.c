/* The choice is that of `riffle pull` without a name. */
#include "models/offer.h"

#include <stdlib.h>
#include <string.h>

#include "models/propose.h"
#include "output/errors.h"
#include "output/output.h"
#include "riffle_experimental.h"
#include "terminal/ask.h"

/* The name of an entry that suits; NULL: none is here. */
static int find_entry(const struct model_list *list, char **name)
{
    riffle_machine machine;
    riffle_read_speed read;
    if (riffle_machine_get(&machine, sizeof machine) != RIFFLE_OK ||
        riffle_measure_read(0, &read, sizeof read) != RIFFLE_OK)
        return cli_fail("%s", riffle_last_error());
    const struct model_entry *entry =
        propose_entry(list, machine.memory_bytes, read.bytes_per_second);
    *name = entry ? cli_copy(entry->name, strlen(entry->name)) : NULL;
    return CLI_OK;
}

/* The question that chat itself asks is whether to fetch it. */
static int offer_known(char **name)
{
    struct proposal proposal;
    int status = propose_model(&proposal);
    if (status != CLI_OK) return status;
    inform("No model is here. %s: %s", proposal.sentence, proposal.model->name);
    *name = cli_copy(proposal.model->name, strlen(proposal.model->name));
    return CLI_OK;
}

static int ask(char **name)
{
    struct buffer question = {0};
    buffer_puts(&question, "Chat with ");
    append_name(&question, *name);
    buffer_puts(&question, "?");
    enum answer answer = ask_yes_no(question.data, ANSWER_YES);
    buffer_free(&question);
    if (answer != ANSWER_YES) {
        free(*name);
        *name = NULL;
    }
    return answer == ANSWER_INTERRUPTED ? CLI_INTERRUPTED : CLI_OK;
}

int offer_chat(char **name)
{
    struct model_list list;
    int status = model_list_read(&list);
    *name = NULL;
    if (status == CLI_OK) status = find_entry(&list, name);
    model_list_free(&list);
    if (status != CLI_OK) return status;
    return *name ? ask(name) : offer_known(name);
}
