# Writes OUT, which defines riffle_commit (output/origin.h): what git says of the checkout SOURCE, or
# "unknown". An OUT that would not change is left alone, so that nothing is compiled again.
# cmake -DSOURCE=... -DOUT=... -P commit.cmake
set(commit unknown)
if(EXISTS ${SOURCE}/.git)
  execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=12
    OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed AND described MATCHES "^[A-Za-z0-9._/+-]+$")
    set(commit ${described})
  endif()
endif()
set(text "#include \"output/origin.h\"\n\nconst char riffle_commit[] = \"${commit}\";\n")
if(EXISTS ${OUT})
  file(READ ${OUT} before)
endif()
if(NOT text STREQUAL "${before}")
  file(WRITE ${OUT} "${text}")
endif()
