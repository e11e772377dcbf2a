# CMake's toolchain for Windows on x86-64 by mingw-w64 (gcc, POSIX threads), as Debian packs it.
# scripts/windows uses it; RIFFLE_WINDOWS_DEPENDENCIES is the folder of the libraries built there.
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_VERSION 10)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(target x86_64-w64-mingw32)
set(CMAKE_C_COMPILER ${target}-gcc-posix)
set(CMAKE_CXX_COMPILER ${target}-g++-posix)
set(CMAKE_RC_COMPILER ${target}-windres)
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES RIFFLE_WINDOWS_DEPENDENCIES)
set(CMAKE_FIND_ROOT_PATH ${RIFFLE_WINDOWS_DEPENDENCIES} /usr/${target})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_CROSSCOMPILING_EMULATOR wine)

set(ENV{PKG_CONFIG_LIBDIR} ${RIFFLE_WINDOWS_DEPENDENCIES}/lib/pkgconfig)
set(PKG_CONFIG_ARGN --static)
# - What headers need to know where their libraries are linked statically.
# - printf and its like are mingw-w64's, which know C99's formats; names of POSIX are visible.
# - Wide registers are stored with unaligned moves: the stack of Windows is aligned to 16 bytes, and
#   gcc keeps copies of them there as if it were more
#   (https://gcc.gnu.org/bugzilla/show_bug.cgi?id=54412).
# - Warnings about formats, which gcc takes as Microsoft's, and about conversions, which mingw-w64's
#   isfinite() makes, are left to builds for Linux.
set(flags "-DPCRE2_STATIC -DUTF8PROC_STATIC -DCURL_STATICLIB -DZYDIS_STATIC_BUILD \
-DZYCORE_STATIC_BUILD -D_WIN32_WINNT=0x0A00 -D__USE_MINGW_ANSI_STDIO=1 -U__STRICT_ANSI__ \
-Wa,-muse-unaligned-vector-move -Wno-format -Wno-format-extra-args \
-Wno-float-conversion")
set(CMAKE_C_FLAGS_INIT "${flags}")
string(REPLACE " -U__STRICT_ANSI__" "" flags "${flags}") # libstdc++ sees to that itself
set(CMAKE_CXX_FLAGS_INIT "${flags}")
foreach(kind EXE SHARED MODULE)
  set(CMAKE_${kind}_LINKER_FLAGS_INIT -static)
endforeach()
# FindOpenMP would take the import libraries.
execute_process(COMMAND ${CMAKE_C_COMPILER} -print-file-name=libgomp.a
  OUTPUT_VARIABLE gomp OUTPUT_STRIP_TRAILING_WHITESPACE)
set(OpenMP_C_FLAGS -fopenmp)
set(OpenMP_C_LIB_NAMES gomp)
set(OpenMP_gomp_LIBRARY ${gomp})
