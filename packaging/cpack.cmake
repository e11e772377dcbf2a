# `cpack -G DEB`: the packages riffle, riffle-heads, libriffle0 and libriffle-dev. scripts/deb runs it in a build
# whose prefix is Debian's.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME riffle)
set(CPACK_PACKAGE_CONTACT "Riffle maintainers <maintainers@riffle.example>" CACHE STRING
  "Who maintains the packages: NAME <ADDRESS>")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "") # each description below begins with its own
set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_COMPONENTS_ALL program library development) # the notices are in Debian's copyright
if(RIFFLE_HEADS)
  list(APPEND CPACK_COMPONENTS_ALL heads)
endif()
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ
  GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SOURCE riffle)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(revision ${CPACK_DEBIAN_PACKAGE_RELEASE})

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME riffle)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS libopenblas0)
if(RIFFLE_HEADS)
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS riffle-heads)
endif()
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION "large language models on the CPU
Riffle answers, chats and measures with large language models on the cores of
a CPU. It reads GGUF and safetensors files, and speculates: cheap drafts
are verified by the model, which makes it faster and changes no token.
.
This package has the program, its manual page and its completions.")

set(CPACK_DEBIAN_HEADS_PACKAGE_NAME riffle-heads)
set(CPACK_DEBIAN_HEADS_PACKAGE_SECTION science)
set(CPACK_DEBIAN_HEADS_PACKAGE_ARCHITECTURE all)
set(CPACK_COMPONENT_HEADS_DESCRIPTION "large language models on the CPU (draft heads)
Riffle runs large language models on the cores of a CPU, and speculates: cheap
drafts are verified by the model, which makes it faster and changes no token.
.
This package has draft heads: small networks that draft for certain models.")

set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libriffle${PROJECT_VERSION_MAJOR})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "large language models on the CPU (shared library)
Riffle runs large language models on the cores of a CPU. Its library has a C
interface of opaque handles; it never aborts, exits or prints.
.
This package has the shared library.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libriffle-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
  "libriffle${PROJECT_VERSION_MAJOR} (= ${PROJECT_VERSION}-${revision})")
# For programs that link libriffle.a.
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_RECOMMENDS "libhwloc-dev, libjansson-dev, libpcre2-dev, \
libutf8proc-dev, libsentencepiece-dev, libzydis-dev")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "large language models on the CPU (development files)
Riffle runs large language models on the cores of a CPU. Its library has a C
interface of opaque handles; it never aborts, exits or prints.
.
This package has the headers, the static library, and the files that
pkg-config and CMake read.")

# What dpkg-shlibdeps reads when other packages are made. ldconfig is run by CPack's own postinst.
set(SHLIBS ${CMAKE_BINARY_DIR}/debian/shlibs)
file(WRITE ${SHLIBS} "libriffle ${PROJECT_VERSION_MAJOR} libriffle${PROJECT_VERSION_MAJOR} \
(>= ${PROJECT_VERSION})\n")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${SHLIBS})

# Compression, copyright and changelog, before each package is packed.
set(CPACK_RIFFLE_DEBIAN ${CMAKE_SOURCE_DIR}/packaging/debian)
set(CPACK_PRE_BUILD_SCRIPTS ${CPACK_RIFFLE_DEBIAN}/prepare.cmake)
include(CPack)
