# What `cmake --install` copies, in five components: the program, the draft heads, the shared
# library, what developers need, and the notices.

# The date of the manual page. A release changes it with the version.
set(RIFFLE_DATE 2026-11-22)

# For scripts/bundle: the program and the library find their libraries in lib/ of the bundle, and
# there is no static library.
option(RIFFLE_BUNDLE "Install for a folder that carries all libraries" OFF)

include(CMakePackageConfigHelpers)
set(RIFFLE_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/riffle)
set(RIFFLE_PC_DIR ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
string(REGEX REPLACE "[^/]+" ".." RIFFLE_PC_TO_PREFIX ${RIFFLE_PC_DIR})

if(RIFFLE_BUNDLE)
  set_target_properties(riffle_cli PROPERTIES INSTALL_RPATH $ORIGIN/../${CMAKE_INSTALL_LIBDIR})
  set_target_properties(riffle_shared PROPERTIES INSTALL_RPATH $ORIGIN)
else()
  # The libraries that libriffle.a needs. They are not in Requires.private: pkg-config would then
  # want their .pc files for programs that link the shared library, too, and what the static forms
  # of these libraries need in turn.
  set(private ${HWLOC_LDFLAGS} ${JANSSON_LDFLAGS} ${PCRE2_LDFLAGS} ${UTF8PROC_LDFLAGS}
    ${SENTENCEPIECE_LDFLAGS} -lZydis)
  list(REMOVE_ITEM private -lsentencepiece_train)
  set(languages ${CMAKE_CXX_IMPLICIT_LINK_LIBRARIES})
  list(FILTER languages INCLUDE REGEX "^(std)?c\\+\\+$")
  foreach(name ${OpenMP_C_LIB_NAMES} ${languages} m)
    list(APPEND private -l${name})
  endforeach()
  list(JOIN private " " private)
  set(RIFFLE_PC_PRIVATE "Libs.private: ${private}\n")
endif()
configure_file(${CMAKE_CURRENT_LIST_DIR}/riffle.pc.in riffle.pc @ONLY)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/riffle-config.cmake.in riffle-config.cmake
  INSTALL_DESTINATION ${RIFFLE_CMAKE_DIR} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(riffle-config-version.cmake COMPATIBILITY SameMinorVersion)

if(NOT WIN32)
  include(${CMAKE_CURRENT_LIST_DIR}/manual.cmake)
endif()
install(TARGETS riffle_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)

install(FILES packaging/systemd/riffle@.service DESTINATION ${CMAKE_INSTALL_DATADIR}/riffle
  COMPONENT program)

install(DIRECTORY training/heads DESTINATION ${CMAKE_INSTALL_DATADIR}/riffle COMPONENT heads
  FILES_MATCHING PATTERN *.gguf)

install(TARGETS riffle_shared EXPORT riffle-shared
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT library
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT development
  PUBLIC_HEADER DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
install(EXPORT riffle-shared NAMESPACE riffle:: DESTINATION ${RIFFLE_CMAKE_DIR}
  COMPONENT development)
if(NOT RIFFLE_BUNDLE)
  install(TARGETS riffle_static EXPORT riffle-static
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
  install(EXPORT riffle-static NAMESPACE riffle:: DESTINATION ${RIFFLE_CMAKE_DIR}
    COMPONENT development)
endif()
install(FILES ${CMAKE_BINARY_DIR}/riffle-config.cmake
  ${CMAKE_BINARY_DIR}/riffle-config-version.cmake DESTINATION ${RIFFLE_CMAKE_DIR}
  COMPONENT development)
install(FILES ${CMAKE_BINARY_DIR}/riffle.pc DESTINATION ${RIFFLE_PC_DIR} COMPONENT development)
# The program carries the prompts, whose licence wants its notice beside it.
install(FILES LICENSE THIRD-PARTY.md bench/prompts/SOURCES.md
  DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT notices)
