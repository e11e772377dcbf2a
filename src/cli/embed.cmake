# Writes the file IN as a C array to OUT: cmake -DIN=... -DOUT=... -P embed.cmake
file(READ ${IN} hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
string(REGEX REPLACE "(................................................................................)" "\\1\n" bytes "${bytes}")
file(WRITE ${OUT} "#include \"cli/known_models.h\"\n\nconst char known_models_tsv[] = {\n${bytes}0};\n")
