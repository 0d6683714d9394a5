# Writes the files of the page into a C++ source: cmake -DFOLDER=page -DOUTPUT=page_files.cpp -P embed.cmake. A string
# literal is cut into parts, since compilers limit one part's length.
function(literal variable)
  set(parts "")
  foreach(file ${ARGN})
    file(READ ${FOLDER}/${file} text)
    string(LENGTH "${text}" length)
    set(at 0)
    while(at LESS length)
      string(SUBSTRING "${text}" ${at} 8000 part)
      string(APPEND parts "\n    R\"page(${part})page\"")
      math(EXPR at "${at} + 8000")
    endwhile()
  endforeach()
  set(${variable} "${parts}" PARENT_SCOPE)
endfunction()

literal(body page.html)
literal(style ${STYLES})
literal(script ${SCRIPTS})
file(WRITE ${OUTPUT} "#include \"bigmac/view/page_files.h\"

namespace bigmac {

std::string_view page_body() {
  return${body};
}

std::string_view page_style() {
  return${style};
}

std::string_view page_script() {
  return${script};
}

}  // namespace bigmac
")
