# Writes a WebAssembly module into a C++ source: cmake -DWASM=engine.wasm -DOUTPUT=engine.cpp -P embed_wasm.cmake
set(bytes "")
set(size 0)
if(WASM)
  file(READ ${WASM} hex HEX)
  string(LENGTH "${hex}" digits)
  math(EXPR size "${digits} / 2")
  string(REGEX REPLACE "(..)" "\\\\x\\1" escaped "${hex}")
  string(LENGTH "${escaped}" length)
  set(at 0)
  while(at LESS length)
    string(SUBSTRING "${escaped}" ${at} 8000 part)
    string(APPEND bytes "\n    \"${part}\"")
    math(EXPR at "${at} + 8000")
  endwhile()
endif()
if(size EQUAL 0)
  set(bytes "\"\"")
endif()
file(WRITE ${OUTPUT} "#include \"bigmac/controls/page_part.h\"

namespace bigmac {

std::string_view engine() {
  return {${bytes},
          ${size}};
}

}  // namespace bigmac
")
