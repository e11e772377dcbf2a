/* Writes the image of an object file about generated functions: where the code is, its frames, and
 * its symbols. GDB reads it from memory. The bytes of the code are not in it. */
#include <elf.h>
#include <string.h>

#include "platform/posix/description.h"

enum { TEXT = 1, FRAMES, SYMBOLS, STRINGS, SECTIONS };

static const char section_names[] = "\0.text\0.eh_frame\0.symtab\0.strtab";
static const unsigned char name_at[SECTIONS] = {0, 1, 7, 17, 25};

struct head {
    Elf64_Ehdr file;
    Elf64_Shdr sections[SECTIONS];
};

static size_t symbols_bytes(size_t n)
{
    return (n + 1) * sizeof(Elf64_Sym); /* the first one is empty */
}

size_t rf_object_bytes(size_t frames_bytes, const struct rf_function *functions, size_t n)
{
    size_t strings = sizeof section_names;
    for (size_t i = 0; i < n; i++) strings += strlen(functions[i].name) + 1;
    return sizeof(struct head) + frames_bytes + symbols_bytes(n) + strings;
}

/* Writes symbols and their names. Returns the size of the names. */
static size_t write_symbols(const struct rf_description *description, Elf64_Sym *symbols,
                            char *strings)
{
    size_t at = sizeof section_names;
    memcpy(strings, section_names, sizeof section_names);
    symbols[0] = (Elf64_Sym){0};
    for (size_t i = 0; i < description->n; i++) {
        const struct rf_function *function = &description->functions[i];
        size_t bytes = strlen(function->name) + 1;
        memcpy(strings + at, function->name, bytes);
        symbols[i + 1] = (Elf64_Sym){.st_name = (Elf64_Word)at,
                                     .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                                     .st_shndx = TEXT,
                                     .st_value = function->begin,
                                     .st_size = function->end - function->begin};
        at += bytes;
    }
    return at;
}

static Elf64_Ehdr file_header(void)
{
    return (Elf64_Ehdr){.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
                                    EV_CURRENT, ELFOSABI_NONE},
                        .e_type = ET_REL,
                        .e_machine = EM_X86_64,
                        .e_version = EV_CURRENT,
                        .e_shoff = offsetof(struct head, sections),
                        .e_ehsize = sizeof(Elf64_Ehdr),
                        .e_shentsize = sizeof(Elf64_Shdr),
                        .e_shnum = SECTIONS,
                        .e_shstrndx = STRINGS};
}

void rf_object_write(struct rf_description *description, unsigned char *to,
                     const unsigned char *memory, const struct rf_prologue *prologue)
{
    size_t n = description->n, frames = sizeof(struct head),
           symbols = frames + rf_frames_bytes(prologue, n), strings = symbols + symbols_bytes(n);
    struct head head = {.file = file_header()};
    description->frames = to + frames;
    rf_frames_write(description->frames, memory, prologue, description->functions, n);
    size_t strings_bytes =
        write_symbols(description, (Elf64_Sym *)(to + symbols), (char *)to + strings);
    head.sections[TEXT] = (Elf64_Shdr){.sh_type = SHT_NOBITS,
                                       .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
                                       .sh_addr = (Elf64_Addr)(uintptr_t)memory,
                                       .sh_size = description->functions[n - 1].end,
                                       .sh_addralign = 64};
    head.sections[FRAMES] = (Elf64_Shdr){.sh_type = SHT_PROGBITS,
                                         .sh_flags = SHF_ALLOC,
                                         .sh_addr = (Elf64_Addr)(uintptr_t)description->frames,
                                         .sh_offset = frames,
                                         .sh_size = symbols - frames,
                                         .sh_addralign = 8};
    head.sections[SYMBOLS] = (Elf64_Shdr){.sh_type = SHT_SYMTAB,
                                          .sh_offset = symbols,
                                          .sh_size = strings - symbols,
                                          .sh_link = STRINGS,
                                          .sh_info = 1, /* symbols before it are local */
                                          .sh_addralign = 8,
                                          .sh_entsize = sizeof(Elf64_Sym)};
    head.sections[STRINGS] = (Elf64_Shdr){
        .sh_type = SHT_STRTAB, .sh_offset = strings, .sh_size = strings_bytes, .sh_addralign = 1};
    for (int i = 0; i < SECTIONS; i++) head.sections[i].sh_name = name_at[i];
    memcpy(to, &head, sizeof head);
}
