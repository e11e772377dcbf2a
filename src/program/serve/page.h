/* What is sent as it is: the page for chatting, page.html, and the interface, openapi.json. */
#ifndef SERVE_PAGE_H
#define SERVE_PAGE_H

extern const char serve_page[], serve_openapi[];

#endif
