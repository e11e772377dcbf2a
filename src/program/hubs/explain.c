/* One sentence for each status that a hub refuses with, which names the repository, the hub and the
 * variable that helps. */
#include "hubs/explain.h"

#include <string.h>

#include "hubs/token.h"

static const char *const titles[HUB_COUNT] = {[HUB_HUGGINGFACE] = "Hugging Face",
                                              [HUB_OLLAMA] = "ollama's registry",
                                              [HUB_MODELSCOPE] = "ModelScope"};

int hub_explain(const struct hub_name *name, const struct http_refusal *refusal,
                struct rf_error *error)
{
    char text[HUB_NAME_TEXT], address[512];
    const char *variable = hub_token_variable(name->hub), *hub = titles[name->hub];
    int has_token = hub_token(name->hub) != NULL, status = refusal->status;
    int is_gated = strcmp(refusal->reason, "GatedRepo") == 0;
    hub_name_write(name, text);
    hub_address(name->hub, address, sizeof address);
    if (status == 429 && refusal->retry_after >= 0)
        return rf_fail(error, RF_ERR_IO, "%s takes no more requests now: try again in %d seconds",
                       hub, refusal->retry_after);
    if (status == 429)
        return rf_fail(error, RF_ERR_IO, "%s takes no more requests now: try again later", hub);
    if (status == 404 || (status == 401 && strcmp(refusal->reason, "RepoNotFound") == 0))
        return rf_fail(error, RF_ERR_IO, "%s has no %s%s%s%s", hub, text,
                       variable && !has_token ? ", or only for its owner: then set " : "",
                       variable && !has_token ? variable : "",
                       strcmp(refusal->reason, "RevisionNotFound") == 0 ? " in this revision" : "");
    if ((status != 401 && status != 403) || !variable) return error->code;
    if (!has_token)
        return rf_fail(error, RF_ERR_IO,
                       "%s is only for those who accepted its conditions: accept them on %s/%s/%s, "
                       "and set %s to a token of your account",
                       text, address, name->owner, name->repo, variable);
    if (is_gated || status == 403)
        return rf_fail(error, RF_ERR_IO,
                       "the account of %s may not read %s: accept its conditions on %s/%s/%s",
                       variable, text, address, name->owner, name->repo);
    return rf_fail(error, RF_ERR_IO, "%s does not accept the token in %s for %s", hub, variable,
                   text);
}
