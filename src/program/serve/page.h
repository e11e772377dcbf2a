/* Files that are sent unchanged: the page for chatting with what it loads, in the folder page, and
 * the interface, openapi.json. The build makes arrays of them. */
#ifndef SERVE_PAGE_H
#define SERVE_PAGE_H

/* A file that the page loads, by its name below page. */
struct page_file {
    const char *name, *text;
};

extern const char serve_page[], serve_openapi[];
/* Ended by a name that is NULL. */
extern const struct page_file page_files[];

#endif
