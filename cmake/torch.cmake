# libtorch as its own interface target, so that its flags reach only the rooms that include it.
find_package(Torch REQUIRED)
add_library(bigmac_torch INTERFACE IMPORTED GLOBAL)
target_include_directories(bigmac_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
target_link_libraries(bigmac_torch INTERFACE ${TORCH_LIBRARIES})
# Debian's c10d headers hide the Gloo backend behind this macro; the library has it.
target_compile_definitions(bigmac_torch INTERFACE USE_C10D_GLOO)
find_library(BIGMAC_GLOO gloo)
if(BIGMAC_GLOO)
  target_link_libraries(bigmac_torch INTERFACE ${BIGMAC_GLOO})
endif()
