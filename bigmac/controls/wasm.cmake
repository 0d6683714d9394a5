# The scheduler, the simulator and the columns of the page as one WebAssembly module: engine_wasm, or empty without
# em++ (Debian: emscripten). BIGMAC_WASM: AUTO builds it where em++ is, ON insists, OFF leaves it out.
set(BIGMAC_WASM AUTO CACHE STRING "Build the simulator of the page's controls as WebAssembly: AUTO, ON or OFF")
set_property(CACHE BIGMAC_WASM PROPERTY STRINGS AUTO ON OFF)
if(NOT BIGMAC_WASM)
  return()
endif()
find_program(BIGMAC_EMXX em++)
if(NOT BIGMAC_EMXX)
  if(NOT BIGMAC_WASM STREQUAL "AUTO")
    message(FATAL_ERROR "BIGMAC_WASM is ON and em++ is not found: install emscripten, or set BIGMAC_WASM to AUTO or OFF")
  endif()
  message(STATUS "em++ is not found: pages get no controls but from `bigmac view --serve`")
  return()
endif()

# Of the system's headers only these two: the rest must be emscripten's own.
set(wasm_folder ${CMAKE_CURRENT_BINARY_DIR}/wasm)
file(MAKE_DIRECTORY ${wasm_folder}/include)
foreach(library nlohmann/json.hpp fmt/format.h)
  get_filename_component(name ${library} DIRECTORY)
  find_path(BIGMAC_${name}_INCLUDE ${library} REQUIRED)
  file(CREATE_LINK ${BIGMAC_${name}_INCLUDE}/${name} ${wasm_folder}/include/${name} SYMBOLIC)
endforeach()

file(GLOB wasm_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bigmac/schedule/*.cpp ${PROJECT_SOURCE_DIR}/bigmac/controls/*.cpp)
list(REMOVE_ITEM wasm_sources ${CMAKE_CURRENT_SOURCE_DIR}/page_part.cpp ${CMAKE_CURRENT_SOURCE_DIR}/nearest.cpp)
foreach(name common/names simulate/simulate timeline/timeline timeline/explain view/columns view/facts view/thin
             formats/layout formats/in_quotes analysis/step_model analysis/kinds analysis/causes analysis/faults_operators
             analysis/faults_waits analysis/judge analysis/waits analysis/named_waits analysis/sentences analysis/split)
  list(APPEND wasm_sources ${PROJECT_SOURCE_DIR}/bigmac/${name}.cpp)
endforeach()

# Debian's acorn, which em++ calls, is not on the path of every node.
set(emxx ${CMAKE_COMMAND} -E env NODE_PATH=/usr/share/nodejs CCACHE_COMPILERTYPE=clang)
set(wasm_objects "")
foreach(source ${wasm_sources})
  file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR}/bigmac ${source})
  string(REPLACE / _ name ${name})
  set(object ${wasm_folder}/${name}.o)
  add_custom_command(OUTPUT ${object}
    COMMAND ${emxx} ${CMAKE_CXX_COMPILER_LAUNCHER} ${BIGMAC_EMXX} -std=c++20 -Os -flto -fwasm-exceptions -DFMT_HEADER_ONLY
            -I${PROJECT_SOURCE_DIR} -isystem ${wasm_folder}/include -MMD -MF ${object}.d -c ${source} -o ${object}
    DEPENDS ${source} DEPFILE ${object}.d COMMENT "Building ${name} for WebAssembly" VERBATIM)
  list(APPEND wasm_objects ${object})
endforeach()
set(engine_wasm ${wasm_folder}/engine.wasm)
add_custom_command(OUTPUT ${engine_wasm}
  COMMAND ${emxx} ${BIGMAC_EMXX} -Os -flto -fwasm-exceptions --no-entry -sSTANDALONE_WASM -sALLOW_MEMORY_GROWTH -sMALLOC=emmalloc
          -sEXPORTED_FUNCTIONS=_bigmac_begin,_bigmac_data,_bigmac_size,_bigmac_run,_bigmac_end
          ${wasm_objects} -o ${engine_wasm}
  DEPENDS ${wasm_objects} COMMENT "Linking engine.wasm" VERBATIM)
