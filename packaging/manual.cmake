# The manual page and the completions come from the program's own table of options. The build runs
# this program, so it is never instrumented: a sanitizer may not run where compilers do.
set(PROGRAM ${CMAKE_SOURCE_DIR}/src/program)
add_executable(riffle_manual ${PROGRAM}/manual/main.c ${PROGRAM}/manual/page.c
  ${PROGRAM}/manual/completions.c ${PROGRAM}/options/option_table.c)
target_link_libraries(riffle_manual PRIVATE riffle_manual_headers)
target_compile_options(riffle_manual PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion)
set(MANUAL ${CMAKE_BINARY_DIR}/manual)
set(MANUAL_FILES ${MANUAL}/riffle.1 ${MANUAL}/riffle.bash ${MANUAL}/_riffle ${MANUAL}/riffle.fish)
file(MAKE_DIRECTORY ${MANUAL})
add_custom_command(OUTPUT ${MANUAL_FILES} VERBATIM
  COMMAND riffle_manual ${PROJECT_VERSION} ${RIFFLE_DATE} ${MANUAL} DEPENDS riffle_manual)
add_custom_target(riffle_manual_files ALL DEPENDS ${MANUAL_FILES})

install(FILES ${MANUAL}/riffle.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
install(FILES ${MANUAL}/riffle.bash RENAME riffle COMPONENT program
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${MANUAL}/_riffle COMPONENT program
  DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/${RIFFLE_ZSH_FOLDER}site-functions)
install(FILES ${MANUAL}/riffle.fish COMPONENT program
  DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
