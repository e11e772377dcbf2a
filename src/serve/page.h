/* The page for chatting, page.html. */
#ifndef RF_SERVE_PAGE_H
#define RF_SERVE_PAGE_H

extern const char serve_page[];

#endif
