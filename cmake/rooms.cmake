# A room is one static library under bigmac/<name>; its sources are all .cpp files of its folder.
#   bigmac_room(schedule DEPENDS common)
function(bigmac_room name)
  cmake_parse_arguments(ROOM "" "" "DEPENDS;LIBRARIES" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  add_library(bigmac_${name} STATIC ${sources})
  target_include_directories(bigmac_${name} PUBLIC ${PROJECT_SOURCE_DIR})
  list(TRANSFORM ROOM_DEPENDS PREPEND bigmac_)
  target_link_libraries(bigmac_${name} PUBLIC ${ROOM_DEPENDS} ${ROOM_LIBRARIES})
endfunction()

# One test program per room: all .cpp files under tests/<name>.
#   bigmac_tests(schedule DEPENDS simulate)
function(bigmac_tests name)
  cmake_parse_arguments(TESTS "" "" "DEPENDS;LIBRARIES" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cpp)
  if(NOT sources)
    return()
  endif()
  add_executable(test_${name} ${sources})
  list(TRANSFORM TESTS_DEPENDS PREPEND bigmac_)
  target_include_directories(test_${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(test_${name} PRIVATE ${TESTS_DEPENDS} ${TESTS_LIBRARIES} GTest::gtest_main)
  target_compile_definitions(test_${name} PRIVATE
    BIGMAC_SHARED_DATA="${PROJECT_SOURCE_DIR}/../shared/data"
    BIGMAC_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
    BIGMAC_PROGRAM="${CMAKE_BINARY_DIR}/bin/bigmac")
  set(properties TIMEOUT 600)
  if(BIGMAC_SANITIZE MATCHES "thread")
    list(APPEND properties ENVIRONMENT "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/tsan.supp")
  endif()
  gtest_discover_tests(test_${name} TEST_PREFIX "${name}." DISCOVERY_TIMEOUT 120 PROPERTIES ${properties})
endfunction()
