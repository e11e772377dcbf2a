/* Files that are sent unchanged: the page for chatting, page.html, and the interface,
 * openapi.json. The build makes arrays of them. */
#ifndef SERVE_PAGE_H
#define SERVE_PAGE_H

extern const char serve_page[], serve_openapi[];

#endif
